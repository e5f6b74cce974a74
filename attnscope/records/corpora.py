"""Measuring every head over texts: what the window asks for, and what comes back."""

from dataclasses import dataclass

from attnscope.records.findings import Findings
from attnscope.records.measures import SpecialTokens
from attnscope.records.requests import CountedNews, Reply, Request
from attnscope.records.roles import HeadCard
from attnscope.records.sites import HeadRef

OWN_TEXTS = ""
"""As a path: texts that the program has for the model (of its task, or its sample sentences)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasureHeads(Request):
    """Measure every head of the open model over the texts of a file, or over OWN_TEXTS.

    `.conllu` and `.conllu.gz` hold trees, for which relations are measured too; any other file holds one
    text, or one pair with a tab, in each line. `links` is a file of gold word links of those pairs, empty for
    none; the pairs of the model's own task bring theirs. The pass runs in the background; a new one ends it.
    With `is_idle` it waits until nothing else is asked for, gives way to what is, and then begins again.
    """

    path: str = OWN_TEXTS
    specials: SpecialTokens = "kept"
    max_texts: int = 1000
    seed: int = 0
    links: str = ""
    links_from: int = 0
    is_idle: bool = False

    @property
    def beyond_recordings(self) -> str:
        """What it asks that only a running model can do."""
        return "" if self.path == OWN_TEXTS else "Measuring over other texts"


@dataclass(frozen=True, slots=True, kw_only=True)
class ShowCard(Request):
    """Show what one head does, with its most telling texts, from the last pass."""

    head: HeadRef


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuringNews(CountedNews):
    """How far the pass is: texts done and texts there are, and what is being done."""

    what: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadsMeasured(Reply):
    """The pass is complete: the numbers of all heads and what each does, without texts."""

    found: Findings


@dataclass(frozen=True, slots=True, kw_only=True)
class CardShown(Reply):
    """What one head does, with its texts."""

    card: HeadCard
