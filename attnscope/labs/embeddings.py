"""The input of the first layer: token embeddings beside positions, the tied table, and dropout.

    symbol   meaning                                                                shape
    E        a table of token embeddings, each number from N(0, 1/d)                [n_tokens, d]
    PE       the sinusoidal positions of as many tokens                             [n_tokens, d]
    c        the factor of the embeddings, √d or 1                                  number
    x        what the first layer reads, c · E + PE                                 [n_tokens, d]
    V        pieces of a vocabulary; the table and the output layer hold V · d      number
    m        what dropout keeps: 1 with the probability 1 − p, else 0               as x
    y        m · x / (1 − p), here of numbers x from N(½, 1)                        [n_draws]

Every pair of sine and cosine adds 1 to ‖PE‖², so ‖PE‖ = √(d / 2); ‖E‖² has the mean 1. So the factor √d
brings ‖E‖ from 1 to √d, √2 times ‖PE‖ whatever d is. Where the mean of m x / (1 − p) is that of x, the
variance grows by E(x²) p / (1 − p).
"""

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from attnscope.counting import count_text, format_number, share_words
from attnscope.fields import number, redraw, switch
from attnscope.labs.lab import BLUE, GREEN, ORANGE, Lab, LabWords
from attnscope.labs.shift_matrix import sinusoidal
from attnscope.records.charts import Chart, Series

Numbers = NDArray[np.float64]
SIZES: tuple[int, ...] = tuple(2**k for k in range(3, 13))
"""The widths d that are tried, 8 to 4096."""
N_TOKENS = 64
N_DRAWS = 20_000
SHARES: tuple[float, ...] = tuple(k / 20 for k in range(19))
"""The p of dropout that are tried, 0 to 0.9."""
_BASE = 10_000.0
MEAN, SPREAD = 0.5, 1.0
"""The numbers that dropout is tried on are drawn from N(MEAN, SPREAD²): with a mean that it could move."""


class TiedModel(NamedTuple):
    """A model with a tied output layer: the size of its vocabulary, its d, and all its parameters."""

    name: str
    vocab_size: int
    d_model: int
    n_tied: int

    @property
    def n_table(self) -> int:
        """Parameters of a table and of a separate output layer."""
        return self.vocab_size * self.d_model


PUBLISHED = (
    TiedModel("transformer-base", 37_000, 512, 63_082_496),
    TiedModel("transformer-big", 37_000, 1024, 214_245_376),
    TiedModel("gpt-2-large", 50_257, 1280, 774_030_080),
    TiedModel("gpt-2-xl", 50_257, 1600, 1_557_611_200),
    TiedModel("gpt-3", 50_257, 12_288, 174_604_259_328),
)
"""Presets of the program, with the counts of `attnscope presets`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddingChoice:
    """The selected width, whether embeddings are scaled, the share dropped, and the seed."""

    d_model: int = number(
        512, SIZES, title="d", tip="Width of embeddings, d_model; click or drag in the first two pictures"
    )
    is_scaled: bool = switch(
        True, title="times √d", tip="Whether embeddings are multiplied by √d before positions are added"
    )
    dropout: float = number(
        0.1, SHARES, title="dropout p", tip="Share of the numbers that dropout sets to 0 in training"
    )
    seed: int = redraw(title="Other numbers", tip="Draw other embeddings, and others to drop")


@dataclass(frozen=True, slots=True, kw_only=True)
class Embedded:
    """Norms for each of SIZES; mean and variance for each of SHARES, as kept and divided by 1 − p."""

    choice: EmbeddingChoice
    token_norms: Numbers
    position_norms: Numbers
    kept: "Dropped"
    rescaled: "Dropped"
    words: LabWords


@dataclass(frozen=True, slots=True, kw_only=True)
class Dropped:
    """Mean and variance after dropout, for each of SHARES."""

    mean: Numbers
    variance: Numbers


def embed(choice: EmbeddingChoice) -> Embedded:
    """Measure the norms at every width, and dropout at every share."""
    tokens, positions = _norms(choice.seed)
    kept, rescaled = _dropped(choice.seed)
    return Embedded(
        choice=choice,
        token_norms=tokens,
        position_norms=positions,
        kept=kept,
        rescaled=rescaled,
        words=_words(choice, tokens, positions, kept, rescaled),
    )


def dropped(x: Numbers, chance: Numbers, p: float) -> Numbers:
    """Drop entries of x without rescaling: those whose uniform number `chance` (0 … 1) is below p."""
    return np.where(chance < p, 0.0, x)


@lru_cache(maxsize=2)
def _norms(seed: int) -> tuple[Numbers, Numbers]:
    """The mean ‖E‖ without a factor, and the mean ‖PE‖, of N_TOKENS tokens at each of SIZES."""
    random = np.random.default_rng(seed)
    tokens = [
        np.linalg.norm(random.standard_normal((N_TOKENS, d)) / np.sqrt(d), axis=1).mean() for d in SIZES
    ]
    positions = [np.linalg.norm(sinusoidal(N_TOKENS, d, _BASE), axis=1).mean() for d in SIZES]
    return np.array(tokens), np.array(positions)


@lru_cache(maxsize=2)
def _dropped(seed: int) -> tuple[Dropped, Dropped]:
    """Dropout of the same numbers at each of SHARES: as they are, and divided by 1 − p."""
    random = np.random.default_rng(seed)
    x, chance = MEAN + SPREAD * random.standard_normal(N_DRAWS), random.random(N_DRAWS)
    kept = np.array([dropped(x, chance, p) for p in SHARES])
    rescaled = kept / (1.0 - np.array(SHARES)[:, None])
    return (
        Dropped(mean=kept.mean(axis=1), variance=kept.var(axis=1)),
        Dropped(mean=rescaled.mean(axis=1), variance=rescaled.var(axis=1)),
    )


def expected_variance(p: Numbers) -> Numbers:
    """var(y) = var(x) + E(x²) p / (1 − p)."""
    return SPREAD**2 + (MEAN**2 + SPREAD**2) * p / (1.0 - p)


def _factor(choice: EmbeddingChoice, d: float) -> float:
    return float(np.sqrt(d)) if choice.is_scaled else 1.0


def _words(
    choice: EmbeddingChoice, tokens: Numbers, positions: Numbers, kept: Dropped, rescaled: Dropped
) -> LabWords:
    at, of = SIZES.index(choice.d_model), SHARES.index(choice.dropout)
    root, p = float(np.sqrt(choice.d_model)), choice.dropout
    plain = float(tokens[at] / positions[at])
    table = choice.d_model * PUBLISHED[0].vocab_size
    numbers = (
        ("‖E‖, theory 1", format_number(float(tokens[at]))),
        ("√d", format_number(root)),
        ("‖PE‖ = √(d/2)", format_number(float(positions[at]))),
        ("‖E‖ / ‖PE‖", format_number(plain)),
        ("‖√d E‖ / ‖PE‖", format_number(plain * root)),
        ("V·d, V = 37,000", count_text(table)),
        ("mean of x", format_number(float(kept.mean[0]))),
        (
            "mean kept → y",
            f"{format_number(float(kept.mean[of]))} → {format_number(float(rescaled.mean[of]))}",
        ),
        ("variance of y", format_number(float(rescaled.variance[of]))),
        ("theory", format_number(float(expected_variance(np.array(p))))),
    )
    return LabWords(
        formula=(
            "x = √d · E + PE" if choice.is_scaled else "x = E + PE",
            "logits = h Eᵀ (tied)",
            "y = m x / (1 − p)",
            "var(y) = var(x) + E(x²) p / (1 − p)",
        ),
        numbers=numbers,
        sentence=_sentence(choice, plain, root),
    )


def _sentence(choice: EmbeddingChoice, plain: float, root: float) -> str:
    big = PUBLISHED[0]
    if choice.is_scaled:
        first = (
            f"Times √d = {format_number(root)} an embedding is {format_number(plain * root)} times as long "
            "as its position, at any width."
        )
    else:
        first = (
            f"Without √d an embedding is only {format_number(plain)} times as long as its position at "
            f"d = {choice.d_model}: positions drown the tokens, the more so the wider the model."
        )
    return (
        f"{first} A tied output layer saves {share_words(big.n_table / (big.n_tied + big.n_table))} of the "
        f"parameters of the base Transformer. Dropout divided by 1 − p leaves the mean where it was; what it "
        f"adds is variance."
    )


def embedding_charts(shown: Embedded) -> tuple[Chart, ...]:
    """Norms by width, their ratio, parameters of models, and mean and variance under dropout."""
    choice, sizes = shown.choice, np.array(SIZES, np.float64)
    roots = np.sqrt(sizes)
    mark = ((float(choice.d_model), ""),)

    def by_width(title: str, unit: str, *series: Series) -> Chart:
        return Chart(
            title=title, x_label="d", y_label=unit, series=series, is_log_x=True, is_log_y=True, marks=mark
        )

    def curve(name: str, ys: Numbers, colour: int, *, is_quiet: bool = False) -> Series:
        return Series(name=name, xs=sizes, ys=ys, colour=colour, has_points=True, is_quiet=is_quiet)

    tokens, positions = shown.token_norms, shown.position_norms
    return (
        by_width(
            "Norms",
            "mean of 64 tokens",
            curve("√d E", roots * tokens, BLUE, is_quiet=not choice.is_scaled),
            curve("PE", positions, GREEN),
            curve("E", tokens, ORANGE, is_quiet=choice.is_scaled),
        ),
        by_width(
            "Token to position",
            "ratio of norms",
            curve("√d E", roots * tokens / positions, BLUE, is_quiet=not choice.is_scaled),
            curve("E", tokens / positions, ORANGE, is_quiet=choice.is_scaled),
        ),
        _tied_chart(),
        *_dropout_charts(shown),
    )


def _tied_chart() -> Chart:
    """Parameters that published models save by a tied output layer."""
    tied = np.array([one.n_tied for one in PUBLISHED], np.float64)
    table = np.array([one.n_table for one in PUBLISHED], np.float64)
    saved = table / (tied + table)
    return Chart(
        title="Saved by tying",
        x_label="parameters",
        y_label="share",
        series=tuple(
            Series(
                name=one.name.removeprefix("transformer-"),
                xs=tied[k : k + 1],
                ys=saved[k : k + 1],
                colour=BLUE,
                has_points=True,
            )
            for k, one in enumerate(PUBLISHED)
        ),
        is_log_x=True,
        y_range=(0.0, 0.3),
    )


def _dropout_charts(shown: Embedded) -> tuple[Chart, ...]:
    """Mean and variance by the share dropped, with and without the division, beside the expected ones."""
    p = np.array(SHARES)
    mark = ((shown.choice.dropout, ""),)

    def chart(title: str, kept: Numbers, rescaled: Numbers, theory: Numbers) -> Chart:
        return Chart(
            title=title,
            x_label="p",
            y_label="under dropout",
            series=(
                Series(name="theory", xs=p, ys=theory, colour=GREEN, is_reference=True),
                Series(name="m x", xs=p, ys=kept, colour=ORANGE, has_points=True),
                Series(name="m x / (1 − p)", xs=p, ys=rescaled, colour=BLUE, has_points=True),
            ),
            marks=mark,
        )

    kept, rescaled = shown.kept, shown.rescaled
    return (
        chart("Mean", kept.mean, rescaled.mean, np.full(len(p), MEAN)),
        chart("Variance", kept.variance, rescaled.variance, expected_variance(p)),
    )


class Embeddings(Lab[EmbeddingChoice, Embedded]):
    name = "Embeddings and dropout"
    group = "Tokens"
    order = 7
    shows = "Embeddings times √d beside positions, what tying saves, and why dropout divides by 1 − p"
    source = "Vaswani et al. 2017, Press and Wolf 2017, Srivastava et al. 2014"
    help = """What enters the first layer (Vaswani 2017, section 3.4). An embedding drawn from N(0, 1/d) is
    about 1 long, a sinusoidal position √(d/2): added as they are, positions drown the tokens. The embedding
    scale, the factor √d, makes the embedding √2 times as long as the position at every width. The same
    variance 1/d suits the output layer, which is why one table can be both: weight tying, or tied embeddings
    (Press and Wolf 2017), saves V · d parameters; the picture shows which share that is of published models.
    Dropout (Srivastava 2014) sets a share p of the numbers to 0 in training; the others are divided by
    1 − p (inverted dropout), so that the mean stays and nothing has to change afterwards. In a
    [recipe](help:recipes#model): `scale_embeddings`, `tie_embeddings`, `dropout`. Nothing is trained here.
    """

    example = EmbeddingChoice()
    dragged = (0, 1)
    names_px = 105
    figure_mm = (220.0, 130.0)

    resolve = staticmethod(embed)
    charts = staticmethod(embedding_charts)

    def drag(self, choice: EmbeddingChoice, x: float, y: float, *, is_start: bool) -> EmbeddingChoice:
        """The width nearest to the one dragged to, on a logarithmic scale."""
        return replace(choice, d_model=min(SIZES, key=lambda d: max(d / x, x / d)))
