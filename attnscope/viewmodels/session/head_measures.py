"""The measures of heads as people read them: names, definitions, places among all heads, one line.

What they are is told in `schemes/measures`; the numbers come from the worker.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from operator import attrgetter

import numpy as np

from attnscope.records.maps import HeadMeasures, SiteGrid
from attnscope.records.messages import Traced
from attnscope.records.sites import HeadRef, Site, Stack
from attnscope.records.tokens import Token
from attnscope.schemes.measures import MEASURES as ALL_MEASURES
from attnscope.schemes.measures import TEXT_MEASURES
from attnscope.viewmodels.maps.shown_maps import site_keys


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasureKind:
    """One measure: its field in HeadMeasures, its name, unit and definition, the digits of its values."""

    field: str
    name: str
    unit: str
    definition: str
    digits: int


MEASURES: tuple[MeasureKind, ...] = tuple(
    MeasureKind(
        field=one.name,
        name=one.on_text.title,
        unit=one.unit,
        definition=one.on_text.definition,
        digits=one.on_text.digits,
    )
    for one in TEXT_MEASURES.values()
    if one.on_text is not None
)
_SAYING = tuple(one for one in ALL_MEASURES.values() if one.on_text is not None and one.says)


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasureShown:
    """One measure of one head: its value, and its place between the least and the most of all heads.

    `place` lies in 0…1 and is NaN when the measure does not apply; `others` are all heads' places. An
    estimate from some `rows` of a very long map has a standard `error`.
    """

    kind: MeasureKind
    value: float
    place: float
    others: tuple[float, ...]
    is_between_texts: bool = False
    error: float = 0.0
    rows: str = ""

    @property
    def text(self) -> str:
        """The value as people read it."""
        if not math.isfinite(self.value):
            return "–"
        return f"{self.value:.{self.kind.digits}f}"

    @property
    def tooltip(self) -> str:
        """Definition and unit, and how sure an estimate is."""
        about = f"{self.kind.name}, {self.kind.unit}\n{self.kind.definition}"
        if self.error > 0:
            about += f"\nEstimated from {self.rows}: {self.value:.4g} ± {self.error:.2g} (standard error)."
        if self.is_between_texts and not math.isfinite(self.value):
            return f"not defined between two texts\n{about}"
        return f"{about}\nTicks: all heads of this model."


_RESTS = 0.5
"""A row rests on the key that gets more than this share of its weight."""


def find_measures(all_measures: Iterable[HeadMeasures], head: HeadRef) -> HeadMeasures | None:
    return next((m for m in all_measures if m.head == head), None)


def measures_shown(all_measures: tuple[HeadMeasures, ...], head: HeadRef) -> tuple[MeasureShown, ...]:
    """Every measure of `head` against all heads; empty when the head was not measured."""
    own = find_measures(all_measures, head)
    if own is None:
        return ()
    shown = []
    for kind in MEASURES:
        finite = list(filter(math.isfinite, map(attrgetter(kind.field), all_measures)))
        top = max([1.0, *finite])
        value = float(getattr(own, kind.field))
        others = tuple([v / top for v in finite])
        shown.append(
            MeasureShown(
                kind=kind,
                value=value,
                place=value / top,
                others=others,
                is_between_texts=head.stack == "cross",
                error=float(getattr(own, f"{kind.field}_error", 0.0)),
                rows=f"{own.n_rows:,} of {own.n_all_rows:,} rows",
            )
        )
    return tuple(shown)


def leaves_out_end(keys: Sequence[Token]) -> bool:
    """Whether a head's confidence leaves out the last key: it does where an end token stands there."""
    return len(keys) > 1 and keys[-1].is_special


def _noun(keys: Sequence[Token]) -> str:
    """What a column is: a token, or what the key is named after that is none."""
    return keys[0].piece.partition(" ")[0] if keys and keys[0].id < 0 else "token"


def describe_head(traced: Traced | None, sites: Iterable[Site], head: HeadRef) -> str:
    """What a head does on the text of a trace, in one line; empty where it was not measured."""
    own = find_measures(traced.measures if traced else (), head)
    site = next((site for site in sites if head in site.heads), None)
    if own is None or traced is None:
        return ""
    keys = site_keys(site, traced) if site else ()
    grid = next((grid for grid in traced.grids if head in grid.site.heads), None)
    return describe(own, keys, resting_words(grid, head, keys) if grid else "")


def resting_words(grid: SiteGrid, head: HeadRef, keys: Sequence[Token]) -> str:
    """How many rows give more than half of their weight to one key, and how many of them to an end token.

    For instance `4 of 5 rows rest on one token each, 1 on </s>`; empty where fewer than half of the rows
    do, or the thumbnails do not hold every cell.
    """
    if grid.is_pooled or grid.is_sampled or len(keys) != grid.n_keys:
        return ""
    k = grid.site.heads.index(head)
    levels = grid.levels[k].astype(np.float64)  # [rows, cols]
    rows = levels[levels.max(axis=1, initial=0.0) > 0.0]
    weights = np.maximum(rows - 1.0, 0.0) / 254.0 * grid.peaks[k]
    totals = np.maximum(weights.sum(axis=1), 1.0)  # rows of given weights may hold more than 1
    resting = rows[weights.max(axis=1, initial=0.0) / totals > _RESTS]
    if not len(rows) or 2 * len(resting) < len(rows):
        return ""
    n_end = int((resting.argmax(axis=1) == len(keys) - 1).sum()) if leaves_out_end(keys) else 0
    n_own, noun = len(resting) - n_end, _noun(keys)
    ends = f"{n_end} on {keys[-1].piece}" if n_end else ""
    if not n_own:
        return f"{n_end} of {len(rows)} rows rest on {keys[-1].piece}"
    who = f"all {n_own} rows rest" if n_own == len(rows) > 1 else f"{n_own} of {len(rows)} rows rest"
    who = "its one row rests" if len(rows) == 1 else who
    each = "" if n_own == 1 else " each"
    return ", ".join(filter(None, (f"{who} on one {noun}{each}", ends)))


def describe(measures: HeadMeasures, keys: Sequence[Token] = (), resting: str = "") -> str:
    """What the head does on this text, in one line; `keys` tell whether an end token was left out.

    `resting` are the words on rows that rest on one key, where they were counted.
    """
    ends = ", end token left out" if leaves_out_end(keys) else ""
    noun = _noun(keys)
    parts = [(float(getattr(measures, one.name)), one.says.format(noun=noun)) for one in _SAYING]
    weight, sentence = max(parts, key=lambda part: part[0] if math.isfinite(part[0]) else -1.0)
    if weight >= 0.5:
        return f"{sentence}: {weight:.2f} of its weight"
    if resting:
        return resting
    if measures.confidence >= 0.6:
        return f"looks mostly at one {noun} per row ({measures.confidence:.2f} on average{ends})"
    if measures.entropy >= 0.85:
        return f"spreads evenly: entropy {measures.entropy:.2f} of 1"
    if math.isfinite(weight) and weight >= 0.25:
        return f"partly {sentence}: {weight:.2f} of its weight"
    return f"mixes: largest weight {measures.confidence:.2f} on average{ends}"


def striking_head(all_measures: Iterable[HeadMeasures], grids: Iterable[SiteGrid] = ()) -> HeadRef | None:
    """The head with the clearest pattern that is neither a stripe on one key nor the plain diagonal.

    The score is confidence − stripe − diagonal, where stripe is the largest mean weight any key gets;
    without the head's grid only the first key is looked at.
    """
    stripes = {
        head: stripe for grid in grids for head, stripe in zip(grid.site.heads, _stripes(grid), strict=True)
    }

    def clearness(m: HeadMeasures) -> float:
        if not math.isfinite(m.confidence):
            return -math.inf
        stripe = max(stripes.get(m.head, 0.0), _finite(m.first))
        return m.confidence - stripe - _finite(m.diagonal)

    best = max(all_measures, key=clearness, default=None)
    return best.head if best else None


def first_choice(stack: Stack | None, traced: Traced | None, sites: Iterable[Site]) -> HeadRef | None:
    """The most striking head of a stack; before the first trace its first head."""
    measures = traced.measures if traced else ()
    found = striking_head((m for m in measures if m.head.stack == stack), traced.grids if traced else ())
    return found or next((s.heads[0] for s in sites if s.stack == stack and s.heads), None)


def _stripes(grid: SiteGrid) -> list[float]:
    """The largest mean weight a key gets, of each head; over the rows that may see the key.

    On causal maps the last keys are seen by few rows, so that means run over half the rows at least.
    """
    if not grid.levels.size:
        return [0.0] * len(grid.levels)
    is_seen = grid.levels > 0  # [n_heads, rows, cols]
    weights = np.where(is_seen, (grid.levels - 1.0) / 254.0, 0.0) * grid.peaks[:, None, None]
    n_rows = np.maximum(is_seen.sum(axis=1), (grid.levels.shape[1] + 1) // 2)
    stripes: list[float] = (weights.sum(axis=1) / n_rows).max(axis=1).tolist()
    return stripes


def _finite(value: float) -> float:
    return value if math.isfinite(value) else 0.0
