"""Quality of the output by the length of the input (Bahdanau et al. 2014, figure 2).

| symbol | meaning                                                                      |
|--------|------------------------------------------------------------------------------|
| exact  | share of rows written right to the end, greedily                             |
| tokens | share of tokens, ends counted in, that are right at their places             |

Four bodies of about the same size learn to write rows of letters backwards, each from several seeds. They
are read on rows that nobody trained on, of every trained length and of longer ones.
"""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch

from attnscope.labs.length_quality import OF_WRITER, WRITER_NAMES
from attnscope.models import Model, load
from attnscope.models.own import OwnNetwork
from attnscope.models.writing.writer import RightTexts, count_right, write_rows
from attnscope.records.charts import Chart, Series
from attnscope.records.experiments import Writer
from attnscope.records.importance import PartsDone
from attnscope.records.measures import Share, difference_of, has_sign, share_over_seeds
from attnscope.studies.making import QUICK, run_folder, train_study
from attnscope.studies.study import Cell, Choices, PaperComparison, Study, StudyCard
from attnscope.text.examples import Example
from attnscope.text.tasks import make_task

CARD = StudyCard(
    name="length",
    place=7,
    paper="Bahdanau et al. 2014, Neural machine translation by jointly learning to align and translate",
    question="Does attention write long texts as well as short ones, and one vector not?",
)

_TRAINED = (3, 20)
"""The shortest and the longest row of training, in letters."""
Lengths = tuple[int, int]
SHORT: Lengths = (3, 5)
LONG: Lengths = (18, 20)
PAST: Lengths = (21, 30)
_FIGURE = "section 5.2.1, figure 2"
_NOT_THEIRS = "not in the paper"
N_SEEDS, N_TEXTS = 3, 100
_LENGTHS = tuple(range(_TRAINED[0], 31))
_QUICK_LENGTHS = (3, 20, 30)
_N_LETTERS = 16
_HELD_OUT_SEED = 2
_WITH = {"model.has_attention": "true"}
_CHANGES: Mapping[Writer, Mapping[str, str]] = {
    "none": {},
    "additive": {**_WITH, "model.score": "additive"},
    "dot": {**_WITH, "model.score": "dot", "model.feeds_context": "false"},
    "transformer": {
        **_WITH,
        "model.body": "transformer",
        "model.position": "sinusoidal",
        "model.n_heads": "4",
        "model.d_ff": "96",
    },
}
"""What of the recipe is another for each body."""
_DIFFERENCES = (
    "They translate English to French and count BLEU; ours writes letters backwards, where what is right is"
    " known, in minutes on one processor. Directions can be compared and no numbers.",
    "Their models have 1,000 units and 620 for words, trained on sentences of up to 30 or 50 words for five"
    " days; ours have 48, and 3 to 20 letters.",
    "With a larger vector, or trained longer, the model without attention comes further; what it is worth"
    " falls with the length all the same.",
    "Nothing here is theirs for Luong's score and the Transformer, which came later: they stand beside.",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """Results for rows of one length: `n_words` letters."""

    body: Writer
    seed: int
    n_words: int
    right: RightTexts


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldOut:
    """Rows of one length."""

    n_words: int
    examples: tuple[Example, ...]


def reproduce(choices: Choices) -> Iterator[PartsDone | Study]:
    """Train every body from every seed; read each on the same held-out rows."""
    lengths, n_texts = (_QUICK_LENGTHS, 4) if choices.is_quick else (_LENGTHS, N_TEXTS)
    held_out = [held_out_rows(n_words, n_texts) for n_words in lengths]
    readings: list[Reading] = []
    sizes: dict[Writer, int] = {}
    seeds = range(choices.seed, choices.seed + (1 if choices.is_quick else N_SEEDS))
    runs = list(itertools.product(seeds, WRITER_NAMES))
    for n_done, (seed, body) in enumerate(runs, start=1):
        out = run_folder(replace(choices, seed=seed), body)
        changes = {**(QUICK if choices.is_quick else {}), **_CHANGES[body]}
        yield from train_study("length", out, seed=seed, device=choices.device, changes=changes)
        model = load(str(out), device=choices.device)
        sizes[body] = model.info.n_parameters
        for rows in held_out:
            right = read_rows(model, rows.examples)
            readings.append(Reading(body=body, seed=seed, n_words=rows.n_words, right=right))
        yield PartsDone(n_done=n_done, n_total=len(runs), about=f"read with {out.name}")
    yield _study(choices, readings, sizes, n_texts)


def held_out_rows(n_words: int, n_texts: int) -> HeldOut:
    """Rows of one length that no training sees."""
    task = make_task("reverse", min_words=n_words, max_words=n_words, n_letters=_N_LETTERS)
    rows = task.examples(n_texts, seed=_HELD_OUT_SEED, held_out=True)
    return HeldOut(n_words=n_words, examples=tuple(rows))


def read_rows(model: Model, examples: Sequence[Example]) -> RightTexts:
    """Compare the model's output for rows of one length with the right answers."""
    network = model.network
    if not isinstance(network, OwnNetwork):
        raise TypeError("rows are read by a model of our own")
    module, end_id = network.module, network.vocabulary.end_id
    inputs = [model.encode(example.source, example.target) for example in examples]
    sources = torch.tensor([one.source.ids for one in inputs], device=module.device)
    right = torch.tensor([[*one.target.ids[1:], end_id] for one in inputs if one.target is not None])
    written = write_rows(module, sources, network.vocabulary.begin_id, right.shape[1])
    return count_right(written.cpu(), right)


def _study(choices: Choices, readings: Sequence[Reading], sizes: Mapping[Writer, int], n_texts: int) -> Study:
    seeds = sorted({one.seed for one in readings})
    said = ", ".join(f"{WRITER_NAMES[body]} {sizes[body]:,}" for body in WRITER_NAMES)
    return Study(
        name=CARD.name,
        paper=CARD.paper,
        question=CARD.question,
        setting=(
            ("models", f"resources/recipes/studies/length.toml, parameters: {said}"),
            ("task", f"rows of {_TRAINED[0]} to {_TRAINED[1]} of {_N_LETTERS} letters, written backwards"),
            ("read", f"{n_texts} held-out rows of each length, greedily"),
            ("seeds", ", ".join(str(seed) for seed in seeds)),
        ),
        comparisons=compare(readings),
        differences=_DIFFERENCES,
        charts=length_charts(readings),
        columns=("body", "seed", "letters", "rows", "exact", "low", "high", "tokens"),
        data=rows_of(readings),
    )


def counts_of(readings: Sequence[Reading], body: Writer, lengths: Lengths) -> tuple[list[int], int]:
    """Rows written right to the end by each seed, and how many each read, both lengths included."""
    own = [one for one in readings if one.body == body and lengths[0] <= one.n_words <= lengths[1]]
    seeds = sorted({one.seed for one in own})
    counts = [sum(one.right.n_exact for one in own if one.seed == seed) for seed in seeds]
    return counts, sum(one.right.n_texts for one in own if one.seed == seeds[0])


def shares_of(readings: Sequence[Reading], body: Writer) -> tuple[Share, ...]:
    """Of every length in turn, the share of rows written right to the end."""
    lengths = sorted({one.n_words for one in readings})
    return tuple(share_over_seeds(*counts_of(readings, body, (n, n))) for n in lengths)


def compare(readings: Sequence[Reading]) -> tuple[PaperComparison, ...]:
    """Compare the paper's results by length with ours; a difference within its interval claims nothing."""
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
    marks = ((float(_TRAINED[1]), f"trained to {_TRAINED[1]}"),)
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
) -> PaperComparison:
    return PaperComparison(
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
