"""The numbers that a tour's text may name, read from what is on the screen. Must not import Qt.

Each has a name that stands in braces in the text, and a function that gives it as words, or None while it
is not there. Definitions: `schemes/measures`, `records/inside.py`.
"""

import math
from collections.abc import Mapping

import numpy as np

from attnscope.counting import weight_words
from attnscope.schemes.measures import TEXT_MEASURES
from attnscope.viewmodels.tours.inside_numbers import INSIDE_NUMBERS
from attnscope.viewmodels.tours.spot import Read, Spot

_MAX_ROW = 8


def number_named(name: str, spot: Spot) -> str | None:
    """A number in words; None while it is not there. Raises KeyError for a name there is not."""
    return NUMBERS[name](spot)


# The model and the map


def _model(spot: Spot) -> str | None:
    return spot.states.session.model.name if spot.states.session.model else None


def _parameters(spot: Spot) -> str | None:
    return f"{spot.states.session.model.n_parameters:,}" if spot.states.session.model else None


def _head(spot: Spot) -> str | None:
    return spot.states.session.primary.label if spot.states.session.primary else None


def _n_heads(spot: Spot) -> str | None:
    return str(spot.n_heads) if spot.n_heads else None


def _last_head(spot: Spot) -> str | None:
    return str(spot.n_heads - 1) if spot.n_heads else None


def _n_layers(spot: Spot) -> str | None:
    model, head = spot.states.session.model, spot.states.session.primary
    return str(sum(s.stack == head.stack for s in model.sites)) if model and head else None


def _n_all_heads(spot: Spot) -> str | None:
    model = spot.states.session.model
    return str(sum(site.n_heads for site in model.sites)) if model else None


def _n_queries(spot: Spot) -> str | None:
    return str(len(spot.map.queries)) if spot.map else None


def _n_keys(spot: Spot) -> str | None:
    return str(len(spot.map.keys)) if spot.map else None


def _n_weights(spot: Spot) -> str | None:
    return f"{spot.map.weights.size:,}" if spot.map else None


def _n_hidden(spot: Spot) -> str | None:
    return f"{int(np.isnan(spot.map.weights).sum()):,}" if spot.map else None


def _query(spot: Spot) -> str | None:
    return spot.map.queries[spot.row].piece.strip() if spot.map and spot.row is not None else None


def _read(spot: Spot) -> str | None:
    """The token that was read: the query itself."""
    row = spot.map.queries[spot.row] if spot.map and spot.row is not None else None
    return (row.read or row.piece).strip() if row is not None else None


def _key(spot: Spot) -> str | None:
    return spot.map.keys[spot.column].piece.strip() if spot.map and spot.column is not None else None


def _weight(spot: Spot) -> str | None:
    weights, column = spot.weights, spot.column
    if weights is None or column is None:
        return None
    if math.isfinite(weights[column]):
        return weight_words(float(weights[column]))
    return "not allowed" if math.isnan(weights[column]) else "left out"


def _strongest(spot: Spot) -> str | None:
    return spot.map.keys[spot.strongest].piece.strip() if spot.map and spot.strongest is not None else None


def _strongest_weight(spot: Spot) -> str | None:
    weights, best = spot.weights, spot.strongest
    return weight_words(float(weights[best])) if weights is not None and best is not None else None


def _row_weights(spot: Spot) -> str | None:
    if spot.weights is None:
        return None
    shown = [weight_words(float(w)) for w in spot.weights if math.isfinite(w)]
    return " + ".join(shown[:_MAX_ROW]) + (" + …" if len(shown) > _MAX_ROW else "")


def _row_sum(spot: Spot) -> str | None:
    weights = spot.weights
    return f"{float(weights[np.isfinite(weights)].sum()):.3f}" if weights is not None else None


def _n_seen(spot: Spot) -> str | None:
    return str(int(np.isfinite(spot.weights).sum())) if spot.weights is not None else None


def _stripe(spot: Spot) -> str | None:
    """Mean weight on the token after the earlier copy of the query's token (Olsson et al. 2022)."""
    if spot.map is None:
        return None
    pieces, weights = [token.id for token in spot.map.queries], spot.map.weights
    pairs = [(i, j + 1) for i, a in enumerate(pieces) for j, b in enumerate(pieces[: i - 1]) if i and a == b]
    found = [float(weights[i, j]) for i, j in pairs if j < weights.shape[1] and math.isfinite(weights[i, j])]
    return weight_words(sum(found) / len(found)) if found else None


def _measure(name: str) -> Read:
    def read(spot: Spot) -> str | None:
        value = getattr(spot.measures, name) if spot.measures is not None else math.nan
        return f"{value:.2f}" if math.isfinite(value) else None

    return read


NUMBERS: Mapping[str, Read] = {
    "model": _model,
    "parameters": _parameters,
    "head": _head,
    "n_heads": _n_heads,
    "last_head": _last_head,
    "n_layers": _n_layers,
    "n_all_heads": _n_all_heads,
    "n_queries": _n_queries,
    "n_keys": _n_keys,
    "n_weights": _n_weights,
    "n_hidden": _n_hidden,
    "n_seen": _n_seen,
    "query": _query,
    "read": _read,
    "key": _key,
    "weight": _weight,
    "strongest": _strongest,
    "strongest_weight": _strongest_weight,
    "row_weights": _row_weights,
    "row_sum": _row_sum,
    "stripe": _stripe,
    **{name: _measure(name) for name in TEXT_MEASURES},
    **INSIDE_NUMBERS,
}
"""Every number that a text may name."""
