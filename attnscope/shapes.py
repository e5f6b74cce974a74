"""Pictures drawn by the program, each identified by its words, and the numbers of a shape's outline.

    star_07                     the eighth star: turned, a little bent, always the same
    star x12 y20 r9 t30 s7      a star around column 12, row 20, with a radius of 9 px, turned by 30°

An outline is its distance r(θ) from the centre at even angles. A vector has the sizes of the first
harmonics of r, each divided by the mean of r, times ten: a Fourier descriptor (Zahn and Roskies 1972), which
does not change when the shape is turned. A picture's paper has specks and grain, the same for the same number
s; what a name leaves out has a value of its own. Must not import torch or Qt: both sides read it.
"""

from collections.abc import Callable
from functools import cache

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]
N_ANGLES, N_NUMBERS = 96, 16
_BENDS = 6
_BEND = 0.03
_BEND_SEED = 1972
N_EACH = 80
"""Shapes of each kind."""


def _polygon(n: int) -> Callable[[Numbers], Numbers]:
    half = np.pi / n
    return lambda angle: np.cos(half) / np.cos(angle % (2 * half) - half)


def _cross(angle: Numbers) -> Numbers:
    turn = (angle + np.pi / 4) % (np.pi / 2) - np.pi / 4
    return np.minimum(1.0 / np.cos(turn), 0.35 / np.maximum(np.abs(np.sin(turn)), 1e-9))


KINDS: dict[str, Callable[[Numbers], Numbers]] = {
    "circle": np.ones_like,
    "oval": lambda angle: 1.0 / np.hypot(np.cos(angle), np.sin(angle) / 0.6),
    "triangle": _polygon(3),
    "square": _polygon(4),
    "pentagon": _polygon(5),
    "star": lambda angle: 0.45 + 0.55 * np.abs(1.0 - 2.0 * (angle * 5 / (2 * np.pi) % 1.0)),
    "cross": _cross,
    "flower": lambda angle: 0.75 + 0.25 * np.cos(6 * angle),
    "clover": lambda angle: 0.65 + 0.35 * np.cos(3 * angle),
    "drop": lambda angle: 0.5 + 0.5 * np.cos(angle / 2) ** 8,
}
SHAPES = tuple(f"{kind}_{number:02}" for kind in KINDS for number in range(N_EACH))
"""The names of all shapes."""


@cache
def outline(name: str) -> tuple[tuple[float, float], ...] | None:
    """The corners of a shape around 0, none further than 1; None for any other word."""
    kind, _, number = name.partition("_")
    if kind not in KINDS or name not in SHAPES:
        return None
    angle = np.arange(N_ANGLES) * (2 * np.pi / N_ANGLES)
    r = _distances(kind, int(number))
    r = r / r.max()
    return tuple(zip((r * np.cos(angle)).tolist(), (r * np.sin(angle)).tolist(), strict=True))


def shape_vectors() -> Numbers:
    """The vector of every shape of `SHAPES`, [n_shapes, N_NUMBERS]."""
    r = np.stack([_distances(kind, number) for kind in KINDS for number in range(N_EACH)])
    sizes = np.abs(np.fft.rfft(r, axis=1))
    return np.asarray(10.0 * sizes[:, 1 : N_NUMBERS + 1] / sizes[:, :1])


def _distances(kind: str, number: int) -> Numbers:
    rng = np.random.default_rng([_BEND_SEED, list(KINDS).index(kind), number])
    angle = np.arange(N_ANGLES) * (2 * np.pi / N_ANGLES)
    phases, sizes = rng.uniform(0, 2 * np.pi, _BENDS), rng.normal(0.0, _BEND, _BENDS)
    bent = 1.0 + np.cos(np.outer(angle, np.arange(1, _BENDS + 1)) + phases) @ sizes
    turned = np.asarray(angle + rng.uniform(0, 2 * np.pi), dtype=np.float64)
    return np.asarray(KINDS[kind](turned) * bent)


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
    """Whether a text begins with the name of a kind drawn here."""
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
    """Coverage of each pixel by specks, and the grain added to its grey: [SIDE, SIDE] each."""
    rng = np.random.default_rng([_SEED, number])
    specks = np.zeros((SIDE, SIDE))
    for _ in range(_N_SPECKS):
        x, y, r = *rng.uniform(0, SIDE, 2), rng.uniform(*_SPECK_PX)
        specks = np.maximum(specks, _covered("circle", x, y, r, 0.0))
    return specks, rng.normal(0.0, _GRAIN, (SIDE, SIDE))


def _covered(kind: str, x: float, y: float, r: float, turn: float) -> NDArray[np.float64]:
    """Coverage of each pixel by a shape, 0…1, [SIDE, SIDE]; its furthest corner is `r` from (x, y)."""
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
