"""The numbers behind the picture of one head's inside: all of them, as rows of a table and as arrays."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from attnscope.figures.plain import plain_piece
from attnscope.records.inside import HeadInside

HEADER = (
    "stack", "layer", "head", "query", "query token", "key", "key token", "quantity", "dimension", "value",
)  # fmt: skip
_OF_QUERY = ("q", "output", "own_output")
_OF_KEY = ("dot", "scaled", "logged", "capped", "bias", "score", "weight", "value_norms")
_OF_DIMENSION = ("k", "products", "v", "weighted")


def inside_rows(inside: HeadInside) -> Iterator[tuple[str, str, str, str, float]]:
    """Key, key token, quantity, dimension and value of each number; what does not apply is empty."""
    for name in ("scale", "lse", "gate", "rest_weight"):
        yield ("", "", name, "", float(getattr(inside, name)))
    for name in _OF_QUERY:
        for d, value in enumerate(getattr(inside, name).tolist()):
            yield ("", "", name, str(d), value)
    for row, (key, token) in enumerate(zip(inside.keys, inside.key_tokens, strict=True)):
        names = (str(key), plain_piece(token.piece))
        for name in _OF_KEY:
            if getattr(inside, name) is not None:
                yield (*names, name, "", float(getattr(inside, name)[row]))
        for name in _OF_DIMENSION:
            for d, value in enumerate(getattr(inside, name)[row].tolist()):
                yield (*names, name, str(d), value)


def inside_arrays(inside: HeadInside) -> dict[str, NDArray[np.generic]]:
    """Every array under its own name, the shown keys' places and tokens, and the numbers of the score."""
    names = (*_OF_QUERY, *_OF_KEY, *_OF_DIMENSION)
    arrays: dict[str, NDArray[np.generic]] = {
        name: getattr(inside, name) for name in names if getattr(inside, name) is not None
    }
    arrays["keys"] = np.array(inside.keys, dtype=np.int64)
    arrays["key_tokens"] = np.array([token.piece for token in inside.key_tokens], dtype=np.str_)
    arrays["query"] = np.array(inside.query)
    for name in ("scale", "lse", "gate", "rest_weight"):
        arrays[name] = np.array(float(getattr(inside, name)))
    return arrays
