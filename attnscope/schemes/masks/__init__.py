"""Masks of self-attention, a file each: `MASKS` has them by name, in their order."""

from attnscope.schemes.masks.mask import Mask
from attnscope.schemes.registry import schemes_of

__all__ = ["MASKS", "Mask"]

MASKS = schemes_of(__name__, Mask)
