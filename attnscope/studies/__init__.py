"""Reproductions of published results, each a file of resources/studies; this is their common part."""
