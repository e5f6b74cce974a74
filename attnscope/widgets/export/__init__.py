"""Exporting figures."""
