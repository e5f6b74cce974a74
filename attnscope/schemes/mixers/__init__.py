"""Mixers, which move information from token to token, a file each: `MIXERS` has them by name, attention
first.
"""

from attnscope.schemes import schemes_of
from attnscope.schemes.mixers.mixer import Attention, Mixer

__all__ = ["MIXERS", "Attention", "Mixer"]

MIXERS = schemes_of(__name__, Mixer)
