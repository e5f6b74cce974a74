"""The state of the Compare page."""
