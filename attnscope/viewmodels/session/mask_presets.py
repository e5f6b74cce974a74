"""Masks that need no drawing, for the tokens of one text: full, causal, window, sentences and others."""

from collections.abc import Sequence
from typing import Literal

import numpy as np

from attnscope.records.masks import Cells
from attnscope.records.tokens import Token

Preset = Literal["full", "causal", "window", "sentences", "words", "same", "others", "itself"]
PRESETS: dict[Preset, tuple[str, str]] = {
    "full": ("Everything", "Every token sees every token"),
    "causal": ("Causal", "A token sees itself and what comes before it"),
    "window": ("Window", "A token sees this many positions on each side, and itself"),
    "sentences": ("Sentences", "A token sees the tokens of its own sentence"),
    "words": ("Words", "A token sees the pieces of its own word"),
    "same": ("Same token", "A token sees every position with the same piece as its own"),
    "others": ("All but itself", "A token sees every token but itself"),
    "itself": ("Only itself", "Nothing passes from one token to another"),
}
"""What each is called, and what it means."""
_ENDS = (".", "!", "?", "…", "。", "！", "？")


def preset_cells(preset: Preset, tokens: Sequence[Token], window: int = 2) -> Cells:
    """The cells of a preset, bool [n_tokens, n_tokens]."""
    n = len(tokens)
    place = np.arange(n)
    match preset:
        case "full":
            return np.ones((n, n), np.bool_)
        case "causal":
            return np.asarray(place[:, None] >= place[None, :])
        case "window":
            return np.asarray(np.abs(place[:, None] - place[None, :]) <= window)
        case "sentences":
            return _same(sentences_of(tokens))
        case "words":
            return _same(list(np.cumsum([not token.joins_previous for token in tokens])))
        case "same":
            return _same([token.piece.casefold() for token in tokens])
        case "others":
            return ~np.eye(n, dtype=np.bool_)
        case "itself":
            return np.eye(n, dtype=np.bool_)
        case _:
            raise TypeError(f"no preset {preset}")


def preset_name(preset: Preset, window: int) -> str:
    """How a mask from a preset is called in lists and captions."""
    name = PRESETS[preset][0].lower()
    return f"{name} {window}" if preset == "window" else name


def sentences_of(tokens: Sequence[Token]) -> list[int]:
    """The number of each token's sentence; special tokens at the ends belong to the nearest one."""
    numbers: list[int] = []
    number, is_ended = 0, False
    for token in tokens:
        is_sign = token.piece.strip() in _ENDS or token.is_special
        if is_ended and not is_sign and not token.joins_previous:
            number, is_ended = number + 1, False
        numbers.append(number)
        is_ended = is_ended or (bool(numbers) and token.piece.strip().endswith(_ENDS))
    return numbers


def _same(keys: Sequence[object]) -> Cells:
    numbered = {key: k for k, key in enumerate(dict.fromkeys(keys))}
    codes = np.array([numbered[key] for key in keys], np.int64)
    return np.asarray(codes[:, None] == codes[None, :])


Graph = Literal["chain", "ring", "star", "tree"]
GRAPHS: dict[Graph, str] = {
    "chain": "Chain: each and the one before",
    "ring": "Ring: a chain that is closed",
    "star": "Star: all and the first",
    "tree": "Tree: each and its parent, two children a parent",
}
"""Graphs to begin with, in words."""


def graph_text(kind: Graph, n_tokens: int) -> str:
    """The edge list of a graph over so many tokens."""
    match kind:
        case "chain":
            return "\n".join(f"{i} {i - 1}" for i in range(1, n_tokens))
        case "ring":
            return "\n".join(f"{i} {(i - 1) % n_tokens}" for i in range(n_tokens))
        case "star":
            return "\n".join(f"{i} 0" for i in range(1, n_tokens))
        case "tree":
            return "\n".join(f"{i} {(i - 1) // 2}" for i in range(1, n_tokens))
        case _:
            raise TypeError(f"no graph {kind}")
