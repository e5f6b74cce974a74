"""Probing: what a linear classifier can read off each layer, beside a control task.

    symbol        meaning                                                       shape
    x             a word's row of the residual stream after so many layers      [d]
    W, b          the probe                                                     [n_labels, d], [n_labels]
    accuracy      of task and control task on held-out sentences, by layer      [n_layers + 1]
    selectivity   their difference                                              [n_layers + 1]

The worker reads the sentences and trains the probes (`attnscope/workers/experiments/probing.py`).
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from attnscope.counting import plural
from attnscope.fields import file_line, line, number, one_of, redraw
from attnscope.labs.lab import (
    BLUE,
    GREEN,
    OLIVE,
    ORANGE,
    PURPLE,
    Lab,
    LabWords,
    asked,
    claimed,
    file_stamp,
    in_advance,
    needs_file,
)
from attnscope.paths import resources_folder
from attnscope.records.charts import Chart, Series, whiskers
from attnscope.records.experiments import (
    NO_ANSWER,
    ExperimentAnswer,
    LabelColumn,
    OpenModel,
    ProbeFinding,
    ProbeQuestion,
    WordPiece,
)
from attnscope.records.measures import Share, with_interval

Numbers = NDArray[np.float64]
SENTENCES: tuple[int, ...] = (40, 100, 200, 400, 800)
STRENGTHS: tuple[float, ...] = (0.0001, 0.001, 0.01, 0.1, 1.0)
COLUMNS: dict[LabelColumn, str] = {
    "upos": "part of speech",
    "xpos": "language-specific tag",
    "deprel": "relation to its head",
}
PIECES: dict[WordPiece, str] = {"last": "last piece", "first": "first piece", "mean": "mean of all"}
_MANY_UNKNOWN = 0.1
_PASSED = "after so many layers; 0: what enters the first"
CLAIM = (
    "A probe is a linear classifier that is trained on what a layer leaves: what it tells of held-out words "
    "can be read off there. The model itself is not changed."
)


def is_model(name: str) -> bool:
    """Whether a name refers to something: a demo model, a kept run, or a path."""
    resources = resources_folder()
    places = (resources / "models" / name, resources / "films" / name, Path(name).expanduser())
    return not name or ("\0" not in name and any(place.is_dir() for place in places))


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbingChoice:
    """The vectors to read, and how they are probed."""

    file: str = file_line(
        tip="Sentences of your own with a label for each word: CoNLL-U, or lines of word/LABEL; one in four "
        "is held out. Empty: sentences of the task tagging, whose words can be noun or verb",
        kinds="Labelled words (*.conllu *.tsv *.txt)",
        read=needs_file("a CoNLL-U file, or words with labels as word/LABEL or word, tab, label"),
    )
    column: LabelColumn = one_of(
        "upos",
        COLUMNS,
        title="label",
        tip="Which column of a CoNLL-U file has the labels",
        is_used=lambda c: bool(c.file),
    )
    n_sentences: int = number(200, SENTENCES, title="sentences", tip="How many are read at most")
    piece: WordPiece = one_of(
        "last", PIECES, title="pieces", tip="Which row is read of a word that is several tokens"
    )
    strength: float = number(
        0.1, STRENGTHS, title="penalty λ", tip="L2: a larger λ keeps the weights of the probe smaller"
    )
    model: str = line(
        "",
        title="model",
        tip="A demo model, a kept run, or a model or run folder. Empty: the open model, without one "
        "stories-masked",
        is_text=is_model,
        form="the name of a demo model or a kept run, or a folder,",
        most=1000,
    )
    seed: int = redraw(title="Other draws", tip="Draw other control labels and another division of sentences")
    answer: ExperimentAnswer = NO_ANSWER


@dataclass(frozen=True, slots=True, kw_only=True)
class Probed:
    """The findings so far; None while there are none."""

    found: ProbeFinding | None
    words: LabWords


def probe(choice: ProbingChoice) -> Probed:
    """Findings so far."""
    found = choice.answer.of(ProbeFinding)
    return Probed(
        found=found,
        words=LabWords(
            formula=(
                "p(y | x) = softmax(W x + b)_y",
                "L = −mean log p(y | x) + λ/2 ‖W‖²",
                "selectivity = acc − acc_random",
            ),
            numbers=_numbers(found),
            sentence=_sentence(choice.answer, found),
        ),
    )


def best_layer(found: ProbeFinding) -> int:
    """The first of the layers at which the task is best."""
    return int(np.argmax([layer.task.value for layer in found.layers]))


def after_layers(n: int) -> str:
    """Layer at which a probe reads, in words."""
    return f"after {plural(n, 'layer')}" if n else "before the first layer"


def _numbers(found: ProbeFinding | None) -> tuple[tuple[str, str], ...]:
    if found is None:
        names = ("model", "sentences", "words to learn from", "words held out", "most frequent label")
        return tuple((name, "–") for name in (*names, "each word's usual label", "best", "selectivity there"))
    best = best_layer(found)
    layer = found.layers[best]
    rows = [
        ("model", found.name),
        ("sentences", found.text),
        ("words to learn from", f"{found.n_trained:,}"),
        ("words held out", f"{found.n_held_out:,} in {found.n_sentences_out:,} sentences"),
        ("most frequent label", f"{found.majority:.3f}"),
        ("each word's usual label", f"{found.word_alone:.3f}"),
        (f"best, {after_layers(best)}", _said(layer.task)),
        ("selectivity there", _said(layer.selectivity)),
    ]
    if found.n_unread:
        rows.append(("words left out", f"{found.n_unread:,}"))
    if found.unknown_share:
        rows.append(("pieces unknown to it", f"{found.unknown_share:.0%}"))
    return tuple(rows)


def _said(share: Share) -> str:
    return with_interval(share.value, share.low, share.high, 3)


def _sentence(answer: ExperimentAnswer, found: ProbeFinding | None) -> str:
    if found is None or answer.error:
        return claimed(CLAIM, answer)
    best = best_layer(found)
    layer = found.layers[best]
    n_done, n_all = len(found.layers), found.n_layers
    so_far = "" if n_done == n_all else f"So far, {n_done} of {n_all}: "
    unknown = (
        f" {found.unknown_share:.0%} of the pieces are unknown to its tokenizer."
        if found.unknown_share > _MANY_UNKNOWN
        else ""
    )
    return (
        f"{so_far}A linear probe is right most often {after_layers(best)}: {_said(layer.task)} of the "
        "held-out labels; of random labels of the same words, which it can only memorise, "
        f"{layer.control.value:.3f}.{unknown} What can be read off there, the model need not use."
        f"{in_advance(answer)}"
    )


def probing_charts(shown: Probed) -> tuple[Chart, ...]:
    """Accuracy of the task and of the control task by layer, their difference, and the task's by label."""
    found = shown.found
    layers = found.layers if found is not None else ()
    ends = np.array([0.0, float(max(1, (found.n_layers if found is not None else 2) - 1))])
    levels = (
        ("word alone", found.word_alone if found is not None else np.nan, GREEN),
        ("majority", found.majority if found is not None else np.nan, OLIVE),
    )
    return (
        Chart(
            title="Accuracy by layer",
            x_label=_PASSED,
            y_label="share of held-out words that is right; bars: 95 % intervals",
            y_range=(0.0, 1.0),
            series=(
                *_with_whiskers("labels", [layer.task for layer in layers], BLUE),
                *_with_whiskers("random labels", [layer.control for layer in layers], ORANGE),
                *(
                    Series(name=name, xs=ends, ys=np.full(2, level), colour=colour, is_dashed=True)
                    for name, level, colour in levels
                ),
            ),
        ),
        Chart(
            title="Selectivity",
            x_label=_PASSED,
            y_label="labels less random labels",
            series=(
                Series(name="none", xs=ends, ys=np.zeros(2), colour=OLIVE, is_dashed=True, has_label=False),
                *_with_whiskers(
                    "selectivity", [layer.selectivity for layer in layers], PURPLE, has_label=False
                ),
            ),
        ),
        _by_label(found),
    )


def _by_label(found: ProbeFinding | None) -> Chart:
    """The task's accuracy among the words of each label: at the input of the first layer, and at its best."""
    labels = found.labels if found is not None else ("…",) * 8
    xs = np.arange(1.0, len(labels) + 1)
    shown = {0: ORANGE, best_layer(found): BLUE} if found is not None else {}
    return Chart(
        title="By label",
        x_label="",
        y_label="share right",
        y_range=(0.0, 1.0),
        series=(
            Series(name="", xs=np.array([0.5, len(labels) + 0.5]), ys=np.full(2, np.nan), has_label=False),
            *(
                Series(
                    name=f"after {layer}",
                    xs=xs,
                    ys=np.array(found.layers[layer].by_label),
                    colour=colour,
                    has_points=True,
                )
                for layer, colour in shown.items()
                if found is not None
            ),
        ),
        x_names=labels,
    )


def _with_whiskers(
    name: str, shares: list[Share], colour: int, *, has_label: bool = True
) -> tuple[Series, Series]:
    xs = np.arange(float(len(shares))) if shares else np.array([np.nan])
    values, lows, highs = (
        np.array([getattr(share, what) for share in shares] or [np.nan]) for what in ("value", "low", "high")
    )
    ends = np.stack([lows, highs], axis=1)
    return (
        whiskers(xs, ends, colour, f"{name}, 95 % interval"),
        Series(name=name, xs=xs, ys=values, colour=colour, has_points=True, has_label=has_label),
    )


class Probing(Lab[ProbingChoice, Probed]):
    name = "Probing"
    group = "Depth and training"
    order = 10
    shows = "What a linear probe tells of each word after each layer of the open model, beside a control task"
    source = "Alain and Bengio 2016; Hewitt and Liang 2019; Tenney et al. 2019"
    search = (
        "probing",
        "probe",
        "linear probe",
        "probing classifier",
        "diagnostic classifier",
        "linear classifier",
        "what a layer knows",
        "control task",
        "selectivity",
    )
    help = """A probe is a linear classifier (softmax regression with a penalty λ/2 ‖W‖² on its weights)
    that is trained on the residual stream after a layer, and on nothing else: the model stays as it is
    (Alain 2016). It learns a label of each word, such as its part of speech (Tenney 2019), and is asked
    about sentences that were held out. Each number of the stream is standardised; all words are learned
    at once, so the same data give the same probe. Beside it: the most frequent label, each word's usual
    label, and the control task, in which every word has a random label that a probe can only memorise.
    Accuracy less that of the control task is the selectivity (Hewitt and Liang 2019): a large one says
    that more than the word itself was read off. Intervals are over held-out sentences. Without a file,
    sentences of the task tagging are read, most of whose words can be two parts of speech; in a file of
    your own (CoNLL-U, or lines of word/LABEL) one in four sentences is held out. Of a word of several
    tokens the last is read, unless you choose the first or the mean. A translator is probed in its
    encoder. What a probe tells is there to be read off in a straight line; that the model uses it, it
    does not show (Belinkov 2022). From the command line: `attnscope lab Probing --set model=stories`.
    """

    example = ProbingChoice()
    asks = ProbeQuestion
    stretches = (5, 4)
    names_px = 96
    figure_mm = (220.0, 150.0)

    resolve = staticmethod(probe)
    charts = staticmethod(probing_charts)

    def question(self, choice: ProbingChoice, opened: OpenModel | None) -> ProbeQuestion:
        wish = asked(ProbeQuestion, choice)
        is_of_open = opened is not None and not choice.model
        return ProbeQuestion(
            model=opened.key if opened is not None and is_of_open else "",
            source=choice.model,
            file=wish.file,
            stamp=file_stamp(wish.file),
            column=wish.column if wish.file else ProbeQuestion().column,
            n_sentences=wish.n_sentences,
            piece=wish.piece,
            strength=wish.strength,
            seed=wish.seed,
        )
