"""Shared by all mixers: the part of a layer in which tokens read one another.

Attention is one of several. Each of the others gives a token a sum over tokens up to it, o_i = Σ_j w_ij v_j,
and can write its weights out (`nn/mixing.py`): its hidden attention (Ali et al.
2024), whose weights may be below 0 and need not add up to 1. So they have no heads in the sense of sites.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, ClassVar

from attnscope.schemes import Scheme
from attnscope.schemes.masks import MASKS
from attnscope.schemes.positions import POSITIONS

if TYPE_CHECKING:
    from attnscope.nn import ModelConfig


class Mixer(Scheme):
    """A mixer of a decoder's layers; by default one that is not attention."""

    words: ClassVar[str] = ""
    """Description for the user."""
    source: ClassVar[str] = ""
    """Its source: authors and year."""
    formula: ClassVar[str] = ""
    """The weight w_ij that the token i gives to the value of the token j ≤ i."""
    choices: ClassVar[tuple[str, ...]] = ()
    """The keys of a configuration that it reads."""
    is_attention: ClassVar[bool] = False
    reads_turns: ClassVar[bool] = False
    """Whether it has queries and keys that positions may turn."""

    def faults(self, config: "ModelConfig") -> Iterator[tuple[str, str]]:
        """Keys of a Transformer that conflict with this mixer, with what is expected."""
        of = f'beside mixer = "{self.name}"'
        if config.form != "decoder":
            yield "mixer", "attention: only layers of the form decoder may mix tokens in another way"
        if not MASKS[config.mask].is_full:
            yield "mask", f"full {of}, which has no single pairs to hide"
        if config.score != "scaled-dot":
            yield "score", f"scaled-dot, which is not looked at {of}"
        usual = [
            one.name for one in POSITIONS.values() if not one.is_of_text or (one.is_turn and self.reads_turns)
        ]
        if config.position not in usual:
            yield "position", f"{', '.join(usual)} {of}: it has no scores"
        if config.n_kv_heads is not None:
            yield "n_kv_heads", f"nothing {of}"
        if config.attention_dropout:
            yield "attention_dropout", f"0 or nothing {of}: it has no weights to drop"

    def matrices(self, config: "ModelConfig") -> tuple[tuple[int, int], ...]:
        """Inputs and outputs of the linear layers of one layer."""
        return ()

    def n_more(self, config: "ModelConfig") -> int:
        """Other parameters of a layer."""
        return 0

    def n_products(self, config: "ModelConfig") -> int:
        """Products for each token besides those of the linear layers."""
        return 0

    def n_kept(self, config: "ModelConfig", n_tokens: int) -> int:
        """Numbers kept of one token for the backward pass, between the linear layers."""
        return 0

    def n_learned(self, config: "ModelConfig") -> int:
        """Parameters of one layer."""
        n_biases = sum(n_out for _, n_out in self.matrices(config)) if config.bias else 0
        return sum(n_in * n_out for n_in, n_out in self.matrices(config)) + n_biases + self.n_more(config)


class Attention(Mixer):
    name, title, order = "attention", "attention", 0
    words, source = (
        "a weighted mean over keys by score, softmax(s)",
        "Bahdanau et al. 2014; Vaswani et al. 2017",
    )
    formula = "softmax(s)"
    is_attention = True

    def faults(self, config: "ModelConfig") -> Iterator[tuple[str, Any]]:
        yield from ()
