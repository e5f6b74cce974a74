"""The Explore page: text, grid, one head, lines."""
