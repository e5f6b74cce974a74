"""Guided tours and what they claim."""
