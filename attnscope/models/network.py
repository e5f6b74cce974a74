"""What stands behind a `Model`: one architecture, whoever wrote it, in terms of tokens and probes.

| symbol | meaning                                        | shape                    |
|--------|------------------------------------------------|--------------------------|
| logits | one number per piece (or label) at a position  | [n_positions, n_answers] |

Every network sends all its attention through `nn.attention.attend` with the probe it is given.
"""

from collections.abc import Sequence
from typing import Protocol

import torch
from torch import Tensor

from attnscope.models.generate import HearIds
from attnscope.models.inputs import Inputs
from attnscope.nn.attention import Probe
from attnscope.records.models import Form, ModelInfo
from attnscope.records.outputs import OutputKind
from attnscope.records.sites import Site
from attnscope.records.tokens import Token
from attnscope.text.vocabulary import Vocabulary as Entries


class TokensById(Protocol):
    """Tokens by their ids."""

    @property
    def kind(self) -> str:
        """What kind of tokenizer it is, for people."""

    def has(self, role: str) -> bool:
        """Whether there is a token for the role `pad`, `unknown`, `begin`, `end` or `mask`."""

    @property
    def begin_id(self) -> int:
        """Id of the token before the first; raises UserError if there is none, as all these do."""

    @property
    def end_id(self) -> int:
        """Id of the token after the last."""

    @property
    def mask_id(self) -> int:
        """Id of the token that stands for a hidden one."""

    @property
    def entries(self) -> Entries:
        """Its entries as people read them; raises UserError if there are none."""

    def token(self, id: int) -> Token:
        """The token of an id, standing in no text."""

    def decode(self, ids: Sequence[int]) -> str:
        """The text of some ids, without special tokens."""


class Pass(Protocol):
    """What one pass of the model said; nothing is computed before it is asked for."""

    def logits(self, positions: Sequence[int] | None = None, copy: int = -1) -> Tensor:
        """Logits at some positions (None: all) of one copy of the text: float32 [n_positions, n_answers]."""


class Copying(Protocol):
    """A network that may copy words of a source that its vocabulary lacks."""

    def knowing(self, inputs: Inputs) -> "Network":
        """The same network, whose vocabulary has these words too."""


def knowing(network: "Network", inputs: Inputs) -> "Network":
    """The network as it tells tokens of these inputs: it can name every word that it may copy."""
    copying: Copying | None = getattr(network, "copying", None)
    return network if copying is None else copying.knowing(inputs)


class Network(Protocol):
    """One architecture with its weights and its vocabulary."""

    @property
    def form(self) -> Form:
        """Encoder, decoder or encoder–decoder."""

    @property
    def output_kind(self) -> OutputKind:
        """What its logits are about."""

    @property
    def sites(self) -> tuple[Site, ...]:
        """Every attention module."""

    @property
    def device(self) -> torch.device:
        """Where it computes."""

    @property
    def max_tokens(self) -> int:
        """The most tokens it reads."""

    @property
    def vocabulary(self) -> TokensById:
        """Its tokens."""

    @property
    def info(self) -> ModelInfo:
        """The model in words and numbers."""

    @property
    def is_training(self) -> bool:
        """Whether somebody is training it right now; looking at it must not disturb that."""

    def encode(self, text: str, target: str | None = None) -> Inputs:
        """Both texts as the network reads them; `target` None leaves the target out.

        Raises UserError for a target where none is read.
        """

    def own_target(self, inputs: Inputs, written: Sequence[int]) -> Inputs:
        """The same inputs with what the network wrote as their target (encoder–decoder only)."""

    def run(self, inputs: Inputs, probe: Probe | None = None, *, n_copies: int = 1) -> Pass:
        """One pass in evaluation mode without gradients over `n_copies` of the same text."""

    def write(
        self,
        inputs: Inputs,
        probe: Probe | None = None,
        *,
        n_tokens: int | None = None,
        guess: Sequence[int] = (),
        hear: HearIds | None = None,
    ) -> list[int]:
        """What it writes greedily: after the source (decoder), or as the target; without the end token.

        `guess` is what it may well write; a right one saves passes and never changes the result. `hear` gets
        what stands of a target after each pass.
        """

    def answer(self, id: int) -> Token:
        """The token, or the label, that a column of the logits stands for."""

    def shown_positions(self, inputs: Inputs) -> list[int]:
        """The positions whose prediction is shown; see `records.outputs.Output`."""
