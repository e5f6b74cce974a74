"""Shared by all masks of self-attention: which keys a query sees, besides causality.

A mask is made of a window, in steps; of keys at every distance that a stride divides; of tokens at the
beginning that see everything and are seen by all; of random links between blocks; or of a prefix that all
tokens see; or of segments that remember tokens before them (`nn/self_masks.py`).
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, ClassVar

from attnscope.schemes import Scheme

if TYPE_CHECKING:
    from attnscope.nn import ModelConfig


class Mask(Scheme):
    """A mask; by default a window with step 1."""

    words: ClassVar[str] = ""
    """Keys that a query sees, in words."""
    seen: ClassVar[str] = ""
    """The keys j that query i sees, as the lab shows it; without one it shows the words."""
    source: ClassVar[str] = ""
    """Its source: authors and year."""
    choices: ClassVar[tuple[str, ...]] = ()
    """The keys of a configuration that it reads."""
    is_full: ClassVar[bool] = False
    """Whether every query sees every key."""
    has_prefix: ClassVar[bool] = False
    """Whether all tokens see the first `prefix_tokens`, and no window is there."""
    is_band: ClassVar[bool] = False
    """Whether no query sees a key further away than `reach`."""
    is_sparse: ClassVar[bool] = False
    """Whether more than the two ends of a window have to be described."""
    recalls: ClassVar[bool] = False
    """Whether a text is read in segments that remember tokens before them, and no window is there."""
    draws_links: ClassVar[bool] = False
    """Whether blocks are linked at random."""

    def faults(self, config: "ModelConfig") -> Iterator[tuple[str, str]]:
        """Keys of a Transformer that conflict with this mask, with what is expected."""
        yield from ()

    def step(self, config: "ModelConfig") -> int:
        """The distance between the keys of the window."""
        return 1

    def stride(self, config: "ModelConfig") -> int:
        """The stride of keys visible at any distance; 0 if there are none."""
        return 0

    def n_global(self, config: "ModelConfig") -> int:
        """Number of initial tokens that see everything and are seen by all."""
        return 0
