"""The shelf of open models: what is on it, what is on this computer, and the one way of downloading.

Imports no torch and no Qt; the libraries of Hugging Face only where a function needs them.
"""
