"""What the weights of one head say without any text: asked for, under way, and as far as it is known."""

from dataclasses import dataclass

from attnscope.records.redundancy import CircuitKind, HeadCircuit, SiteSpectrum
from attnscope.records.requests import CountedNews, Reply, Request
from attnscope.records.sites import HeadRef

N_PAIRS = 30
"""Token pairs of each end of a list, unless another number is asked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightPart:
    """One of a head's two products (`ov`, `qk`): its token pairs and singular values.

    What cannot be had, or is not there yet, is None; `refusal` says why the pairs and `no_spectrum` why the
    singular values cannot be had.
    """

    kind: CircuitKind
    circuit: HeadCircuit | None = None
    spectrum: SiteSpectrum | None = None
    refusal: str = ""
    no_spectrum: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadWeightsFound:
    """Both products of one head, as far as they are known."""

    head: HeadRef
    parts: tuple[WeightPart, ...] = ()

    @property
    def is_whole(self) -> bool:
        """Whether nothing more is to come."""
        return len(self.parts) == 2 and all(part.circuit or part.refusal for part in self.parts)

    def part(self, kind: CircuitKind) -> WeightPart:
        """One of the products; an empty one while nothing is known of it."""
        return next((part for part in self.parts if part.kind == kind), WeightPart(kind=kind))


@dataclass(frozen=True, slots=True, kw_only=True)
class ShowWeights(Request):
    """What the weights of one head of the open model say. Runs in the background; a new one ends it."""

    needs_model = "Reading a head's weights"
    head: HeadRef
    top: int = N_PAIRS


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightsNews(CountedNews):
    """How many rows of how many between tokens are done, and of which product."""

    about: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightsShown(Reply):
    """What is known so far; comes again as more is, the last time with all that can be."""

    found: HeadWeightsFound
