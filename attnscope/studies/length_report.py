"""The numbers of `length.py` beside the paper's, their rows and their charts."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from attnscope.figures.length_charts import OF_WRITER
from attnscope.figures.spec import Chart, Series
from attnscope.models.writing.greedy import RightTexts
from attnscope.records.experiments import Writer
from attnscope.records.shares import Share, difference_of, has_sign, share_of
from attnscope.studies.study import Cell, Comparison
from attnscope.viewmodels.labs.length_quality import WRITER_NAMES

TRAINED = (3, 20)
"""The shortest and the longest row of training, in letters."""
Lengths = tuple[int, int]
SHORT: Lengths = (3, 5)
LONG: Lengths = (18, 20)
PAST: Lengths = (21, 30)
_FIGURE = "section 5.2.1, figure 2"
_NOT_THEIRS = "not in the paper"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What came out of rows of one length: `n_words` letters."""

    body: Writer
    seed: int
    n_words: int
    right: RightTexts


def counts_of(readings: Sequence[Reading], body: Writer, lengths: Lengths) -> tuple[list[int], int]:
    """Rows written right to the end by each seed, and how many each read, both lengths included."""
    own = [one for one in readings if one.body == body and lengths[0] <= one.n_words <= lengths[1]]
    seeds = sorted({one.seed for one in own})
    counts = [sum(one.right.n_exact for one in own if one.seed == seed) for seed in seeds]
    return counts, sum(one.right.n_texts for one in own if one.seed == seeds[0])


def shares_of(readings: Sequence[Reading], body: Writer) -> tuple[Share, ...]:
    """Of every length in turn, the share of rows written right to the end."""
    lengths = sorted({one.n_words for one in readings})
    return tuple(share_of(*counts_of(readings, body, (n, n))) for n in lengths)


def compare(readings: Sequence[Reading]) -> tuple[Comparison, ...]:
    """What the paper says of lengths, ours beside it; a difference within its interval claims nothing."""
    none, additive = counts_of(readings, "none", LONG), counts_of(readings, "additive", LONG)
    lost = difference_of(*none, *counts_of(readings, "none", SHORT))
    kept = difference_of(*additive, *counts_of(readings, "additive", SHORT))
    return (
        _difference(
            f"one vector: rows of {_said(LONG)} letters less rows of {_said(SHORT)}",
            "direction only: falls dramatically with the length",
            lost,
            is_as_published=has_sign(lost, -1),
        ),
        _difference(
            f"Bahdanau: rows of {_said(LONG)} letters less rows of {_said(SHORT)}",
            "direction only: no deterioration up to 50 words and more",
            kept,
            is_as_published=True if kept.low > -0.1 else False if kept.high < -0.1 else None,
            remark="Less than a tenth lost, at the lower end of the interval, counts as none.",
        ),
        _difference(
            f"Bahdanau less one vector, {_said(LONG)} letters",
            "direction only: better, most so for long sentences",
            difference_of(*additive, *none),
            is_as_published=has_sign(difference_of(*additive, *none), 1),
        ),
        _difference(
            f"Bahdanau less one vector, {_said(PAST)} letters, longer than trained",
            "direction only: RNNsearch-30 is above RNNencdec-30 past 30 words",
            past := difference_of(*counts_of(readings, "additive", PAST), *counts_of(readings, "none", PAST)),
            is_as_published=has_sign(past, 1),
        ),
        *(
            _difference(
                f"{WRITER_NAMES[body]} less one vector, {_said(LONG)} letters",
                _NOT_THEIRS,
                difference_of(*counts_of(readings, body, LONG), *none),
            )
            for body in ("dot", "transformer")
        ),
    )


def rows_of(readings: Sequence[Reading]) -> tuple[tuple[Cell, ...], ...]:
    """Every seed's numbers, then those of all seeds together with their intervals."""
    rows: list[tuple[Cell, ...]] = [
        (
            WRITER_NAMES[one.body],
            one.seed,
            one.n_words,
            one.right.n_texts,
            one.right.n_exact / one.right.n_texts,
            None,
            None,
            one.right.token_share,
        )
        for one in readings
    ]
    for body in WRITER_NAMES:
        shares = zip(_lengths(readings), shares_of(readings, body), _tokens(readings, body), strict=True)
        for n_words, share, tokens in shares:
            counts, n_texts = counts_of(readings, body, (n_words, n_words))
            n_rows = n_texts * len(counts)
            rows.append(
                (WRITER_NAMES[body], "all", n_words, n_rows, share.value, share.low, share.high, tokens)
            )
    return tuple(rows)


def length_charts(readings: Sequence[Reading]) -> tuple[Chart, ...]:
    """Rows right to the end with their intervals, and single tokens."""
    lengths = np.array(_lengths(readings), np.float64)
    exact: list[Series] = []
    tokens: list[Series] = []
    for body, name in WRITER_NAMES.items():
        colour, shares = OF_WRITER[body], shares_of(readings, body)
        for ends in ([s.low for s in shares], [s.high for s in shares]):
            exact.append(Series(name="", xs=lengths, ys=np.array(ends), colour=colour, is_quiet=True))
        values = np.array([share.value for share in shares])
        exact.append(Series(name=name, xs=lengths, ys=values, colour=colour, has_points=True))
        ys = np.array(_tokens(readings, body))
        tokens.append(Series(name=name, xs=lengths, ys=ys, colour=colour, has_points=True))
    marks = ((float(TRAINED[1]), f"trained to {TRAINED[1]}"),)
    whole, single = "share of rows right to the end", "share of tokens right at their places"
    return tuple(
        Chart(
            title=title,
            x_label="letters of the row",
            y_label=label,
            series=tuple(series),
            y_range=(0.0, 1.1),
            marks=marks,
        )
        for title, label, series in (("Whole rows", whole, exact), ("Tokens", single, tokens))
    )


def _lengths(readings: Sequence[Reading]) -> list[int]:
    return sorted({one.n_words for one in readings})


def _tokens(readings: Sequence[Reading], body: Writer) -> list[float]:
    """Of every length, the mean over seeds."""
    own = [one for one in readings if one.body == body]
    return [
        float(np.mean([one.right.token_share for one in own if one.n_words == n])) for n in _lengths(readings)
    ]


def _difference(
    what: str, published: str, found: Share, *, is_as_published: bool | None = None, remark: str = ""
) -> Comparison:
    return Comparison(
        what=what,
        published=published,
        where="—" if published == _NOT_THEIRS else _FIGURE,
        ours=found.value,
        low=found.low,
        high=found.high,
        unit="of the rows right to the end",
        is_as_published=is_as_published,
        remark=remark,
    )


def _said(lengths: Lengths) -> str:
    return f"{lengths[0]} to {lengths[1]}"
