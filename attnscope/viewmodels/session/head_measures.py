"""The measures of heads for display: names, definitions, ranks among all heads, one line.

What they are is told in `schemes/measures`; the numbers come from the worker.
"""

import dataclasses
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from operator import attrgetter

import numpy as np
from numpy.typing import NDArray

from attnscope.counting import number_text, plural, significant
from attnscope.records.findings import AlignmentTable
from attnscope.records.importance import RANKINGS, Importance
from attnscope.records.maps import HeadMeasures, SiteGrid
from attnscope.records.measures import (
    CORPUS_MEASURES,
    N_TELLING,
    CorpusMeasure,
    Estimate,
    HeadCard,
    HeadTable,
    with_interval,
)
from attnscope.records.messages import Traced
from attnscope.records.sites import HeadRef, Site, Stack
from attnscope.records.tokens import Token
from attnscope.schemes.measures import MEASURES as ALL_MEASURES
from attnscope.schemes.measures import TEXT_MEASURES
from attnscope.viewmodels.maps.aspect import site_keys


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasureKind:
    """One measure: its field in HeadMeasures, its name, unit and definition, and the digits of its values."""

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
    """One measure of one head: its value, and its position in the range of all heads.

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
        """The value as displayed."""
        if not math.isfinite(self.value):
            return "–"
        return f"{self.value:.{self.kind.digits}f}"

    @property
    def tooltip(self) -> str:
        """Definition and unit, and the certainty of an estimate."""
        about = f"{self.kind.name}, {self.kind.unit}\n{self.kind.definition}"
        if self.error > 0:
            value = f"{number_text(self.value)} ± {number_text(self.error, 2)}"
            about += f"\nEstimated from {self.rows}: {value} (standard error)."
        if self.is_between_texts and not math.isfinite(self.value):
            return f"not defined between two texts\n{about}"
        return f"{about}\nTicks: all heads of this model."


_RESTS = 0.5
"""A row rests on the key that gets more than this share of its weight."""


def find_measures(all_measures: Iterable[HeadMeasures], head: HeadRef) -> HeadMeasures | None:
    return next((m for m in all_measures if m.head == head), None)


def measures_shown(all_measures: tuple[HeadMeasures, ...], head: HeadRef) -> tuple[MeasureShown, ...]:
    """Every measure of `head` against all heads; empty if the head was not measured."""
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
    """Whether a head's confidence leaves out the last key: if there is an end token."""
    return len(keys) > 1 and keys[-1].is_mark


def _noun(keys: Sequence[Token]) -> str:
    """Noun for a column: a token, or the key's own name if it is not one."""
    return keys[0].piece.partition(" ")[0] if keys and keys[0].id < 0 else "token"


def describe_head(traced: Traced | None, sites: Iterable[Site], head: HeadRef) -> str:
    """Summary of a head's measures on a trace's text, in one line; empty if it was not measured."""
    own = find_measures(traced.measures if traced else (), head)
    site = next((site for site in sites if head in site.heads), None)
    if own is None or traced is None:
        return ""
    keys = site_keys(site, traced) if site else ()
    grid = next((grid for grid in traced.grids if head in grid.site.heads), None)
    return describe(own, keys, resting_words(grid, head, keys) if grid else "")


def resting_words(grid: SiteGrid, head: HeadRef, keys: Sequence[Token]) -> str:
    """Number of rows with more than half of their weight on one key, and of those, on an end token.

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
    """The head's measures on this text, in one line; `keys` tell if an end token was left out.

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
    """The head with the clearest pattern other than a stripe on one key or the plain diagonal.

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
    """The largest mean weight of a key, for each head; over the rows that may see the key.

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


_PREFIX = "importance_"
IMPORTANCE_COLUMNS: tuple[CorpusMeasure, ...] = tuple(
    CorpusMeasure(
        name=f"{_PREFIX}{one.name.replace('-', '_')}",
        title=f"importance, {one.title}",
        unit=one.unit,
        definition=one.definition,
    )
    for one in RANKINGS.values()
)
"""One column for each ranking."""
ALIGNMENT = "alignment_error"
ALIGNMENT_COLUMN = CorpusMeasure(
    name=ALIGNMENT,
    title="AER",
    unit="of 1",
    definition="Alignment error rate of cross-attention against gold word links: 1 − (|A∩S| + |A∩P|) /"
    " (|A| + |S|); 0 is perfect. A word is aligned with the source word that gets most of its weight."
    " (Och & Ney 2003)",
)
_OF_LINKS = " A: the head's links, S: sure, P: sure and possible ones. (Och & Ney 2003)"
ALIGNMENT_COLUMNS = (
    ALIGNMENT_COLUMN,
    CorpusMeasure(
        name="alignment_precision",
        title="precision",
        unit="of 1",
        definition="Share of the head's word links that are gold links: |A∩P| / |A|." + _OF_LINKS,
    ),
    CorpusMeasure(
        name="alignment_recall",
        title="recall",
        unit="of 1",
        definition="Share of the sure gold links that the head has: |A∩S| / |S|." + _OF_LINKS,
    ),
)
COLUMNS: tuple[CorpusMeasure, ...] = (*IMPORTANCE_COLUMNS, *ALIGNMENT_COLUMNS, *CORPUS_MEASURES)
"""Every column the table can have, in order."""


def is_importance(name: str) -> bool:
    """Whether a column is an importance."""
    return name.startswith(_PREFIX)


def with_importance(table: HeadTable, importances: Sequence[Importance]) -> HeadTable:
    """The table with a column for each ranking that is not drawn; heads not scored have none."""
    shown = [found for found in importances if RANKINGS[found.ranking].source != "drawn"]
    if not shown:
        return table
    n = len(table.heads)
    columns = {name: [getattr(table, name)] for name in ("values", "low", "high", "counts", "telling")}
    for found in shown:
        scores = {score.head: score for score in found.scores}
        of_heads = [scores.get(head) for head in table.heads]
        for field in ("value", "low", "high"):
            numbers = np.array([getattr(score, field) if score else np.nan for score in of_heads], np.float32)
            columns["values" if field == "value" else field].append(numbers[:, None])
        columns["counts"].append(np.full((n, 1), found.n_texts, np.int32))
        columns["telling"].append(np.full((n, 1, N_TELLING), -1, np.int32))
    joined = {name: np.concatenate(parts, axis=1) for name, parts in columns.items()}
    names = [f"{_PREFIX}{found.ranking.replace('-', '_')}" for found in shown]
    return dataclasses.replace(
        table,
        names=(*table.names, *names),
        values=joined["values"],
        low=joined["low"],
        high=joined["high"],
        counts=joined["counts"],
        telling=joined["telling"],
    )


def bare_cards(heads: Sequence[HeadRef]) -> tuple[HeadCard, ...]:
    """Cards of heads with importance only."""
    sentence = "not measured over texts yet: press Measure for what it does"
    return tuple(HeadCard(head=head, sentence=sentence, roles=()) for head in heads)


def estimate_text(name: str, found: Estimate, *, has_interval: bool) -> str:
    """One number of the table, with its interval if wanted and known."""
    if not found.is_known:
        return "–"
    if not is_importance(name):
        return found.text if has_interval else f"{found.value:.2f}"
    value = significant(found.value, 3)
    if not has_interval or found.low != found.low:
        return value
    return f"{value} ({significant(found.low, 3)}–{significant(found.high, 3)})"


def cell_tip(found: Estimate) -> str:
    """The same with four digits and the number of texts."""
    if not found.is_known:
        return "does not apply"
    interval = "" if found.kind == "none" else f", {significant(found.low)} to {significant(found.high)}"
    return f"{significant(found.value)}{interval}; {found.basis}"


def with_alignment(table: HeadTable, alignment: AlignmentTable | None) -> HeadTable:
    """The table with those columns; heads other than cross-attention have no number in them."""
    if alignment is None:
        return table
    places = {head: place for place, head in enumerate(alignment.heads)}
    rows = [places.get(head, -1) for head in table.heads]

    def columns(*found: NDArray[np.float32]) -> NDArray[np.float32]:
        padded = np.pad(np.stack(found, axis=1), ((0, 1), (0, 0)), constant_values=np.nan)
        return padded[rows]  # the row −1 is the padding

    n = len(ALIGNMENT_COLUMNS)
    counts = np.array([[alignment.n_texts if row >= 0 else 0] * n for row in rows], np.int32)
    telling = np.full((len(rows), n, N_TELLING), -1, np.int32)
    values = columns(alignment.error_rate, alignment.precision, alignment.recall)
    low = columns(alignment.low, alignment.precision_low, alignment.recall_low)
    high = columns(alignment.high, alignment.precision_high, alignment.recall_high)
    return dataclasses.replace(
        table,
        names=(*table.names, *(column.name for column in ALIGNMENT_COLUMNS)),
        values=np.concatenate([table.values, values], axis=1),
        low=np.concatenate([table.low, low], axis=1),
        high=np.concatenate([table.high, high], axis=1),
        counts=np.concatenate([table.counts, counts], axis=1),
        telling=np.concatenate([table.telling, telling], axis=1),
    )


def statement_of(alignment: AlignmentTable) -> str:
    """Basis of the column, and the best head and layer mean, in one line."""
    n_heads = len(alignment.heads)
    parts = [
        f"alignment over {plural(alignment.n_texts, 'pair')} with gold links, rows {alignment.rows} a word"
    ]
    for what, first, last in (("head", 0, n_heads), ("layer", n_heads, len(alignment.error_rate))):
        rates = alignment.error_rate[first:last]
        if len(rates) and not np.isnan(rates).all():
            best = first + int(np.nanargmin(rates))
            rate, low, high = (float(a[best]) for a in (alignment.error_rate, alignment.low, alignment.high))
            parts.append(f"best {what} {alignment.label(best)} with AER {with_interval(rate, low, high, 3)}")
    parts.append(alignment.interval_said)
    return ", ".join(parts)
