"""The state of text that a model writes."""
