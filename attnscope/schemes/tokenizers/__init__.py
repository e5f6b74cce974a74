"""Kinds of tokenizers, a file each: `KINDS` has them by name, in the order in which users meet them.

Every vocabulary begins with the same five special tokens, so their ids are 0 to 4 everywhere. What a kind is
made of comes from the library `tokenizers`, which is imported when one is made.
"""

from attnscope.schemes import schemes_of
from attnscope.schemes.tokenizers.kind import SPECIALS, Seen, TokenizerKind, byte_alphabet

__all__ = ["KINDS", "SPECIALS", "Seen", "TokenizerKind", "byte_alphabet"]

KINDS = schemes_of(__name__, TokenizerKind)  # type: ignore[type-abstract]  # those with a name are whole
