"""Findings of passes over texts: dependency relations and word alignment, and all findings for every head, as
CSV and as JSON.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from attnscope.counting import csv_text, html_table, plural
from attnscope.files import replace_file
from attnscope.records import freeze
from attnscope.records.maps import HeadMeasures
from attnscope.records.measures import (
    Estimate,
    HeadCard,
    HeadTable,
    SpecialTokens,
    bare_table,
    interval_kind,
    interval_said,
    intervals_said,
)
from attnscope.records.requests import CountedNews, Reply, Request
from attnscope.records.sites import HeadRef
from attnscope.schemes.measures import ESTIMATED, TEXT_MEASURES

Direction = Literal["to head", "to dependent"]
"""Whether the dependent looks at its head, or the head at its dependent."""
Manner = Literal["voita", "clark"]
"""How an arc is found, after Voita et al. 2019 or Clark et al. 2019: see `analysis/syntax.py`."""
MANNERS_SAID: dict[Manner, str] = {
    "voita": "arcs whose other end the head may see",
    "clark": "own weight left out; from head to dependent, the word that looks most at the dependent",
}
SYNTACTIC_MARGIN = 0.10
"""So far above the best fixed offset makes a head syntactic (Voita et al. 2019, section 5.2)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SyntaxTable:
    """Shares of arcs whose other end gets most weight, of every head, relation and direction.

    All arrays are [n_heads, n_relations]; `baseline` is the share that the best fixed offset between words
    (`offsets`) gets right on the same arcs; `n_arcs` counts arcs whose other end the head may see, `counts`
    the sentences that have any.
    """

    model: str
    corpus: str
    heads: tuple[HeadRef, ...]
    relations: tuple[tuple[str, Direction], ...]
    values: NDArray[np.float32]
    low: NDArray[np.float32]
    high: NDArray[np.float32]
    baseline: NDArray[np.float32]
    offsets: NDArray[np.int32]
    n_arcs: NDArray[np.int32]
    counts: NDArray[np.int32]
    telling: NDArray[np.int32]
    n_texts: int
    n_skipped: int = 0
    level: float = 0.95
    manner: Manner = "voita"

    def __post_init__(self) -> None:
        shape = (len(self.heads), len(self.relations))
        freeze(self, "values", "low", "high", "baseline", dtype=np.float32, rank=2, shape=shape)
        freeze(self, "offsets", "n_arcs", "counts", dtype=np.int32, rank=2, shape=shape)
        freeze(self, "telling", dtype=np.int32, rank=3)

    def estimate(self, row: int, column: int) -> Estimate:
        """The share of one head and relation, over the sentences that have an arc of it."""
        value, low, high = (float(part[row, column]) for part in (self.values, self.low, self.high))
        return Estimate(value=value, low=low, high=high, n=int(self.counts[row, column]), of="sentence")

    @property
    def margins(self) -> NDArray[np.float32]:
        """Margin of each head over the best fixed offset, [n_heads, n_relations]."""
        found: NDArray[np.float32] = self.values - self.baseline
        return found

    def best(self, head: HeadRef) -> int | None:
        """The relation with a head's largest margin over the best fixed offset, by the lower end of its
        interval: among many relations a rare one could lead by chance. None if no interval is known.
        """
        row = self.heads.index(head)
        least = [self.estimate(row, column).least for column in range(len(self.relations))]
        margins = np.array(least) - self.baseline[row]
        return None if np.isnan(margins).all() else int(np.nanargmax(margins))

    @property
    def statement(self) -> str:
        """Basis of the numbers, in one line."""
        parts = [
            plural(self.n_texts, "sentence"),
            "weights between words: summed over key pieces, averaged over query pieces",
            "special tokens left out",
            MANNERS_SAID[self.manner],
            intervals_said(self.n_texts, "sentence", level=self.level),
        ]
        if self.n_skipped:
            parts.append(f"{plural(self.n_skipped, 'sentence')} left out")
        return "; ".join(parts)


ALIGNMENT_NUMBERS = (
    "error_rate", "low", "high",
    "precision", "precision_low", "precision_high",
    "recall", "recall_low", "recall_high",
)  # fmt: skip
"""The arrays of an AlignmentTable, each number before its interval."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AlignmentTable:
    """Cross-attention as word alignment: every head, and the mean of each layer's heads.

    The arrays are [n_heads + n_layers]: `heads` first, then the mean of each of `layers`. `low` and `high`
    are of the error rate; every interval covers `level`. `rows` says whether the row that predicts a word
    stands for it, or the one that reads it. `diagonal` is the error rate of linking each target word to the
    source word at the same part of its sentence, whatever the words are; NaN where it was not counted.
    """

    model: str
    corpus: str
    heads: tuple[HeadRef, ...]
    layers: tuple[int, ...]
    error_rate: NDArray[np.float32]
    low: NDArray[np.float32]
    high: NDArray[np.float32]
    precision: NDArray[np.float32]
    recall: NDArray[np.float32]
    precision_low: NDArray[np.float32]
    precision_high: NDArray[np.float32]
    recall_low: NDArray[np.float32]
    recall_high: NDArray[np.float32]
    n_texts: int
    rows: str = "predicting"
    n_skipped: int = 0
    level: float = 0.95
    diagonal: float = math.nan

    def __post_init__(self) -> None:
        n_rows = len(self.heads) + len(self.layers)
        freeze(self, *ALIGNMENT_NUMBERS, dtype=np.float32, rank=1, shape=(n_rows,))

    @property
    def interval_said(self) -> str:
        """Description of the intervals."""
        return interval_said(self.n_texts, "pair", level=self.level)

    @property
    def best(self) -> int | None:
        """The index of the smallest error rate; None if there is none."""
        return None if np.isnan(self.error_rate).all() else int(np.nanargmin(self.error_rate))

    def label(self, index: int) -> str:
        """`L3H5`, or `L3 mean`."""
        if index < len(self.heads):
            return self.heads[index].label
        return f"L{self.layers[index - len(self.heads)]} mean"


AlignmentRows = Literal["predicting", "reading"]
"""Which row stands for a target word: the one that predicts it, or the one that has just read it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GoldFiles:
    """A file of source and target pairs separated by tabs, and a file with the links of each line.

    `counts_from` is the number of the first word of a line, 0 or 1.
    """

    pairs: str
    links: str
    counts_from: int = 0


OWN_LINKS = GoldFiles(pairs="", links="")
"""No files: the links of the model's own task."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GoldCell:
    """One gold link on a map of tokens: rows and columns, each from the first to before the second.

    `words` are the target word and the source word.
    """

    rows: tuple[int, int]
    cols: tuple[int, int]
    is_sure: bool
    words: tuple[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class GoldPair:
    """A text with the translation to which gold links belong; `name` says where it comes from."""

    source: str
    target: str
    name: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShowAlignment(Request):
    """Compare the cross-attention of a trace of the open model with gold links. Newest wins.

    `trace` is the number of the trace that is shown.
    """

    is_view = True
    trace: int
    rows: AlignmentRows = "predicting"
    files: GoldFiles = OWN_LINKS


@dataclass(frozen=True, slots=True, kw_only=True)
class AlignmentShown(Reply):
    """The links of the text, and the table of all cross heads and layer means on this text alone.

    Without links `table` is None and `note` says what is missing; `offered` is a pair whose links are known
    and which could be read instead, `following` the next pair of the files. `origin` says whose links they
    are. On a single text there are no intervals: they are NaN. `trace` is that of the request.
    """

    trace: int
    cells: tuple[GoldCell, ...] = ()
    table: AlignmentTable | None = None
    origin: str = ""
    note: str = ""
    offered: GoldPair | None = None
    following: GoldPair | None = None


COLUMNS = tuple(TEXT_MEASURES)
"""The measures of one text."""
ERROR_COLUMNS = tuple(f"{name}_error" for name in ESTIMATED)
"""Standard errors of the measures that are estimated on very long texts; 0 elsewhere."""


def csv_of_text(measures: Sequence[HeadMeasures]) -> str:
    """The measures of one text, one head to a line, with standard errors where they are estimates."""
    fields = (*COLUMNS, *ERROR_COLUMNS)
    lines = [
        [m.head.stack, m.head.layer, m.head.head, *(_cell(getattr(m, name)) for name in fields)]
        for m in measures
    ]
    return csv_text(["stack", "layer", "head", *fields], lines)


def json_of_syntax(table: SyntaxTable) -> dict[str, object]:
    """Every head's share of every relation."""
    return {
        "statement": table.statement,
        "relations": [
            {
                "relation": relation,
                "direction": direction,
                "heads": [
                    {
                        "head": f"{head.stack} {head.label}",
                        "share": float(table.values[row, column]),
                        "low": float(table.low[row, column]),
                        "high": float(table.high[row, column]),
                        "best_offset": int(table.offsets[row, column]),
                        "baseline": float(table.baseline[row, column]),
                        "n_arcs": int(table.n_arcs[row, column]),
                        "n_sentences": int(table.counts[row, column]),
                        "interval": table.estimate(row, column).kind,
                    }
                    for row, head in enumerate(table.heads)
                ],
            }
            for column, (relation, direction) in enumerate(table.relations)
        ],
    }


def json_of_alignment(table: AlignmentTable) -> dict[str, object]:
    """Every head and layer mean."""
    return {
        "n_texts": table.n_texts,
        "n_skipped": table.n_skipped,
        "rows": table.rows,
        "level": table.level,
        "interval": interval_kind(table.n_texts),
        "best": None if table.best is None else table.label(table.best),
        "heads": [
            {
                "name": table.label(index),
                **{name: float(getattr(table, name)[index]) for name in ALIGNMENT_NUMBERS},
            }
            for index in range(len(table.error_rate))
        ],
    }


def csv_of_alignment(table: AlignmentTable) -> str:
    """Error rate, precision and recall of every head and layer mean, with intervals, one to a line."""
    lines = []
    for index in range(len(table.error_rate)):
        is_head = index < len(table.heads)
        layer = table.heads[index].layer if is_head else table.layers[index - len(table.heads)]
        numbers = (getattr(table, name) for name in ALIGNMENT_NUMBERS)
        lines.append(
            [
                layer,
                table.heads[index].head if is_head else "mean",
                *(_cell(float(found[index])) for found in numbers),
                table.n_texts,
            ]
        )
    return csv_text(["layer", "head", *ALIGNMENT_NUMBERS, "pairs"], lines)


def _json_head(table: HeadTable, row: int, card: HeadCard) -> dict[str, object]:
    head = table.heads[row]
    return {
        "stack": head.stack,
        "layer": head.layer,
        "head": head.head,
        "what_it_does": card.sentence,
        "roles": [role.name for role in card.roles],
        "best_offset": float(table.best_offsets[row]),
        "measures": {name: _json_estimate(table.estimate(head, name)) for name in table.names},
    }


def _json_estimate(found: Estimate) -> dict[str, object]:
    return {
        "value": found.value,
        "low": found.low,
        "high": found.high,
        "n_texts": found.n,
        "interval": found.kind,
    }


def _cell(value: float) -> str:
    return f"{value:.6g}" if value == value else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """The table and the card of every head, in its order; relations of trees and alignments if known.

    `notes` say which parts are missing, and why.
    """

    table: HeadTable
    cards: tuple[HeadCard, ...]
    syntax: SyntaxTable | None = None
    alignment: AlignmentTable | None = None
    notes: tuple[str, ...] = ()

    def __repr__(self) -> str:
        """The measurement in one line: `Findings of 32 heads of stories over 2 texts`."""
        table = self.table
        n_heads, n_texts = plural(len(table.heads), "head"), plural(table.n_texts, "text")
        return f"Findings of {n_heads} of {table.model or 'a model'} over {n_texts}"

    def rows(self) -> list[dict[str, object]]:
        """One row a head: its name, its role, and each measure's value, interval and texts."""
        return [self._row(i) for i in range(len(self.cards))]

    def _row(self, row: int) -> dict[str, object]:
        table, head = self.table, self.table.heads[row]
        cells: dict[str, object] = {"stack": head.stack, "layer": head.layer, "head": head.head}
        cells |= {"best_offset": float(table.best_offsets[row]), "what_it_does": self.cards[row].sentence}
        for name in table.names:
            one = table.estimate(head, name)
            cells |= {name: one.value, f"{name}_low": one.low, f"{name}_high": one.high}
            cells |= {f"{name}_texts": one.n, f"{name}_interval": one.kind}
        return cells

    def to_dict(self, order: Sequence[int] | None = None) -> dict[str, object]:
        """The whole result as plain lists, numbers and strings; `order` chooses and orders the heads."""
        table, chosen = self.table, range(len(self.cards)) if order is None else order
        found: dict[str, object] = {
            "model": table.model,
            "corpus": table.corpus,
            "statement": table.statement,
            "specials": table.specials,
            "n_texts": table.n_texts,
            "n_tokens": table.n_tokens,
            "level": table.level,
            "n_resamples": table.n_resamples,
            "seed": table.seed,
            "heads": [_json_head(table, row, self.cards[row]) for row in chosen],
        }
        if self.syntax is not None:
            found["syntax"] = json_of_syntax(self.syntax)
        if self.alignment is not None:
            found["alignment"] = json_of_alignment(self.alignment)
        if self.notes:
            found["notes"] = list(self.notes)
        return found

    def _repr_html_(self) -> str:
        names = ("stack", "layer", "head", "what_it_does", *self.table.names)
        rows = ([row[name] for name in names] for row in self.rows())
        return html_table([name.replace("_", " ") for name in names], rows, title=self.table.statement)

    def to_csv(self, order: Sequence[int] | None = None) -> str:
        """The rows as text, with a header; an empty cell is a number that does not apply.

        `order` chooses and orders the heads.
        """
        found = [self._row(i) for i in (range(len(self.cards)) if order is None else order)]
        lines = [[_cell(one) if isinstance(one, float) else one for one in row.values()] for row in found]
        return csv_text(list(self._row(0)) if self.table.heads else [], lines)

    def save_csv(self, path: str | Path) -> None:
        """Write the rows to a file; raises SaveError."""
        replace_file(Path(path), self.to_csv().encode())


UNMEASURED = Findings(table=bare_table("", ()), cards=())
"""Facts about a model's heads before a pass."""


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
        """Part of it that only a running model can answer."""
        return "" if self.path == OWN_TEXTS else "Measuring over other texts"


@dataclass(frozen=True, slots=True, kw_only=True)
class ShowCard(Request):
    """Show one head's role, with its most telling texts, from the last pass."""

    head: HeadRef


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuringNews(CountedNews):
    """Progress of the pass: texts done, texts in all, and the current step."""

    what: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadsMeasured(Reply):
    """The pass is complete: the numbers and the role of each head, without texts."""

    found: Findings


@dataclass(frozen=True, slots=True, kw_only=True)
class CardShown(Reply):
    """One head's role, with its texts."""

    card: HeadCard
