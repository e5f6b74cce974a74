"""The panel in which a model writes."""
