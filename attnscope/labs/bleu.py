"""BLEU of the open translation model, measured, beside published values of large ones.

    symbol   meaning                                                                    shape
    m_n      n-grams of all translations that a reference has too, at most as often     one number
    p_n      m_n / n-grams of all translations                                          n = 1 … 4
    c, r     words of all translations, and of the references held against them         one number each
    BP       brevity penalty, min(1, exp(1 − r / c))                                    one number

    BLEU = 100 · BP · exp(¼ Σ ln p_n)        (Papineni et al. 2002, section 2.3)

The worker translates and counts, with sacrebleu (`attnscope/analysis/metrics.py`); its 95 % interval comes
from drawing the sentences again (Koehn 2004).
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from attnscope.counting import percent, plural
from attnscope.fields import file_line, number, one_of
from attnscope.labs.lab import (
    BLUE,
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
from attnscope.records.charts import CellMap, Chart, Series, whiskers
from attnscope.records.experiments import (
    NO_ANSWER,
    BleuFinding,
    BleuNumbers,
    BleuQuestion,
    BleuText,
    ExperimentAnswer,
    OpenModel,
    WritingWay,
)
from attnscope.records.measures import with_interval

Numbers = NDArray[np.float64]
WAYS: dict[WritingWay, str] = {"greedy": "greedily", "beams": "with beams"}
BEAMS: tuple[int, ...] = (2, 3, 4, 6, 8, 10)
PAIRS: tuple[int, ...] = (20, 40, 60, 100, 200, 500, 1000, 2000)
SHARES: tuple[float, ...] = (0.0, 0.01, 0.02, 0.05, 0.1, 0.2)
MOST_SENTENCES = 200
_MOST_WORDS = 24
_ORDER = 4
PUBLISHED: tuple[tuple[str, float, float], ...] = (
    ("RNNencdec", np.nan, 17.82),
    ("RNNsearch", np.nan, 28.45),
    ("GNMT + RL", 24.6, 39.92),
    ("Transformer base", 27.3, 38.1),
    ("Transformer big", 28.4, 41.8),
)
"""newstest2014, English to German and to French (Bahdanau et al. 2014, table 1; Vaswani et al. 2017, 2)"""
CLAIM = (
    "BLEU counts which n-grams of the translations stand in the references too. "
    "How near does a model of a few million weights come, on everyday sentences?"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class BleuChoice:
    """The sentences to translate and how, and the sentence shown."""

    file: str = file_line(
        tip="Pairs of your own: source, tab and translation on each line; lines with the same source are one "
        "sentence with several references. Empty: 60 English–French pairs that come with the program",
        kinds="Pairs (*.tsv *.txt)",
        read=needs_file("a text file with a source, a tab and its translation on each line"),
    )
    held_out: float = number(
        0.0,
        SHARES,
        title="held out",
        tip='Read only pairs that training kept out by data.held_out_by = "crc32" and this share; 0: all',
        is_used=lambda c: bool(c.file),
    )
    n_pairs: int = number(60, PAIRS, title="sentences", tip="How many are translated at most, the first ones")
    way: WritingWay = one_of(
        "greedy",
        WAYS,
        title="write",
        tip="Greedily: the most probable token each time. With beams: the best of several texts, α = 0.6",
    )
    n_beams: int = number(
        4, BEAMS, title="beams", tip="Texts that are followed at a time", is_used=lambda c: c.way == "beams"
    )
    sentence: int = number(
        1,
        range(1, MOST_SENTENCES + 1),
        title="sentence",
        tip="The translation whose n-grams the map shows",
        shown=lambda c: min(c.sentence, max(1, len(texts_of(c)))),
        is_walked=True,
    )
    answer: ExperimentAnswer = NO_ANSWER


@dataclass(frozen=True, slots=True, kw_only=True)
class Scored:
    """The finding so far, and the text shown; None while there is none."""

    choice: BleuChoice
    found: BleuFinding | None
    text: BleuText | None
    words: LabWords


def texts_of(choice: BleuChoice) -> tuple[BleuText, ...]:
    """The translations to choose from."""
    found = choice.answer.of(BleuFinding)
    return () if found is None else found.texts[:MOST_SENTENCES]


def score(choice: BleuChoice) -> Scored:
    found, texts = choice.answer.of(BleuFinding), texts_of(choice)
    text = texts[min(choice.sentence, len(texts)) - 1] if texts else None
    return Scored(
        choice=choice,
        found=found,
        text=text,
        words=LabWords(
            formula=("BLEU = 100 · BP · (p₁ · p₂ · p₃ · p₄)^¼", "BP = min(1, exp(1 − r / c))"),
            numbers=_numbers(found, text),
            sentence=_sentence(choice, found),
        ),
    )


def _numbers(found: BleuFinding | None, text: BleuText | None) -> tuple[tuple[str, str], ...]:
    known = found.score if found is not None else None
    precisions = known.precisions if known is not None else (np.nan,) * _ORDER
    return (
        ("model", found.name if found is not None else "–"),
        ("BLEU, 95 % interval", _bleu_text(known)),
        *((f"p{'₁₂₃₄'[n]}: {n + 1}-grams right", percent(p / 100, 1)) for n, p in enumerate(precisions)),
        ("BP, of r / c words", _brevity(known)),
        ("sentences", f"{known.n_texts:,}" if known is not None else "–"),
        ("cut before they ended", str(found.n_cut) if found is not None else "–"),
        ("matched here, n = 1 … 4", _matched(text)),
    )


def _bleu_text(known: BleuNumbers | None) -> str:
    if known is None:
        return "–"
    if np.isnan(known.value):
        return "– (no text has 4 words)"
    return with_interval(known.value, known.low, known.high, 2 if np.isfinite(known.low) else 1)


def _brevity(known: BleuNumbers | None) -> str:
    return "–" if known is None else f"{known.brevity:.3f}, {known.n_right_words:,} / {known.n_words:,}"


def _matched(text: BleuText | None) -> str:
    """Matches of a sentence's n-grams; it is too short for a BLEU of its own."""
    return "–" if text is None else " · ".join(f"{sum(row)}/{len(row)}" for row in text.matches)


def _sentence(choice: BleuChoice, found: BleuFinding | None) -> str:
    answer = choice.answer
    if found is None or answer.error:
        return claimed(CLAIM, answer)
    if not answer.is_exact:
        return (
            f"{found.name} has translated {answer.n_done:,} of {answer.n_total:,}, short ones first: BLEU "
            f"{_bleu_text(found.score)} so far…"
        )
    how = WAYS[found.question.way]
    how = f"with {found.question.n_beams} beams" if found.question.way == "beams" else how
    return (
        f"{found.name} {how}: BLEU {_bleu_text(found.score)} on {found.pairs}. Published numbers are of "
        "news: compare a BLEU only with others on the same sentences."
        f"{in_advance(answer)}"
    )


def bleu_charts(shown: Scored) -> tuple[Chart, ...]:
    """BLEU here and as published, its component precisions, and BLEU by length."""
    return (_beside(shown), _precisions(shown), _by_length(shown))


def _room(n: int) -> Series:
    """Room for the first and last of `n` names."""
    return Series(name="", xs=np.array([0.5, n + 0.5]), ys=np.full(2, np.nan), has_label=False)


def _beside(shown: Scored) -> Chart:
    known = shown.found.score if shown.found is not None else None
    first, xs = np.array([1.0]), np.arange(2.0, len(PUBLISHED) + 2)
    value, low, high = (known.value, known.low, known.high) if known is not None else (np.nan,) * 3
    german, french = (np.array([row[k] for row in PUBLISHED]) for k in (1, 2))
    notes = [(1.22, value, value)]
    places = [*xs.tolist()[:-1], float(xs[-1]) - 0.25]  # the name of the line stands right of its end
    notes += [(x, y + 9.0, y) for x, y in zip(places, french.tolist(), strict=True)]
    notes += [(x, y - 9.0, y) for x, y in zip(places, german.tolist(), strict=True)]
    return Chart(
        title="Here, and published",
        x_label="",
        y_label="BLEU; published: newstest2014; bar: 95 % interval",
        series=(
            _room(len(PUBLISHED) + 1),
            whiskers(first, np.array([[low, high]]), BLUE),
            Series(name="here", xs=first, ys=np.array([value]), colour=BLUE, style="points", has_label=False),
            Series(name="en–fr", xs=xs, ys=french, colour=ORANGE, has_points=True),
            Series(name="en–de", xs=xs, ys=german, colour=PURPLE, has_points=True),
        ),
        y_range=(0.0, 100.0),
        notes=tuple((x, at, f"{y:.4g}") for x, at, y in notes if np.isfinite(y)),
        x_names=("here", *(row[0].replace("Transformer", "Transf.") for row in PUBLISHED)),
    )


def _precisions(shown: Scored) -> Chart:
    known = shown.found.score if shown.found is not None else None
    ns = np.arange(1.0, _ORDER + 1)
    values = np.array(known.precisions) if known is not None else np.full(_ORDER, np.nan)
    level = np.full(2, known.value if known is not None else np.nan)
    return Chart(
        title="n-gram precisions",
        x_label="n",
        y_label="% of n-grams in a reference",
        series=(
            _room(_ORDER),
            Series(name="BLEU", xs=ns[[0, -1]], ys=level, colour=OLIVE, is_dashed=True),
            Series(name="pₙ", xs=ns, ys=values, colour=BLUE, has_points=True, has_label=False),
        ),
        y_range=(0.0, 100.0),
        x_names=tuple(str(n) for n in range(1, _ORDER + 1)),
    )


def _by_length(shown: Scored) -> Chart:
    parts = shown.found.parts if shown.found is not None else ()
    xs = np.arange(1.0, max(1, len(parts)) + 1)
    value, low, high = (
        np.array([getattr(part.score, name) for part in parts] or [np.nan])
        for name in ("value", "low", "high")
    )
    return Chart(
        title="By length",
        x_label="words of the source",
        y_label="BLEU; bars: 95 % intervals",
        series=(
            _room(len(xs)),
            whiskers(xs, np.stack([low, high], axis=1), BLUE),
            Series(name="here", xs=xs, ys=value, colour=BLUE, has_points=True, has_label=False),
        ),
        y_range=(0.0, 100.0),
        x_names=tuple(f"{part.first}–{part.last}" for part in parts) or ("–",),
    )


def bleu_cells(shown: Scored) -> tuple[CellMap, ...]:
    """N-grams of the selected translation that a reference has."""
    text = shown.text
    words = text.words[:_MOST_WORDS] if text is not None and text.words else ("…",) * 8
    values = np.full((_ORDER, len(words)), np.nan)
    for n, row in enumerate(text.matches if text is not None else ()):
        cut = np.array(row[: len(words)], np.float64)
        values[n, : len(cut)] = 2.0 - cut
    return (
        CellMap(
            title="Matched n-grams",
            note="" if text is None else f"{text.source} → {text.references[0]}",
            values=values,
            kind="kinds",
            legend=("in a reference", "in none", "no n-gram begins here"),
            rows=tuple(plural(n, "word") for n in range(1, _ORDER + 1)),
            columns=words,
            row_title="n-gram of",
            column_title="its first word, as translated",
            is_wide=True,
        ),
    )


class Bleu(Lab[BleuChoice, Scored]):
    name = "BLEU"
    group = "Attention or recurrence"
    order = 6
    shows = "BLEU of the open translator on pairs of sentences, with its interval, beside published numbers"
    source = "Papineni et al. 2002, Vaswani et al. 2017"
    help = """The open translator writes each sentence, greedily or with beams, and BLEU counts which of its
    words, pairs, triples and quadruples of words stand in a reference (Papineni 2002), as sacrebleu does. The
    map shows them for one sentence; *By length* is the figure of Bahdanau 2014. Intervals come from drawing
    the sentences again (Koehn 2004). Without a file, the 60 everyday English–French pairs that come with the
    program are read, on which nothing was trained; where no translator is open, english-french reads them.
    In a file of your own, lines with the same source are one sentence with several references, and *held out*
    leaves out what a recipe with `held_out_by = "crc32"` trained on. All heads are on. Published are BLEU of
    newstest2014 (Bahdanau 2014, table 1; Vaswani 2017, table 2): long sentences of news, which cannot be
    compared with numbers of other sentences. `attnscope translate` does the same for whole files.
    """

    example = BleuChoice()
    asks = BleuQuestion
    stretches = (5, 5, 4)
    names_px = 60
    figure_mm = (220.0, 150.0)

    resolve = staticmethod(score)
    charts = staticmethod(bleu_charts)
    cells = staticmethod(bleu_cells)

    def question(self, choice: BleuChoice, opened: OpenModel | None) -> BleuQuestion:
        reads_it = opened is not None and opened.translates and bool(choice.file or not opened.is_toy)
        wish = asked(BleuQuestion, choice)
        return BleuQuestion(
            model=opened.key if opened is not None and reads_it else "",
            way=wish.way,
            n_beams=wish.n_beams if wish.way == "beams" else BleuQuestion().n_beams,
            file=wish.file,
            stamp=file_stamp(wish.file),
            held_out=wish.held_out if wish.file else 0.0,
            n_pairs=wish.n_pairs,
        )
