"""Drawn shapes, each known by its name, and the vector of numbers that stands for one.

    star_07     the eighth star: turned, a little bent, always the same

An outline is its distance r(θ) from the centre at even angles. A vector has the sizes of the first
harmonics of r, each divided by the mean of r, times ten: a Fourier descriptor (Zahn and Roskies 1972), which
does not change when the shape is turned. Must not import torch or Qt: both sides read it.
"""

from collections.abc import Callable
from functools import cache

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]
N_ANGLES, N_NUMBERS = 96, 16
_BENDS = 6
_BEND = 0.03
_SEED = 1972
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
    rng = np.random.default_rng([_SEED, list(KINDS).index(kind), number])
    angle = np.arange(N_ANGLES) * (2 * np.pi / N_ANGLES)
    phases, sizes = rng.uniform(0, 2 * np.pi, _BENDS), rng.normal(0.0, _BEND, _BENDS)
    bent = 1.0 + np.cos(np.outer(angle, np.arange(1, _BENDS + 1)) + phases) @ sizes
    turned = np.asarray(angle + rng.uniform(0, 2 * np.pi), dtype=np.float64)
    return np.asarray(KINDS[kind](turned) * bent)
