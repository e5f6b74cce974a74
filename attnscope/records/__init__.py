"""Frozen facts that travel between the parts of AttnScope.

Everything here is plain Python and numpy: no Qt, no torch. Arrays in records are read-only.
"""
