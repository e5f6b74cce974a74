"""Removing heads for good: what was asked, what was proved, what it gained.

A *gate* at 0 removes a head; a gate between 0 and 1 is multiplied into the weights that read the head,
so that the smaller model equals the gated one. Heads are counted anew afterwards.
"""

from dataclasses import dataclass
from typing import Literal

from attnscope.counting import plural
from attnscope.records.requests import Reply, Request
from attnscope.records.sites import NO_GATES, Gates, HeadRef, Stack

PruneShape = Literal["small", "same"]
"""`small`: what a removed head weighed is gone. `same`: tensors keep their sizes, removed heads are zeros."""

MAX_RELATIVE_DIFFERENCE = 1e-4
"""Largest |Δlogit|, as a part of the largest |logit|, with which a smaller model may be saved."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteHeads:
    """The heads of one site afterwards: `heads[n]` is the old number of head n.

    None stands for a head of zeros, which is there because a library wants it. `n_before` is the number
    of heads before.
    """

    stack: Stack
    layer: int
    n_before: int
    heads: tuple[int | None, ...]

    @property
    def n_left(self) -> int:
        """Heads that still do something."""
        return sum(head is not None for head in self.heads)

    @property
    def n_zero(self) -> int:
        return len(self.heads) - self.n_left


@dataclass(frozen=True, slots=True, kw_only=True)
class PruningProof:
    """The gated model against the smaller one on the same texts, over every logit.

    Zero logits prove nothing, and a difference that is not a number is never good.
    """

    max_difference: float
    largest_logit: float
    n_texts: int
    n_logits: int

    @property
    def relative(self) -> float:
        """The largest difference as a part of the largest logit."""
        return self.max_difference / self.largest_logit if self.largest_logit else self.max_difference

    @property
    def is_good(self) -> bool:
        """Whether the smaller model may be saved."""
        return min(self.n_texts, self.n_logits) > 0 and self.relative <= MAX_RELATIVE_DIFFERENCE

    @property
    def sentence(self) -> str:
        verdict = (
            "the pruned model gives the same output"
            if self.is_good
            else "the pruned model gives different output"
        )
        return (
            f"max |Δlogit| {self.max_difference:.1e} of {self.largest_logit:.3g} "
            f"over {self.n_logits:,} logits of {plural(self.n_texts, 'text')}: {verdict}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSize:
    """Numbers a model learned, bytes they take, and bytes of its weights files; None when not on disk."""

    n_parameters: int
    n_bytes: int
    file_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeedChange:
    """Time of one pass, the model before and the smaller one taking turns.

    Times are medians; `ratio` is the median of before / after over the turns, with its quartiles:
    above 1 the smaller model is faster.
    """

    before_ms: float
    after_ms: float
    ratio: float
    ratio_low: float
    ratio_high: float
    n_turns: int
    n_tokens: int

    @property
    def is_certain(self) -> bool:
        """Whether both quartiles lie on one side of 1."""
        return self.ratio_low > 1.0 or self.ratio_high < 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class PruningReport:
    """What became of a model: its heads, the proof, size and speed before and after.

    `opens_in` says in words what can open the saved folder; `notes` are further facts a person must
    know. `speed` is None when it was not measured.
    """

    shape: PruneShape
    opens_in: str
    sites: tuple[SiteHeads, ...]
    removed: tuple[HeadRef, ...]
    folded: tuple[tuple[HeadRef, float], ...]
    before: ModelSize
    after: ModelSize
    proof: PruningProof
    speed: SpeedChange | None = None
    notes: tuple[str, ...] = ()
    folder: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TryPruning(Request):
    """Remove the heads that are off from a copy of the open model, prove and measure it; saves nothing."""

    needs_model = "Pruning"
    gates: Gates = NO_GATES
    text: str = ""
    target: str | None = None
    shape: PruneShape = "small"


@dataclass(frozen=True, slots=True, kw_only=True)
class SavePruned(Request):
    """Save the copy that the TryPruning numbered `tried` made."""

    needs_model = "Pruning"
    tried: int
    folder: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ForgetPruned(Request):
    """The copy that was tried is not wanted any more; its memory is freed. No reply comes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PruningTried(Reply):
    """The smaller model is made and judged; `shapes` are those this model can be saved in."""

    report: PruningReport
    shapes: tuple[PruneShape, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PrunedSaved(Reply):
    """The smaller model is in `report.folder`."""

    report: PruningReport
