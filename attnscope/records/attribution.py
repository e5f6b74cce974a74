"""Which part of a model made one output: additions to the stream, and what patching restores.

| symbol | meaning                                                                   |
|--------|---------------------------------------------------------------------------|
| value  | what a part adds to logit(answer) − logit(other), in logits               |
| patched| (difference with the patch − corrupt) / (clean − corrupt), [rows, columns]|
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from attnscope.records.arrays import frozen_array
from attnscope.records.sites import HeadRef, Stack
from attnscope.records.tokens import Token

PartKind = Literal["embedding", "head", "feed-forward", "bias"]
PatchKind = Literal["stream", "head"]
RunName = Literal["clean", "corrupt"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Contribution:
    """What one part of the model writes towards the answer; `layer` is −1 outside the layers."""

    label: str
    kind: PartKind
    value: float
    stack: Stack
    layer: int = -1
    head: HeadRef | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Attribution:
    """Every contribution to logit(answer) − logit(other) at one position, in the order of the model.

    `difference` is what the model itself says; the contributions add up to it (`total`), but for rounding.
    `note` says what else than norms was taken as it was in this run. Of a picture `reads` [n_tokens] says
    what all heads read at each of its tokens, in logits: together what the heads add. None for texts.
    """

    contributions: tuple[Contribution, ...]
    position: int
    token: Token
    answer: Token
    other: Token
    difference: float
    note: str = ""
    reads: NDArray[np.float32] | None = None

    def __post_init__(self) -> None:
        if self.reads is not None:
            reads = frozen_array(self.reads, dtype=np.float32, rank=1, name="reads")
            object.__setattr__(self, "reads", reads)

    @property
    def total(self) -> float:
        """The sum of all contributions."""
        return sum(one.value for one in self.contributions)


@dataclass(frozen=True, slots=True, kw_only=True)
class PatchMap:
    """How far each patch brings the receiver's output to the donor's, for every layer and column.

    Values are 1 where the logit difference becomes that of the clean run and 0 where that of the corrupt
    one; columns are the receiver's positions (`stream`) or heads (`head`, NaN where a site has fewer).
    """

    kind: PatchKind
    donor: RunName
    receiver: RunName
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    patched: NDArray[np.float32]
    answer: Token
    other: Token
    clean_difference: float
    corrupt_difference: float

    def __post_init__(self) -> None:
        patched = frozen_array(self.patched, dtype=np.float32, rank=2, name="patched")
        if patched.shape != (len(self.rows), len(self.columns)):
            raise ValueError(f"{patched.shape} for {len(self.rows)} rows and {len(self.columns)} columns")
        object.__setattr__(self, "patched", patched)
