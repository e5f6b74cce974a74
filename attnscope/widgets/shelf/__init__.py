"""The shelf of open models in the window."""
