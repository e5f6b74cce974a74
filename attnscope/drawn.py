"""Pictures that the program draws itself, each known by its words.

    star x12 y20 r9 t30 s7      a star around column 12, row 20, with a radius of 9 px, turned by 30°

Its paper has specks and grain, the same for the same number s. What a name leaves out has a value of its own.
Outlines are those of `shapes.py`, without its bends. Must not import torch or Qt.
"""

from functools import cache

import numpy as np
from numpy.typing import NDArray

from attnscope.shapes import KINDS, N_ANGLES

SIDE = 32
"""Height and width of a picture in pixels."""
DRAWN_KINDS = ("circle", "triangle", "square", "star")
RANGES: dict[str, tuple[int, int, int, int]] = {
    "x": (11, 20, 1, 16),
    "y": (11, 20, 1, 16),
    "r": (8, 11, 1, 10),
    "t": (0, 30, 5, 0),
    "s": (0, 49, 1, 0),
}
"""Of each letter the least, the most, the step, and what it is where a name leaves it out."""
WORDS = (*DRAWN_KINDS, *(f"{k}{n}" for k, (a, b, step, _) in RANGES.items() for n in range(a, b + 1, step)))
"""Every word of a name."""
_FINE = 3
"""So many points to a side of a pixel tell how much of it is covered."""
_PAPER, _INK, _GRAIN = 220.0, 50.0, 12.0
_N_SPECKS, _SPECK_PX = 5, (0.8, 1.6)
_SEED = 1935


def is_name(text: str) -> bool:
    """Whether a text begins with the name of a kind that is drawn here."""
    return text.split()[:1] != [] and text.split()[0] in DRAWN_KINDS


def drawn_picture(name: str) -> NDArray[np.uint8]:
    """The picture of a name, uint8 [SIDE, SIDE], light paper and dark ink.

    Raises ValueError that says which word is unknown and what could stand there.
    """
    kind, *others = name.split() or [""]
    if kind not in DRAWN_KINDS:
        raise ValueError(f"begins with {kind[:20]!r} instead of {', '.join(DRAWN_KINDS)}")
    values = {letter: usual for letter, (_, _, _, usual) in RANGES.items()}
    for word in others:
        if word not in WORDS or word in DRAWN_KINDS:
            told = ", ".join(f"{k}{a} to {k}{b}" for k, (a, b, _, _) in RANGES.items())
            raise ValueError(f"has the word {word[:20]!r} instead of {told}; t goes in steps of 5")
        values[word[0]] = int(word[1:])
    specks, grain = _paper(values["s"])
    ink = np.maximum(specks, _covered(kind, values["x"], values["y"], values["r"], np.deg2rad(values["t"])))
    grey = _PAPER + (_INK - _PAPER) * ink + grain
    return np.asarray(np.clip(np.rint(grey), 0, 255), dtype=np.uint8)


@cache
def _paper(number: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """How much specks cover of each pixel, and what its grain adds to its grey: [SIDE, SIDE] each."""
    rng = np.random.default_rng([_SEED, number])
    specks = np.zeros((SIDE, SIDE))
    for _ in range(_N_SPECKS):
        x, y, r = *rng.uniform(0, SIDE, 2), rng.uniform(*_SPECK_PX)
        specks = np.maximum(specks, _covered("circle", x, y, r, 0.0))
    return specks, rng.normal(0.0, _GRAIN, (SIDE, SIDE))


def _covered(kind: str, x: float, y: float, r: float, turn: float) -> NDArray[np.float64]:
    """How much of each pixel a shape covers, 0…1, [SIDE, SIDE]; its furthest corner is `r` from (x, y)."""
    left, top = (max(0, int(np.floor(at - r))) for at in (x, y))
    right, low = (min(SIDE, int(np.ceil(at + r)) + 1) for at in (x, y))
    across, down = (
        (np.arange(first * _FINE, last * _FINE) + 0.5) / _FINE - 0.5 - centre
        for first, last, centre in ((left, right, x), (top, low, y))
    )
    distance, angle = np.hypot(across, down[:, None]), np.arctan2(down[:, None], across) - turn
    outline = KINDS[kind]
    inside = distance <= r * outline(angle % (2 * np.pi)) / _furthest(kind)
    found = np.zeros((SIDE, SIDE))
    found[top:low, left:right] = inside.reshape(low - top, _FINE, right - left, _FINE).mean(axis=(1, 3))
    return found


@cache
def _furthest(kind: str) -> float:
    angles = np.asarray(np.arange(N_ANGLES) * (2 * np.pi / N_ANGLES), dtype=np.float64)
    return float(KINDS[kind](angles).max())
