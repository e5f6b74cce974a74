"""What moves numbers from token to token, a file each: `MIXERS` has them by name, attention first."""

from attnscope.schemes.mixers.mixer import Attention, Mixer
from attnscope.schemes.registry import schemes_of

__all__ = ["MIXERS", "Attention", "Mixer"]

MIXERS = schemes_of(__name__, Mixer)
