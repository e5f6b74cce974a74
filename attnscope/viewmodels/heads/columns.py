"""The table of heads with importance among its columns. Pure functions."""

from collections.abc import Sequence

import numpy as np

from attnscope.counting import short_number
from attnscope.records.importance import Importance, Ranking
from attnscope.records.measures import (
    CORPUS_MEASURES,
    N_TELLING,
    OFFSET_REACH,
    CorpusMeasure,
    Estimate,
    HeadTable,
)
from attnscope.records.roles import HeadCard
from attnscope.records.sites import HeadRef
from attnscope.viewmodels.heads.alignment_column import ALIGNMENT_COLUMNS
from attnscope.viewmodels.heads.curve_groups import RANKING_NAMES

_PREFIX = "importance_"
_DEFINITIONS: dict[Ranking, tuple[str, str]] = {
    "gradient": (
        "nats",
        "E |∂L/∂g| over texts: how much the loss moves with the head's gate. (Michel, Levy & Neubig 2019)",
    ),
    "leave-one-out": ("nats", "How much the loss rises, on average, when this head alone is off."),
    "learned": (
        "chance of being open",
        "Of a gate learned under a penalty on open gates; the weights stay. (after Voita et al. 2019)",
    ),
    "random": ("random number", "A random number, the control."),
}
IMPORTANCE_COLUMNS: tuple[CorpusMeasure, ...] = tuple(
    CorpusMeasure(
        name=f"{_PREFIX}{ranking.replace('-', '_')}",
        title=f"importance, {RANKING_NAMES[ranking]}",
        unit=unit,
        definition=definition,
    )
    for ranking, (unit, definition) in _DEFINITIONS.items()
)
"""One column for each ranking."""
COLUMNS: tuple[CorpusMeasure, ...] = (*IMPORTANCE_COLUMNS, *ALIGNMENT_COLUMNS, *CORPUS_MEASURES)
"""Every column the table can have, in order."""


def is_importance(name: str) -> bool:
    """Whether a column is an importance."""
    return name.startswith(_PREFIX)


def with_importance(table: HeadTable, importances: Sequence[Importance]) -> HeadTable:
    """The table with a column for each ranking except the random one; heads not scored have none."""
    shown = [found for found in importances if found.ranking != "random"]
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
    return HeadTable(
        model=table.model,
        corpus=table.corpus,
        heads=table.heads,
        names=(*table.names, *names),
        values=joined["values"],
        low=joined["low"],
        high=joined["high"],
        counts=joined["counts"],
        offsets=table.offsets,
        best_offsets=table.best_offsets,
        offset_shares=table.offset_shares,
        telling=joined["telling"],
        n_texts=table.n_texts,
        n_tokens=table.n_tokens,
        n_cut=table.n_cut,
        n_skipped=table.n_skipped,
        specials=table.specials,
        level=table.level,
        n_resamples=table.n_resamples,
        seed=table.seed,
    )


def bare_table(model: str, heads: Sequence[HeadRef]) -> HeadTable:
    """A table of heads that were not measured over texts."""
    n, none = len(heads), np.zeros((len(heads), 0), np.float32)
    return HeadTable(
        model=model,
        corpus="",
        heads=tuple(heads),
        names=(),
        values=none,
        low=none,
        high=none,
        counts=none.astype(np.int32),
        offsets=np.zeros((n, 2 * OFFSET_REACH + 3), np.int32),
        best_offsets=np.full(n, np.nan, np.float32),
        offset_shares=np.full((n, 2 * OFFSET_REACH + 1), np.nan, np.float32),
        telling=np.zeros((n, 0, N_TELLING), np.int32),
        n_texts=0,
        n_tokens=0,
    )


def bare_cards(heads: Sequence[HeadRef]) -> tuple[HeadCard, ...]:
    """Cards of heads of which only the importance is known."""
    sentence = "not measured over texts yet: press Measure for what it does"
    return tuple(HeadCard(head=head, sentence=sentence, roles=()) for head in heads)


def estimate_text(name: str, found: Estimate, *, has_interval: bool) -> str:
    """One number of the table, with its interval where that is wanted and known."""
    if not found.is_known:
        return "–"
    if not is_importance(name):
        return found.text if has_interval else f"{found.value:.2f}"
    value = short_number(found.value)
    if not has_interval or found.low != found.low:
        return value
    return f"{value} ({short_number(found.low)}–{short_number(found.high)})"


def cell_tip(found: Estimate) -> str:
    """The same with four digits and the number of texts."""
    if not found.is_known:
        return "does not apply"
    interval = "" if found.kind == "none" else f", {_digits(found.low)} to {_digits(found.high)}"
    return f"{_digits(found.value)}{interval}; {found.basis}"


def _digits(value: float) -> str:
    return f"{value:.4f}" if value == 0 or abs(value) >= 0.01 else f"{value:.4g}"
