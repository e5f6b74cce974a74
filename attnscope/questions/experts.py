"""The experts that tokens are sent to, how evenly, and the balance loss (Fedus et al. 2022).

| symbol | meaning                                                          | shape                 |
|--------|------------------------------------------------------------------|-----------------------|
| w      | weight of an expert for a token, 0 where it is not used          | [n_tokens, n_experts] |
| f      | share of all choices that fell on an expert                      | [n_experts]           |
| P      | mean over tokens of the softmax of the router's numbers          | [n_experts]           |

The balance loss is n_experts · Σ f P (equation 4 there): 1 if all experts take as many tokens.
"""

from dataclasses import dataclass

import numpy as np

from attnscope.counting import format_number, plural, share_words
from attnscope.fields import number
from attnscope.questions.question import Numbers, Question, Reading, Routing, stack_option
from attnscope.records.charts import Answer, Cell, CellMap, Chart, NumberTable, Series


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The stack, the layer with experts to map, and the number of tokens."""

    stack: str = stack_option()
    layer: int = number(
        0, range(96), title="expert layer", tip="Which of the layers that have experts is mapped, from 0"
    )
    n_shown: int = number(
        24,
        (8, 16, 24, 32, 48, 64, 128, 256),
        title="tokens",
        tip="The map shows at most so many tokens, the last ones; the curves are about all",
    )


class Experts(Question):
    """The routing of a mixture of experts."""

    name, title, order = "experts", "Experts", 50
    words = "which experts each token is sent to, and how evenly"
    source = "Shazeer et al. 2017; Fedus et al. 2022"
    needs = "a mixture of experts, such as Mixtral or Switch Transformer"
    kept_run = "brackets-experts"
    formula = "FF(x) = Σ w_e·FF_e(x),   balance = E·Σ f·P"
    search = ("mixture of experts", "moe", "router", "routing", "gating", "load balance", "switch", "mixtral")
    options = Options()

    def answer(self, reading: Reading, options: Options) -> Answer:
        found = reading.routing(options.stack)
        at = min(options.layer, len(found.layers) - 1)
        loads = [load_of(weights) for weights in found.weights]
        balances = [balance_of(load, p) for load, p in zip(loads, found.p, strict=True)]
        return Answer(
            sentence=_sentence(found, at, loads[at], balances),
            cells=(_map(found, at, options.n_shown),),
            charts=(_load_chart(found.layers[at], loads[at]), _balance_chart(found.layers, balances)),
            tables=(_table(found, loads, balances),),
        )


def load_of(weights: Numbers) -> Numbers:
    """The f of w: the share of all choices for each expert; 0 if no token was taken."""
    counts = (weights > 0).sum(axis=0)
    return np.asarray(counts / max(1, counts.sum()), np.float64)


def balance_of(load: Numbers, p: Numbers) -> float:
    """The balance loss of f and of the softmax [n_tokens, n_experts]."""
    return float(len(load) * load @ p.mean(axis=0))


def n_dropped(weights: Numbers) -> int:
    """Number of tokens that no expert took."""
    return int((weights == 0).all(axis=1).sum())


def _sentence(found: Routing, at: int, load: Numbers, balances: list[float]) -> str:
    weights, top = found.weights[at], int(np.argmax(load))
    used = (weights > 0).sum(axis=1)
    each = format_number(float(used.mean()))
    idle = int((load == 0).sum())
    dropped = n_dropped(weights)
    return (
        f"In layer {found.layers[at]} a token is sent to {each} of {plural(len(load), 'expert')} on average. "
        f"Expert {top} takes most: {share_words(float(load[top]))} of all choices; "
        + (f"{plural(idle, 'expert')} took none" if idle else "none is idle")
        + (f", and {plural(dropped, 'token')} found no room" if dropped else "")
        + f". The balance loss is {format_number(balances[at])}; even loads give 1."
    )


def _map(found: Routing, at: int, n_shown: int) -> CellMap:
    weights = found.weights[at]
    shown = weights[-n_shown:].T
    is_part = shown.shape[1] < len(weights)
    return CellMap(
        title=f"Weights of experts, layer {found.layers[at]}",
        values=shown,
        limit=float(shown.max()) or 1.0,
        note=f"last {shown.shape[1]} of {len(weights)} tokens" if is_part else "",
        rows=tuple(map(str, range(len(shown)))),
        columns=tuple(token.piece for token in found.tokens[-n_shown:]),
        row_title="expert",
        column_title="token",
        is_wide=True,
    )


def _load_chart(layer: int, load: Numbers) -> Chart:
    experts = np.arange(len(load), dtype=np.float64)
    even = np.full(len(load), 1.0 / len(load))
    curves = (
        Series(name="load", xs=experts, ys=load, style="stems"),
        Series(name="even", xs=experts, ys=even, colour=1, is_quiet=True),
    )
    return Chart(title=f"Load, layer {layer}", x_label="expert", y_label="share of choices", series=curves)


def _balance_chart(layers: tuple[int, ...], balances: list[float]) -> Chart:
    xs = np.array(layers, np.float64)
    curve = Series(name="balance", xs=xs, ys=np.array(balances), has_points=True)
    return Chart(title="Balance loss", x_label="layer", y_label="1: even", series=(curve,))


def _table(found: Routing, loads: list[Numbers], balances: list[float]) -> NumberTable:
    rows: list[tuple[Cell, ...]] = [
        (
            f"L{layer}",
            len(load),
            float((weights > 0).sum(axis=1).mean()),
            float(load.max()),
            int((load == 0).sum()),
            n_dropped(weights),
            balance,
        )
        for layer, weights, load, balance in zip(found.layers, found.weights, loads, balances, strict=True)
    ]
    columns = ("layer", "experts", "a token", "largest load", "idle", "dropped", "balance")
    return NumberTable(title="Layers with experts", columns=columns, rows=tuple(rows))
