"""The shelf of open models: its list, the models on this computer, and the one way to download.

Imports no torch and no Qt; the libraries of Hugging Face only where a function needs them.
"""
