"""Reproductions of published results, each a file of resources/studies; here is what they share."""
