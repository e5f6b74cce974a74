"""Shared by all ways to add to the stream: the number of streams, and the demands on a configuration."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, ClassVar

from attnscope.schemes import Scheme

if TYPE_CHECKING:
    from attnscope.nn import ModelConfig


class Residual(Scheme):
    """How the branches of a layer are added to their input."""

    words: ClassVar[str] = ""
    """Description for the user."""
    source: ClassVar[str] = ""
    """Its source: authors and year."""
    formula: ClassVar[str] = ""
    """The stream after a branch f."""
    choices: ClassVar[tuple[str, ...]] = ()
    """The keys of a configuration that it reads."""
    n_streams: ClassVar[int] = 1

    def faults(self, config: "ModelConfig") -> Iterator[tuple[str, str]]:
        """Keys of a Transformer that conflict with it, with what is expected."""
        yield from ()


class Plain(Residual):
    name, title, order = "plain", "plain", 0
    words = "each branch reads the one stream and is added to it"
    source = "He et al. 2015; Vaswani et al. 2017"
    formula = "x ← x + f(x)"
    choices = ("has_residual",)
