"""The Learn page, tours and help."""
