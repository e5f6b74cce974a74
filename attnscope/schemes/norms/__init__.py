"""Norms, a file each: `NORMS` has them by name, in the order in which messages list them."""

from attnscope.schemes import schemes_of
from attnscope.schemes.norms.norm import NormScheme

__all__ = ["NORMS", "NormScheme"]

NORMS = schemes_of(__name__, NormScheme)
