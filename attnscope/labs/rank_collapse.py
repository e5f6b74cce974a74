"""Rank collapse: what skips and feed-forward layers are for (Dong, Cordonnier and Loukas 2021).

    symbol   meaning                                                     shape
    X        the stream of a random Transformer, one row for each token  [n_tokens, d_model]
    res(X)   X − 1·x̄ᵀ, what is left when the mean token is taken off     [n_tokens, d_model]
    r_l      ‖res(X)‖ / ‖X‖ (Frobenius) after layer l; 0: all alike      one number

With attention alone each layer cubes the residual, r_(l+1) ≤ c·r_l³ (their section 2, for one head and for
several): it falls doubly exponentially with depth. Skips prevent it. Weights are drawn from N(0, 1/n_in), the
first of a feed-forward layer from N(0, 2/n_in); layer norms, where they are on, come before each branch.
"""

from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from attnscope.counting import format_number, lowered
from attnscope.fields import number, redraw, switch
from attnscope.labs.lab import BLUE, GREEN, OCHRE, ORANGE, PURPLE, Lab, LabWords
from attnscope.records.charts import CellMap, Chart, Series
from attnscope.records.experiments import (
    NO_ANSWER,
    CollapseFinding,
    CollapseQuestion,
    ExperimentAnswer,
    OpenModel,
    Question,
)

Numbers = NDArray[np.float64]
Setting = tuple[bool, bool]
SETTINGS: dict[Setting, str] = {
    (True, True): "both",
    (True, False): "skips only",
    (False, True): "feed-forward only",
    (False, False): "attention alone",
}
"""Whether there are skips, whether there is feed-forward, and what that is called."""
LAYERS: tuple[int, ...] = (2, 4, 6, 8, 10, 12, 16, 20, 24)
WIDTHS: tuple[int, ...] = (16, 32, 64, 128)
HEADS: tuple[int, ...] = (1, 2, 4, 8)
TOKENS: tuple[int, ...] = (4, 8, 12, 16, 24, 32)
FLOOR = 1e-13
"""Below this a ratio is rounding and no residual: it is not shown."""
_WIDER = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class CollapseChoice:
    """The random Transformer, its active parts, and the layer after which it is shown.

    `sharpness` multiplies queries and keys: sharper attention mixes less. `answer` is the opened model's.
    """

    has_skips: bool = switch(
        False, title="skips", tip="Add each branch to the stream, in the Transformer that the maps show"
    )
    has_feed_forward: bool = switch(
        False, title="feed-forward", tip="A ReLU layer four times as wide after each attention"
    )
    has_norm: bool = switch(
        True,
        title="layer norm",
        tip="Each token to mean 0 and variance 1 before each branch; this does not stop the collapse",
    )
    layer: int = number(
        3,
        range(LAYERS[-1] + 1),
        title="layer",
        tip="The layer after which the maps show the stream; drag in the pictures",
    )
    n_layers: int = number(12, LAYERS, title="layers", tip="Depth of the Transformer")
    d_model: int = number(64, WIDTHS, title="width", tip="d_model")
    n_heads: int = number(4, HEADS, title="heads", tip="Heads of each layer")
    n_tokens: int = number(16, TOKENS, title="tokens", tip="Length of the random text")
    sharpness: float = number(
        2.0,
        (0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 4.0),
        title="sharpness",
        tip="Factor on queries and keys: the sharper attention is, the less it mixes",
    )
    seed: int = redraw(title="Other weights", tip="Draw other random weights and tokens")
    answer: ExperimentAnswer = NO_ANSWER

    def __post_init__(self) -> None:
        if min(self.n_layers, self.d_model, self.n_heads, self.n_tokens - 1) < 1 or self.sharpness <= 0:
            raise ValueError(f"no Transformer of {self.n_layers} layers on {self.n_tokens} tokens")
        if self.d_model % self.n_heads:
            raise ValueError(f"{self.d_model} dimensions cannot be shared by {self.n_heads} heads")

    @property
    def setting(self) -> Setting:
        return (self.has_skips, self.has_feed_forward)


@dataclass(frozen=True, slots=True, kw_only=True)
class Collapse:
    """r_l of every setting, [n_layers + 1], NaN under FLOOR; the stream after the chosen layer.

    `cubed` is the theory, each layer cubing the residual, from where attention alone begins to fall. `own`
    are the curves of the opened model.
    """

    choice: CollapseChoice
    ratios: dict[Setting, Numbers]
    cubed: Numbers
    layer: int
    stream: Numbers
    likeness: Numbers
    own: CollapseFinding | None
    words: LabWords


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerWeights:
    """One layer's: `queries`, `keys` and `values` [n_heads, d_model, d_head], `output` [d_model, d_model]."""

    queries: Numbers
    keys: Numbers
    values: Numbers
    output: Numbers
    rise: Numbers
    fall: Numbers


def collapse(choice: CollapseChoice) -> Collapse:
    """Run the random Transformer in all four settings."""
    streams = run_settings(
        choice.n_layers,
        choice.d_model,
        choice.n_heads,
        choice.n_tokens,
        choice.sharpness,
        choice.has_norm,
        choice.seed,
    )
    ratios = {setting: told_ratios(stream) for setting, stream in streams.items()}
    layer = min(choice.layer, choice.n_layers)
    stream = streams[choice.setting][layer]
    cubed = cubed_line(ratios[False, False])
    return Collapse(
        choice=choice,
        ratios=ratios,
        cubed=cubed,
        layer=layer,
        stream=stream,
        likeness=token_cosines(stream),
        own=choice.answer.of(CollapseFinding),
        words=_words(choice, layer, ratios),
    )


def residual_ratios(stream: Numbers) -> Numbers:
    """‖res(X)‖ / ‖X‖ over the last two axes."""
    residual = stream - stream.mean(axis=-2, keepdims=True)
    return np.asarray(np.linalg.norm(residual, axis=(-2, -1)) / np.linalg.norm(stream, axis=(-2, -1)))


def told_ratios(streams: Numbers) -> Numbers:
    """The ratio after each layer; NaN from the first that is only rounding error."""
    ratios = residual_ratios(streams)
    low = np.flatnonzero(ratios < FLOOR)
    if len(low):
        ratios[low[0] :] = np.nan
    return ratios


def cubed_line(ratios: Numbers) -> Numbers:
    """r_(l+1) = c·r_l³ from the first fall below a half, with c from that fall; NaN elsewhere."""
    line = np.full(len(ratios), np.nan)
    starts = [k for k in range(len(ratios) - 1) if ratios[k] < 0.5 and ratios[k + 1] < ratios[k]]
    if not starts:
        return line
    start = starts[0]
    line[start : start + 2] = ratios[start : start + 2]
    for k in range(start + 2, len(ratios)):
        line[k] = line[k - 1] * (line[k - 1] / line[k - 2]) ** 3
        if line[k] < FLOOR:
            line[k] = np.nan
            break
    return line


def growth(ratios: Numbers) -> float:
    """(ln r_(l+1) − ln r_l) / (ln r_l − ln r_(l−1)) at the deepest layer above FLOOR: 3 where it is cubed."""
    known = np.log(ratios[1:][np.isfinite(ratios[1:])])
    if len(known) < 3 or not known[-2] < known[-3]:
        return float("nan")
    return float((known[-1] - known[-2]) / (known[-2] - known[-3]))


def token_cosines(stream: Numbers) -> Numbers:
    """Cosine similarity of each pair of tokens."""
    lengths = np.linalg.norm(stream, axis=1, keepdims=True)
    unit = stream / np.where(lengths > 0, lengths, 1.0)
    return np.asarray(np.clip(unit @ unit.T, -1.0, 1.0))


@lru_cache(maxsize=8)
def run_settings(
    n_layers: int, d_model: int, n_heads: int, n_tokens: int, sharpness: float, has_norm: bool, seed: int
) -> dict[Setting, Numbers]:
    """The stream before, and after each layer, [n_layers + 1, n_tokens, d_model], in each setting."""
    first = np.random.default_rng(seed).standard_normal((n_tokens, d_model))
    found = {setting: np.empty((n_layers + 1, n_tokens, d_model)) for setting in SETTINGS}
    for setting in SETTINGS:
        found[setting][0] = first
    for layer in range(n_layers):
        weights = draw_layer(seed, layer, d_model, n_heads)
        for (has_skips, has_feed_forward), streams in found.items():
            streams[layer + 1] = run_layer(
                streams[layer],
                weights,
                sharpness=sharpness,
                has_norm=has_norm,
                has_skips=has_skips,
                has_feed_forward=has_feed_forward,
            )
    return found


def run_layer(
    x: Numbers,
    weights: LayerWeights,
    *,
    sharpness: float,
    has_norm: bool,
    has_skips: bool,
    has_feed_forward: bool,
) -> Numbers:
    """One layer; a part that is off adds nothing, and without skips the stream itself is left out."""
    read = normalised(x) if has_norm else x
    queries, keys = read @ weights.queries, read @ weights.keys  # [n_heads, n_tokens, d_head]
    scores = sharpness**2 * queries @ keys.transpose(0, 2, 1) / np.sqrt(queries.shape[-1])
    raised = np.exp(scores - scores.max(axis=-1, keepdims=True))
    attention = raised / raised.sum(axis=-1, keepdims=True)
    mixed = attention @ (read @ weights.values)
    change = mixed.transpose(1, 0, 2).reshape(x.shape) @ weights.output
    x = x + change if has_skips else change
    if not has_feed_forward:
        return np.asarray(x)
    read = normalised(x) if has_norm else x
    change = np.maximum(read @ weights.rise, 0.0) @ weights.fall
    return np.asarray(x + change if has_skips else change)


def normalised(x: Numbers) -> Numbers:
    """Layer norm without gain and bias (Ba et al. 2016): each token to mean 0 and variance 1."""
    centred = x - x.mean(axis=-1, keepdims=True)
    return np.asarray(centred / np.sqrt(centred.var(axis=-1, keepdims=True) + 1e-12))


def draw_layer(seed: int, layer: int, d_model: int, n_heads: int) -> LayerWeights:
    """Random weights of a layer, independent of the number of layers."""
    random = np.random.default_rng((seed, layer, d_model))
    each, wide = (n_heads, d_model, d_model // n_heads), _WIDER * d_model
    drawn = [random.standard_normal(each) / np.sqrt(d_model) for _ in range(3)]
    return LayerWeights(
        queries=drawn[0],
        keys=drawn[1],
        values=drawn[2],
        output=random.standard_normal((d_model, d_model)) / np.sqrt(d_model),
        rise=random.standard_normal((d_model, wide)) * np.sqrt(2 / d_model),
        fall=random.standard_normal((wide, d_model)) * np.sqrt(1 / wide),
    )


def _words(choice: CollapseChoice, layer: int, ratios: dict[Setting, Numbers]) -> LabWords:
    rows = tuple((f"r{lowered(layer)}, {name}", _ratio(ratios[s], layer)) for s, name in SETTINGS.items())
    alone = growth(ratios[False, False])
    numbers = (
        ("r₀, of the random tokens", format_number(float(ratios[True, True][0]))),
        *rows,
        ("growth of ln r, attention alone", format_number(alone, 2)),
        ("curve of the opened model", _own_name(choice.answer)),
    )
    return LabWords(
        formula=(
            "res(X) = X − 1·x̄ᵀ",
            "r = ‖res(X)‖ / ‖X‖",
            "attention alone: rₗ₊₁ ≈ c·rₗ³",
            "ln r grows ×3 each layer",
        ),
        numbers=numbers,
        sentence=_sentence(choice, layer, ratios),
    )


def _own_name(answer: ExperimentAnswer) -> str:
    if (found := answer.of(CollapseFinding)) is not None:
        return found.name
    return "not for this one" if answer.error else "…" if answer.is_asked else "–"


def _ratio(ratios: Numbers, layer: int) -> str:
    return format_number(float(ratios[layer])) if np.isfinite(ratios[layer]) else "under 10⁻¹³"


def _sentence(choice: CollapseChoice, layer: int, ratios: dict[Setting, Numbers]) -> str:
    shown, kept = ratios[choice.setting], ratios[True, True]
    if choice.has_skips:
        return (
            f"With skips the tokens are still {format_number(float(shown[-1]), 2)} different from "
            "their mean after "
            f"{choice.n_layers} layers. Remove the skips: the tokens become identical within a few layers."
        )
    alive = np.isfinite(shown)
    if alive.all():
        return (
            f"Without skips {format_number(float(shown[-1]), 2)} of the difference is left after "
            f"{choice.n_layers} "
            "layers. With less sharp attention, or more layers, nothing is left."
        )
    n_left = int(np.flatnonzero(~alive)[0])
    return (
        f"Without skips all {choice.n_tokens} tokens are the same vector, to 13 digits, after {n_left} "
        f"layers; with skips and feed-forward {format_number(float(kept[-1]), 2)} of the stream "
        "still tells them "
        f"apart after {choice.n_layers}. Drag along the layers: the rows of the maps become identical."
    )


_OF_SETTING: dict[Setting, int] = {
    (True, True): BLUE,
    (True, False): GREEN,
    (False, True): PURPLE,
    (False, False): ORANGE,
}


_SHOWN_DIMENSIONS = 32


def collapse_charts(shown: Collapse) -> tuple[Chart, ...]:
    """The distance from rank one by layer in all four settings, and how fast it falls."""
    layers = np.arange(float(shown.choice.n_layers + 1))
    mark = ((float(shown.layer), ""),)
    curves = [
        Series(name=SETTINGS[s], xs=layers, ys=ys, colour=_OF_SETTING[s], has_points=True)
        for s, ys in shown.ratios.items()
    ]
    theory = Series(name="theory: cubed", xs=layers, ys=shown.cubed, colour=ORANGE, is_quiet=True)
    falls = [_fall(s, layers, ys) for s, ys in shown.ratios.items()]
    straight = Series(name="theory: × 3", xs=layers, ys=_minus_log(shown.cubed), colour=ORANGE, is_quiet=True)
    return (
        Chart(
            title="Distance from rank one",
            x_label="layer",
            y_label="‖res(X)‖ / ‖X‖",
            series=(theory, *curves, *_own(shown)),
            is_log_y=True,
            marks=mark,
        ),
        Chart(
            title="How fast it falls",
            x_label="layer",
            y_label="−ln r, straight if ×3 a layer",
            series=(straight, *falls),
            is_log_y=True,
            marks=mark,
        ),
    )


def collapse_cells(shown: Collapse) -> tuple[CellMap, ...]:
    """The stream after the chosen layer, and the similarity of its tokens."""
    stream = shown.stream[:, :_SHOWN_DIMENSIONS]
    largest = float(np.abs(stream).max()) or 1.0
    what = SETTINGS[shown.choice.setting]
    return (
        CellMap(
            title=f"X after layer {shown.layer}" if shown.layer else "X before the first layer",
            note=what,
            values=stream,
            kind="signed",
            limit=largest,
            row_title="token",
            column_title="dimension",
        ),
        CellMap(
            title="Likeness",
            note="cosine of each pair of tokens",
            values=shown.likeness,
            kind="signed",
            row_title="token",
            column_title="token",
        ),
    )


def _own(shown: Collapse) -> tuple[Series, ...]:
    if shown.own is None:
        return ()
    wanted = shown.choice.setting
    return tuple(
        Series(
            name=f"{shown.own.name}, skips {'on' if curve.has_skips else 'off'}",
            xs=np.arange(float(len(curve.ratios))),
            ys=np.array(curve.ratios),
            colour=OCHRE,
            has_points=True,
        )
        for curve in shown.own.curves
        if (curve.has_skips, curve.has_feed_forward) == wanted
    )


def _fall(setting: Setting, layers: Numbers, ratios: Numbers) -> Series:
    name, colour = SETTINGS[setting], _OF_SETTING[setting]
    return Series(name=name, xs=layers, ys=_minus_log(ratios), colour=colour, has_points=True)


def _minus_log(ratios: Numbers) -> Numbers:
    """−ln r; NaN if the distance from rank one is all there is."""
    logs = -np.log(ratios)
    return np.asarray(np.where(logs > 0, logs, np.nan))


class RankCollapse(Lab[CollapseChoice, Collapse]):
    name = "Rank collapse"
    group = "Depth and training"
    order = 1
    shows = "Without skips all tokens become the same vector, doubly exponentially with depth"
    source = "Dong, Cordonnier and Loukas 2021"
    search = ("token uniformity", "oversmoothing", "pure attention loses rank")
    help = """Without skips and feed-forward layers, all token vectors converge to the same one, doubly
    exponentially with depth (Dong 2021). The plot shows $‖res(X)‖ / ‖X‖$ after each layer, with skips and
    feed-forward layers switched on and off. It is the skips that prevent the collapse: feed-forward layers
    with random weights, as here, make similar vectors even more similar. By Dong's theorem feed-forward
    layers can slow the collapse, depending on their Lipschitz constant, and trained ones may.
    """

    example = CollapseChoice()
    asks = CollapseQuestion
    dragged = (0, 1)
    stretches = (5, 6)
    names_px = 136
    figure_mm = (220.0, 170.0)

    resolve = staticmethod(collapse)
    charts = staticmethod(collapse_charts)
    cells = staticmethod(collapse_cells)

    def drag(self, choice: CollapseChoice, x: float, y: float, *, is_start: bool) -> CollapseChoice:
        """The layer nearest to the place dragged to."""
        return replace(choice, layer=min(max(round(x), 0), choice.n_layers))

    def question(self, choice: CollapseChoice, opened: OpenModel | None) -> Question | None:
        if opened is None or not opened.text:
            return None
        return CollapseQuestion(model=opened.key, text=opened.text, target=opened.target)
