"""Painting with Qt, for screen and file alike, and export. Knows records; never torch."""
