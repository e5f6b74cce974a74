"""The hidden map of a recurrence or a convolution: the weights of its sums over earlier tokens.

| symbol | meaning                                                    | shape                         |
|--------|------------------------------------------------------------|-------------------------------|
| w      | o_i = Σ_(j ≤ i) w_ij v_j, exactly what the layer computes  | [n_heads, n_tokens, n_tokens] |
| r      | r_ij: after how many layers token i can know of token j    | [n_tokens, n_tokens]          |

Ali et al. 2024 (The hidden attention of Mamba models), equations 11 and 12. Where r ≤ n_layers
is the receptive field: with places n · dilation^layer back it ends (width − 1) Σ dilation^layer tokens back,
without gaps where dilation ≤ width (van den Oord et al. 2016). Attention has r = 1 wherever its mask allows.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from attnscope.counting import format_number, plural, share_words
from attnscope.fields import number
from attnscope.questions.question import Mixing, Numbers, Question, Reading
from attnscope.records.charts import Answer, Cell, CellMap, Chart, NumberTable, Series

_MOST = 0.9
_SUM = "o_i = Σ w_ij·v_j"


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The layer and head to map, and the number of tokens."""

    layer: int = number(0, range(96), title="layer", tip="Which layer is mapped, from 0")
    mapped_head: int = number(0, range(256), title="head", tip="Which of its heads is mapped, from 0")
    n_shown: int = number(
        32,
        (8, 16, 24, 32, 48, 64, 128),
        title="tokens",
        tip="The maps show at most so many tokens, the last ones; curves and table are about all",
    )


class HiddenAttention(Question):
    """The unrolled rows of layers without attention."""

    name, title, order = "hidden-attention", "Hidden attention", 60
    words = "the map hidden in a recurrence or convolution, beside a softmax of the same products"
    source = "Ali et al. 2024; Sun et al. 2023; Dao and Gu 2024"
    needs = "a model of ours whose `mixer` is not attention (recipe induction-selective)"
    kept_run = "induction-retention"
    formula = f"{_SUM},   w_ij = q_i·k_j·b_j·exp(a_(j+1) + … + a_i)"
    search = (
        "retention",
        "retnet",
        "mamba",
        "state space",
        "ssm",
        "linear recurrence",
        "receptive field",
        "wavenet",
        "bytenet",
        "dilated convolution",
    )
    options = Options()

    def answer(self, reading: Reading, options: Options) -> Answer:
        found = reading.mixing()
        layer = min(options.layer, len(found.weights) - 1)
        weights, softmax = found.weights[layer], found.softmax[layer]
        head = min(options.mapped_head, len(weights) - 1)
        name, shares = f"L{layer}H{head}", by_distance(weights)
        maps = [_map(f"{found.mixer.capitalize()}, {name}", weights[head], found, options.n_shown)]
        charts = [_chart(f"{found.mixer.capitalize()}, layer {layer}", shares, head)]
        if softmax is not None:
            maps.append(_map(f"Softmax of the same products, {name}", softmax[head], found, options.n_shown))
            charts.append(_chart(f"Softmax of the same products, layer {layer}", by_distance(softmax), head))
        layers = first_reached(found.weights)
        maps.append(_reached(layers, found, options.n_shown))
        charts.append(_field(layers, found))
        return Answer(
            sentence=_sentence(found.mixer, name, weights[head], shares[head]),
            cells=tuple(maps),
            charts=tuple(charts),
            tables=(_table(found),),
            formula=f"{_SUM},   w_ij = {found.formula}",
            note="The weights are those of the values, before the norm of each head and its gate.",
        )


def by_distance(weights: Numbers) -> Numbers:
    """For each head, the share of |w| at each distance back: [n_heads, n_tokens]."""
    size = np.abs(weights)
    n = size.shape[-1]
    sums = [np.trace(size, offset=-back, axis1=1, axis2=2) for back in range(n)]
    total = size.sum(axis=(1, 2))
    return np.stack(sums, axis=1) / np.where(total > 0, total, np.nan)[:, None]


def first_reached(weights: Sequence[Numbers]) -> Numbers:
    """For the weights of each layer, r: from 1, NaN if a token is never reached; 1 for a token itself."""
    n = weights[0].shape[-1]
    reached = np.eye(n, dtype=bool)
    found = np.where(reached, 1.0, np.nan)
    for layer, w in enumerate(weights, start=1):
        reads = (w != 0).any(axis=0) | np.eye(n, dtype=bool)  # the stream brings a token's own past along
        reached = (reads.astype(np.float64) @ reached.astype(np.float64)) > 0
        found[reached & np.isnan(found)] = layer
    return found


def reach_of(share: Numbers) -> int:
    """The smallest distance within which nine tenths of |w| lie."""
    return int(np.searchsorted(np.cumsum(share), _MOST - 1e-9))


def n_read(weights: Numbers) -> int:
    """Number of tokens that the last one reads in one head: those whose weight is not 0."""
    return int(np.count_nonzero(weights[-1]))


def share_below_0(weights: Numbers) -> float:
    """Share of |w| from negative weights."""
    return float(-weights[weights < 0].sum() / max(np.abs(weights).sum(), np.finfo(float).tiny))


def _sentence(mixer: str, name: str, weights: Numbers, share: Numbers) -> str:
    below = share_below_0(weights)
    sign = f"{share_words(below)} of it below 0" if below else "none of it below 0"
    largest, reach = int(np.argmax(np.abs(weights[-1]))), plural(reach_of(share), "token")
    return (
        f"{mixer.capitalize()} {name}: 90 % of |w| lies within {reach} back, {sign}. "
        f"The last token reads {n_read(weights)} of {len(weights)} tokens, most of all number {largest} "
        f"(w {format_number(float(weights[-1, largest]))})."
    )


def _map(title: str, weights: Numbers, found: Mixing, n_shown: int) -> CellMap:
    n = len(weights)
    shown = weights[-n_shown:, -n_shown:]
    names = tuple(token.piece for token in found.tokens[-n_shown:])
    return CellMap(
        title=title,
        values=shown,
        kind="signed",
        limit=float(np.abs(shown).max(initial=0.0)) or 1.0,
        note=f"last {len(shown)} of {n} tokens" if len(shown) < n else "",
        rows=names,
        columns=names,
    )


def _reached(layers: Numbers, found: Mixing, n_shown: int) -> CellMap:
    n = len(layers)
    names = tuple(token.piece for token in found.tokens[-n_shown:])
    return CellMap(
        title="Layers until reached",
        values=layers[-n_shown:, -n_shown:],
        kind="steps",
        limit=float(len(found.weights)),
        note=f"last {n_shown} of {n} tokens" if n_shown < n else "attention: 1",
        rows=names,
        columns=names,
        legend=("never reached",),
    )


def _field(layers: Numbers, found: Mixing) -> Chart:
    """Tokens that the last one can depend on after each layer, and with attention."""
    after = np.arange(len(found.weights) + 1, dtype=np.float64)
    reached = np.array([1.0, *((layers[-1] <= layer).sum() for layer in after[1:])])
    attention = np.where(after > 0, float(len(layers)), 1.0)
    return Chart(
        title="Receptive field of the last token",
        x_label="layers",
        y_label="tokens reached",
        series=(
            Series(name="this model", xs=after, ys=reached, has_points=True),
            Series(name="attention", xs=after, ys=attention, colour=1, has_points=True, is_dashed=True),
        ),
    )


def _chart(title: str, shares: Numbers, head: int) -> Chart:
    back = np.arange(shares.shape[1], dtype=np.float64)
    curves = tuple(
        Series(name=f"H{k}", xs=back, ys=share, colour=k, is_quiet=k != head, has_label=k == head)
        for k, share in enumerate(shares)
    )
    return Chart(title=title, x_label="tokens back", y_label="share of |w|", series=curves)


def _table(found: Mixing) -> NumberTable:
    rows: list[tuple[Cell, ...]] = []
    for layer, (weights, softmax) in enumerate(zip(found.weights, found.softmax, strict=True)):
        shares = by_distance(weights)
        beside = None if softmax is None else by_distance(softmax)
        rows += [
            (
                f"L{layer}H{head}",
                reach_of(shares[head]),
                float("nan") if beside is None else reach_of(beside[head]),
                n_read(weights[head]),
                share_below_0(weights[head]),
            )
            for head in range(len(weights))
        ]
    columns = ("head", "90 % within", "softmax: 90 % within", "last token reads", "|w| below 0")
    return NumberTable(title="Heads", columns=columns, rows=tuple(rows))
