"""Norms over axes: which numbers of a block share a mean and a variance.

    symbol   meaning                                                            shape
    x        a block: texts, tokens, features                                   [B, T, F]
    μ, σ²    mean and variance of the numbers that share them                   as x
    y        (x − μ) / √(σ² + ε); of the RMS norm x / √(mean(x²) + ε)           [B, T, F]

Layer norm (Ba et al. 2016): the features of one token. Batch norm (Ioffe and Szegedy 2015), as in training:
one feature of all tokens of all texts. RMS norm (Zhang and Sennrich 2019): as layer norm, nothing is taken
off. Group norm (Wu and He 2018): the features of one of G groups in all tokens of one text. Gain and bias,
which are learned, are left out.
"""

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from attnscope.counting import format_number, plural
from attnscope.fields import number, one_of, redraw
from attnscope.labs.lab import BLUE, OLIVE, ORANGE, Lab, LabWords
from attnscope.records.charts import CellMap, Chart, Series

Numbers = NDArray[np.float64]
Norm = Literal["layer", "batch", "rms", "group"]
NORMS: dict[Norm, str] = {
    "layer": "layer norm",
    "batch": "batch norm",
    "rms": "RMS norm",
    "group": "group norm",
}
N_FEATURES = 8
MAX_TEXTS, MAX_TOKENS = 4, 6
EPSILON = 1e-5


@dataclass(frozen=True, slots=True, kw_only=True)
class NormChoice:
    """The norm, the block, and the selected number; its indices count from 1."""

    norm: Norm = one_of("layer", NORMS, title="norm", tip="Which numbers share a mean and a variance")
    n_groups: int = number(
        2,
        (1, 2, 4, 8),
        title="groups G",
        tip="Groups of features; 1 takes all features together, 8 each by itself (instance norm)",
        is_used=lambda c: c.norm == "group",
    )
    n_texts: int = number(3, range(1, MAX_TEXTS + 1), title="texts B", tip="Texts of the batch")
    n_tokens: int = number(4, range(2, MAX_TOKENS + 1), title="tokens T", tip="Tokens of each text")
    unevenness: float = number(
        1.5,
        tuple(k / 4 for k in range(13)),
        title="uneven",
        tip="How far the means of features are apart; in Transformers a few are much larger than others",
    )
    text: int = number(
        2,
        range(1, MAX_TEXTS + 1),
        title="text",
        tip="The text of the number looked at; or click it in a map",
        shown=lambda c: min(c.text, c.n_texts),
    )
    token: int = number(
        2,
        range(1, MAX_TOKENS + 1),
        title="token",
        tip="Its token; or click it in a map",
        shown=lambda c: min(c.token, c.n_tokens),
    )
    feature: int = number(
        3, range(1, N_FEATURES + 1), title="feature", tip="Its feature; or click it in a map"
    )
    seed: int = redraw(title="Other numbers", tip="Draw another block")

    @property
    def at(self) -> tuple[int, int, int]:
        """The selected number, as an index of the block."""
        return min(self.text, self.n_texts) - 1, min(self.token, self.n_tokens) - 1, self.feature - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class NormShown:
    """The block before and after, [B, T, F]; `shares` are the entries that count for the selected number."""

    choice: NormChoice
    before: Numbers
    after: Numbers
    shares: NDArray[np.bool_]
    words: LabWords


def show_norm(choice: NormChoice) -> NormShown:
    before = draw_block(choice.n_texts, choice.n_tokens, choice.unevenness, choice.seed)
    after = block_after(before, choice.norm, choice.n_groups)
    shares = sharing(before.shape, choice.norm, choice.n_groups, choice.at)
    return NormShown(
        choice=choice,
        before=before,
        after=after,
        shares=shares,
        words=_words(choice, before, after, shares),
    )


def block_after(x: Numbers, norm: Norm, n_groups: int = 1) -> Numbers:
    """The block [B, T, F] after a norm, without gain and bias; the batch norm as in training."""
    if norm == "rms":
        return np.asarray(x / np.sqrt(np.mean(x**2, axis=2, keepdims=True) + EPSILON))
    if norm == "group":
        parts = x.reshape(*x.shape[:2], n_groups, -1)  # [B, T, G, F / G]
        return _standard(parts, (1, 3)).reshape(x.shape)
    return _standard(x, (2,) if norm == "layer" else (0, 1))


def _standard(x: Numbers, axes: tuple[int, ...]) -> Numbers:
    mean, variance = x.mean(axis=axes, keepdims=True), x.var(axis=axes, keepdims=True)
    return np.asarray((x - mean) / np.sqrt(variance + EPSILON))


def sharing(shape: tuple[int, ...], norm: Norm, n_groups: int, at: tuple[int, int, int]) -> NDArray[np.bool_]:
    """Entries of the block that share the statistics of the one at an index."""
    texts, tokens, features = np.indices(shape)
    text, token, feature = at
    match norm:
        case "batch":
            found = features == feature
        case "group":
            size = shape[2] // n_groups
            found = (texts == text) & (features // size == feature // size)
        case _:
            found = (texts == text) & (tokens == token)
    return np.asarray(found)


@lru_cache(maxsize=16)
def draw_block(n_texts: int, n_tokens: int, unevenness: float, seed: int) -> Numbers:
    """Numbers whose features, and texts, have their own means and sizes, [B, T, F]."""
    random = np.random.default_rng(seed)
    noise = random.standard_normal((MAX_TEXTS, MAX_TOKENS, N_FEATURES))
    means, sizes = random.standard_normal(N_FEATURES), np.exp(0.5 * random.standard_normal(N_FEATURES))
    texts = random.standard_normal((MAX_TEXTS, 1, 1))
    return np.asarray((noise * sizes + unevenness * means + 0.7 * texts)[:n_texts, :n_tokens])


def norm_cells(shown: NormShown) -> tuple[CellMap, ...]:
    """The block before, the entries that share mean and variance, and the block after."""
    n_texts, n_tokens, n_features = shown.before.shape
    rows = tuple(f"{b + 1}·{t + 1}" for b in range(n_texts) for t in range(n_tokens))
    columns = tuple(str(j + 1) for j in range(n_features))
    kinds = np.where(shown.shares, 2.0, np.nan)
    kinds[shown.choice.at] = 1.0

    def flat(block: Numbers) -> Numbers:
        return block.reshape(-1, n_features)

    def block(title: str, values: Numbers) -> CellMap:
        return CellMap(
            title=title,
            note="text·token × feature",
            values=flat(values),
            kind="signed",
            limit=float(np.abs(values).max()) or 1.0,
            rows=rows,
            columns=columns,
            row_title="text·token",
            column_title="feature",
        )

    return (
        block("Before", shown.before),
        CellMap(
            title="Counted together",
            note=f"{shown.shares.sum()} of {shown.shares.size}",
            values=flat(kinds),
            kind="kinds",
            rows=rows,
            columns=columns,
            row_title="text·token",
            column_title="feature",
            legend=("x", "counted", "others"),
        ),
        block("After", shown.after),
    )


def norm_charts(shown: NormShown) -> tuple[Chart, ...]:
    """The mean of each token and that of each feature, before and after."""

    def chart(title: str, x_label: str, axes: tuple[int, ...]) -> Chart:
        before, after = (block.mean(axis=axes).ravel() for block in (shown.before, shown.after))
        xs = np.arange(1.0, len(before) + 1)
        zero = Series(name="0", xs=xs[[0, -1]], ys=np.zeros(2), colour=OLIVE, is_quiet=True, has_label=False)
        return Chart(
            title=title,
            x_label=x_label,
            y_label="mean",
            series=(
                zero,
                Series(name="before", xs=xs, ys=before, colour=ORANGE, has_points=True),
                Series(name="after", xs=xs, ys=after, colour=BLUE, has_points=True),
            ),
        )

    return (
        chart("Each token", "token, text by text", (2,)),
        chart("Each feature", "feature", (0, 1)),
    )


_COUNTED: dict[Norm, str] = {
    "layer": "μ, σ over F: one token",
    "batch": "μ, σ over B, T: one feature",
    "rms": "mean over F: one token",
    "group": "μ, σ over T, F/G: one text",
}


def _words(choice: NormChoice, before: Numbers, after: Numbers, shares: NDArray[np.bool_]) -> LabWords:
    counted = before[shares]
    is_rms = choice.norm == "rms"
    size = np.sqrt(np.mean(counted**2)) if is_rms else counted.std()
    is_alone = choice.norm in ("layer", "rms")
    numbers = (
        ("x, the number looked at", format_number(float(before[choice.at]))),
        ("μ of the counted", format_number(float(counted.mean()))),
        ("root mean square" if is_rms else "σ of the counted", format_number(float(size))),
        ("y", format_number(float(after[choice.at]))),
        ("numbers counted together", f"{counted.size} of {before.size}"),
        ("means of the block", str(before.size // counted.size)),
        ("y depends on other tokens", "no" if is_alone else "yes"),
        ("y depends on other texts", "yes" if choice.norm == "batch" and choice.n_texts > 1 else "no"),
        ("ε", format_number(EPSILON)),
    )
    formula = "y = x / √(mean(x²) + ε)" if is_rms else "y = (x − μ) / √(σ² + ε)"
    return LabWords(
        formula=(formula, _COUNTED[choice.norm]),
        numbers=numbers,
        sentence=_sentence(choice, after, counted.size),
    )


def _sentence(choice: NormChoice, after: Numbers, n_counted: int) -> str:
    left = format_number(float(np.abs(after.mean(axis=(0, 1))).max()), 2)
    match choice.norm:
        case "layer":
            return (
                f"Layer norm normalises over the {n_counted} features of one token: the result depends on "
                "no other token or text, in training and in use. Features keep their means (up to "
                f"{left})."
            )
        case "rms":
            of_token = format_number(float(np.abs(after.mean(axis=2)).max()), 2)
            return (
                f"RMS norm divides the {n_counted} features of one token by their root mean square and "
                f"subtracts nothing: means of tokens do not become 0 (here up to {of_token}), only sizes 1."
            )
        case "batch":
            return (
                f"Batch norm normalises one feature over {plural(n_counted, 'token')} of the whole batch: a "
                f"number changes when another {'text' if choice.n_texts > 1 else 'token'} does, and padding "
                "counts unless it is masked. Where there is no batch, running averages are used."
            )
    return (
        f"Group norm normalises over {n_counted} numbers of one text, a group of features in all its "
        "tokens: other texts do not matter, but later tokens do, so a causal model cannot use it."
    )


class NormsOverAxes(Lab[NormChoice, NormShown]):
    name = "Norms over axes"
    group = "Depth and training"
    order = 4
    shows = "Layer, batch, RMS and group norm on a block: which numbers share a mean and a variance"
    source = "Ioffe and Szegedy 2015, Ba et al. 2016, Wu and He 2018, Zhang and Sennrich 2019"
    search = ("layer normalisation", "batch normalisation", "LayerNorm", "BatchNorm")
    help = """A block of texts × tokens × features before and after a norm, without its learned gain and
    bias. Click a number: the map in the middle shows which others are counted with it. Layer norm and RMS
    norm normalise over the features of one token, so that nothing depends on other tokens or texts. Batch
    norm normalises one feature over all tokens of the batch, group norm a group of features over all tokens
    of one text; with one group for each feature it is instance norm. The charts show which means are 0
    afterwards. For where to place the norm, see [Norms before or after](help:labs#norms-before-or-after).
    """

    example = NormChoice()
    stretches = (1, 1)
    names_px = 48
    figure_mm = (200.0, 180.0)

    resolve = staticmethod(show_norm)
    charts = staticmethod(norm_charts)
    cells = staticmethod(norm_cells)

    def click(self, choice: NormChoice, cells: int, i: int, j: int) -> NormChoice:
        text, token = divmod(i, choice.n_tokens)
        return replace(choice, text=text + 1, token=token + 1, feature=j + 1)
