"""How quickly the lines of 12 heads over 256 tokens are painted, panned, zoomed and lit by the pointer."""

from collections.abc import Callable, Iterator

import numpy as np
from PySide6.QtCore import QPointF

from attnscope.app import make_application
from attnscope.records import HeadMap, HeadRef, Token
from attnscope.widgets.explore import LinesView
from bench.frames import circle, measure_frames, move_to, press, release, show_and_wait, turn_wheel
from bench.report import Measurement

N_HEADS, N_TOKENS = 12, 256
N_FRAMES = 100
TARGET_MS, NEW_DATA_MS = 16.0, 50.0
"""Sixty frames a second; new data come with a keystroke, which has twice as long in all."""


def measure_lines(
    n_frames: int = N_FRAMES, n_heads: int = N_HEADS, n_tokens: int = N_TOKENS
) -> Iterator[Measurement]:
    """Milliseconds for one repaint, a notch of the wheel, a step of a drag, another token, new data."""
    make_application()
    view = LinesView()
    view.resize(900, 800)
    fresh = [peaked_maps(seed, n_heads, n_tokens) for seed in range(3)]
    view.set_maps(fresh[0])
    show_and_wait(view)
    steps: dict[str, Callable[[int], None]] = {
        "repaint": lambda index: None,
        "zoom": lambda index: turn_wheel(view, 120 if index % 20 < 10 else -120),
        "pan": lambda index: move_to(view, circle(view, index)),
        "pointing at a token": lambda index: point_at_token(view, index),
        "new data": lambda index: view.set_maps(fresh[index % len(fresh)]),
    }
    for name, step in steps.items():
        if name == "pan":
            view.fit()
            turn_wheel(view, 600)
            press(view)
        target_ms = NEW_DATA_MS if name == "new data" else TARGET_MS
        yield measure_frames(
            f"lines of {n_heads} heads, {name}", step, view.repaint, n_frames, target_ms=target_ms
        )
        if name == "pan":
            release(view)
            view.fit()
    view.close()
    view.deleteLater()


def peaked_maps(seed: int, n_heads: int, n_tokens: int) -> tuple[HeadMap, ...]:
    """Causal maps with a few strong weights in every row, like real ones, and a tail of faint ones."""
    random = np.random.default_rng(seed)
    allowed = np.tri(n_tokens, dtype=bool)
    tokens = tuple(Token(id=index, piece=f"token{index}") for index in range(n_tokens))
    maps = []
    for head in range(n_heads):
        scores = np.where(allowed, 8.0 * random.random((n_tokens, n_tokens)), -np.inf)
        weights = np.exp(scores - scores.max(axis=1, keepdims=True))
        weights /= weights.sum(axis=1, keepdims=True)
        weights[~allowed] = np.nan
        maps.append(
            HeadMap(
                head=HeadRef(stack="decoder", layer=0, head=head),
                queries=tokens,
                keys=tokens,
                weights=weights.astype(np.float32),
            )
        )
    return tuple(maps)


def point_at_token(view: LinesView, index: int) -> None:
    """Point at the label of another token, on one side and the other."""
    layout = view.layout_now()
    if layout is None:
        return
    span = (layout.queries, layout.keys)[index % 2]
    x = layout.left - 10 if index % 2 == 0 else layout.right + 10
    move_to(view, QPointF(x, span.centre((index * 37) % span.n)))
