"""Reproductions of published results: each is one command, one figure and one table, theirs beside ours."""
