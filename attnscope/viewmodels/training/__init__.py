"""The state of the training page."""
