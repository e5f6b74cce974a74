"""Masks of self-attention, a file each: `MASKS` has them by name, in their order."""

from attnscope.schemes import schemes_of
from attnscope.schemes.masks.mask import Mask

__all__ = ["MASKS", "Mask"]

MASKS = schemes_of(__name__, Mask)
