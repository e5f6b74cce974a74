"""Inside the feed-forward parts: the number of active units for each token, and the strongest."""

from dataclasses import dataclass

import numpy as np

from attnscope.counting import format_number, share_words
from attnscope.fields import number
from attnscope.questions.question import Numbers, Question, Reading, Units, stack_option
from attnscope.records.charts import Answer, Cell, CellMap, Chart, NumberTable, Series


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The stack, the threshold of activity, and the amount shown."""

    stack: str = stack_option()
    threshold: float = number(
        0.0,
        (0.0, 0.01, 0.1, 0.5, 1.0, 2.0),
        title="active above",
        tip="A unit is active where what it gives is larger than this",
    )
    n_shown: int = number(
        24,
        (8, 16, 24, 32, 48, 64, 128, 256),
        title="tokens",
        tip="The map shows at most so many tokens, the last ones; the curve and the table are about all",
    )
    n_units: int = number(10, (5, 10, 20, 50), title="units", tip="How many units the table lists")


class FeedForwardInside(Question):
    """The share of active units by layer and token, and the largest activations."""

    name, title, order = "feed-forward", "Inside the feed-forward", 40
    words = "which share of the feed-forward units is active in each layer, and which units most"
    source = "Geva et al. 2021; Li et al. 2023"
    needs = "feed-forward parts without experts"
    formula = "FF(x) = W_2·f(W_1·x + b_1) + b_2,   active: f > threshold"
    search = ("mlp", "neurons", "activation", "sparsity", "relu", "hidden units")
    options = Options()

    def answer(self, reading: Reading, options: Options) -> Answer:
        found = reading.units(options.stack)
        shares = np.stack([(one > options.threshold).mean(axis=1) for one in found.activations])  # [L, T]
        largest = strongest(found, options.n_units)
        return Answer(
            sentence=_sentence(found, shares, largest[0], options.threshold),
            cells=(_map(found, shares, options.n_shown),),
            charts=(_chart(shares),),
            tables=(_table(found, largest),),
        )


Place = tuple[int, int, int]
"""Layer, token and unit."""


def strongest(found: Units, n: int) -> list[Place]:
    """Positions at which the `n` most active units peak, largest first; each unit once."""
    tops = [(layer, one.argmax(axis=0), one.max(axis=0)) for layer, one in enumerate(found.activations)]
    places = [
        (float(values[unit]), (layer, int(tokens[unit]), int(unit)))
        for layer, tokens, values in tops
        for unit in np.argsort(-values, kind="stable")[:n]
    ]
    return [place for _, place in sorted(places, key=lambda one: -one[0])[:n]]


def _sentence(found: Units, shares: Numbers, first: Place, threshold: float) -> str:
    means = shares.mean(axis=1)
    low, high = int(np.argmin(means)), int(np.argmax(means))
    layer, token, unit = first
    size = format_number(float(found.activations[layer][token, unit]))
    from_to = f"from {share_words(means[low])} in layer {low} to {share_words(means[high])} in layer {high}"
    return (
        f"On average {share_words(float(shares.mean()))} of the {found.activations[0].shape[1]:,} units of a "
        f"layer give more than {threshold:g}, {from_to}; the largest is unit {unit} of layer {layer} at "
        f"“{found.tokens[token].piece}” ({size})."
    )


def _map(found: Units, shares: Numbers, n_shown: int) -> CellMap:
    shown = shares[:, -n_shown:]
    is_part = shown.shape < shares.shape
    return CellMap(
        title="Share of active units",
        values=shown,
        limit=float(shown.max()) or 1.0,
        note=f"0 to {format_number(float(shown.max()))}"
        + (f" · last {shown.shape[1]} of {shares.shape[1]} tokens" if is_part else ""),
        rows=tuple(map(str, range(len(shown)))),
        columns=tuple(token.piece for token in found.tokens[-n_shown:]),
        row_title="layer",
        column_title="token",
        has_numbers=True,
        is_wide=True,
    )


def _chart(shares: Numbers) -> Chart:
    layers = np.arange(len(shares), dtype=np.float64)
    curves = (
        Series(name="mean", xs=layers, ys=shares.mean(axis=1), has_points=True),
        Series(name="most", xs=layers, ys=shares.max(axis=1), colour=1, has_points=True),
        Series(name="fewest", xs=layers, ys=shares.min(axis=1), colour=2, has_points=True),
    )
    return Chart(
        title="By layer", x_label="layer", y_label="share of active units, over tokens", series=curves
    )


def _table(found: Units, places: list[Place]) -> NumberTable:
    rows: list[tuple[Cell, ...]] = []
    for layer, token, unit in places:
        values = found.activations[layer][:, unit]
        numbers = (float(values[token]), float(values.mean()))
        rows.append((f"L{layer} unit {unit}", found.tokens[token].piece, *numbers))
    columns = ("unit", "at", "largest", "mean")
    return NumberTable(title="Most active units", columns=columns, rows=tuple(rows))
