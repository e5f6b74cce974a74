"""What a position says at offsets that training never had: several schemes on one axis.

    symbol   meaning                                                          shape
    t, Δ     a place in the text, and how far the other place is from it      whole numbers
    L        trained length: every offset in training was below it            one number
    θ_i      how far a pair of dimensions turns for each token, base^(−2i/d)   [d/2]
    m_h      slope of head h, 2^(−8h/n) for h = 1 … n (Press et al. 2022)      one number

Sinusoidal (Vaswani et al. 2017, section 3.5): PE(t + Δ) is PE(t) with pair i turned by Δ·θ_i, so the cosine
of both is the mean of cos(Δ·θ_i). Rotary (Su et al. 2021): a query and a key of equal parts score the same
mean, with the head's width and its own base. T5 (Raffel et al. 2020, section 2.1) learns one number for each
bucket of offsets; those drawn here are an example.
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from attnscope.counting import format_number
from attnscope.viewmodels.labs.lab import LabWords

Numbers = NDArray[np.float64]
TRAINED: tuple[int, ...] = (16, 32, 64, 128, 256, 512)
WIDTHS: tuple[int, ...] = (16, 32, 64, 128, 256)
BASES: tuple[float, ...] = (100.0, 1000.0, 10000.0, 100000.0, 500000.0)
N_HEADS = 8
FURTHER = 4
"""Offsets are shown up to this many times the trained length."""
N_BUCKETS, MAX_DISTANCE = 32, 128
SINUSOIDAL_BASE = 10000.0
_SHARE = 4
"""A head of the rotary scheme is this part of the model's width."""
_N_PAIRS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetChoice:
    """Trained length, model width, rotary base, ALiBi's head (1 … N_HEADS), and the places t and t + Δ."""

    n_trained: int = 64
    d_model: int = 64
    base: float = 10000.0
    head: int = 4
    place: int = 3
    offset: int = 96

    def __post_init__(self) -> None:
        if self.n_trained < 1 or self.d_model % (2 * _SHARE) or not 1 <= self.head <= N_HEADS:
            raise ValueError(f"no positions of width {self.d_model} for head {self.head}")
        if self.base <= 1 or self.offset < 0:
            raise ValueError(f"no turn by {self.offset} tokens with base {self.base}")

    @property
    def d_head(self) -> int:
        """Width of a head of the rotary scheme."""
        return self.d_model // _SHARE


@dataclass(frozen=True, slots=True, kw_only=True)
class TurningPair:
    """One pair of the sinusoidal table: its number, the angles in radians at t and at t + Δ."""

    pair: int
    before: float
    after: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Offsets:
    """Every scheme against `offsets` 0 … FURTHER·L; NaN where it has nothing.

    `turns` are full turns that each pair makes over the trained length: with less than one, angles past
    it are new.
    """

    choice: OffsetChoice
    offset: int
    offsets: Numbers
    sinusoidal: Numbers
    rotary: Numbers
    learned: Numbers
    alibi: Numbers
    t5: Numbers
    sinusoidal_turns: Numbers
    rotary_turns: Numbers
    pairs: tuple[TurningPair, ...]
    words: LabWords


def look_past(choice: OffsetChoice) -> Offsets:
    """Every scheme at every offset."""
    offsets = np.arange(float(FURTHER * choice.n_trained + 1))
    offset = min(choice.offset, len(offsets) - 1)
    sinusoidal = mean_cosine(offsets, frequencies(choice.d_model, SINUSOIDAL_BASE))
    rotary = mean_cosine(offsets, frequencies(choice.d_head, choice.base))
    learned = np.full(len(offsets), np.nan)
    learned[: choice.n_trained] = learned_likeness(choice.n_trained, choice.d_model)
    alibi, t5 = -slope(choice.head) * offsets, example_bias(offsets)
    turns = choice.n_trained / (2 * np.pi)
    return Offsets(
        choice=choice,
        offset=offset,
        offsets=offsets,
        sinusoidal=sinusoidal,
        rotary=rotary,
        learned=learned,
        alibi=alibi,
        t5=t5,
        sinusoidal_turns=turns * frequencies(choice.d_model, SINUSOIDAL_BASE),
        rotary_turns=turns * frequencies(choice.d_head, choice.base),
        pairs=turning_pairs(choice, offset),
        words=_words(choice, offset, sinusoidal, rotary, learned),
    )


def frequencies(width: int, base: float) -> Numbers:
    """θ_i in radians a token, [width / 2]."""
    return np.asarray(base ** (-np.arange(0, width, 2, dtype=np.float64) / width))


def mean_cosine(offsets: Numbers, theta: Numbers) -> Numbers:
    """The mean of cos(Δ·θ_i) over the pairs, for each offset."""
    return np.asarray(np.cos(offsets[:, None] * theta).mean(axis=1))


@lru_cache(maxsize=16)
def learned_likeness(n_trained: int, width: int) -> Numbers:
    """Cosine of place 0 and each place of a table of random numbers, as a learned one begins."""
    table = np.random.default_rng(0).standard_normal((n_trained, width))
    lengths = np.linalg.norm(table, axis=1)
    return np.asarray(table @ table[0] / (lengths * lengths[0]))


def slope(head: int, n_heads: int = N_HEADS) -> float:
    """How much ALiBi takes from the score for each token, for head 1 … n_heads (a power of 2)."""
    return float(2.0 ** (-8.0 * head / n_heads))


def buckets(offsets: Numbers, n_buckets: int = N_BUCKETS, max_distance: int = MAX_DISTANCE) -> Numbers:
    """T5's bucket of each offset back, where keys ahead are not seen: single ones, then ever wider ones."""
    n_single = n_buckets // 2
    away = np.maximum(offsets, 1.0)
    share = np.log(away / n_single) / np.log(max_distance / n_single)
    wide = np.minimum(n_single + np.floor(share * (n_buckets - n_single)), n_buckets - 1)
    return np.asarray(np.where(offsets < n_single, offsets, wide))


def example_bias(offsets: Numbers) -> Numbers:
    """What T5 adds if its numbers fell evenly from bucket to bucket."""
    return np.asarray(-0.25 * buckets(offsets))


def turning_pairs(choice: OffsetChoice, offset: int) -> tuple[TurningPair, ...]:
    """A few pairs from the quickest to the slowest, at t and t + Δ."""
    theta = frequencies(choice.d_model, SINUSOIDAL_BASE)
    chosen = sorted({round(k) for k in np.linspace(0, len(theta) - 1, min(_N_PAIRS, len(theta)))})
    return tuple(
        TurningPair(
            pair=k, before=float(choice.place * theta[k]), after=float((choice.place + offset) * theta[k])
        )
        for k in chosen
    )


def _words(
    choice: OffsetChoice, offset: int, sinusoidal: Numbers, rotary: Numbers, learned: Numbers
) -> LabWords:
    has_place = bool(np.isfinite(learned[offset]))
    new_pairs = _new_pairs(choice, choice.d_model, SINUSOIDAL_BASE)
    new_rotary = _new_pairs(choice, choice.d_head, choice.base)
    numbers = (
        ("offset Δ", f"{offset}, trained below {choice.n_trained}"),
        ("sinusoidal cosine", format_number(float(sinusoidal[offset]))),
        (f"rotary score, d_head {choice.d_head}", format_number(float(rotary[offset]))),
        ("learned cosine", format_number(float(learned[offset])) if has_place else "no such position"),
        (f"ALiBi, head {choice.head}: −m·Δ", format_number(-slope(choice.head) * offset)),
        ("m", format_number(slope(choice.head))),
        ("T5 bucket", f"{buckets(np.array([float(offset)]))[0]:.0f} of {N_BUCKETS}"),
        ("pairs under one rotation in L", new_pairs),
        ("the same, rotary", new_rotary),
    )
    return LabWords(
        formula=(
            "θᵢ = 10000^(−2i/d)",
            "PE(t+Δ)ᵢ = R(Δ·θᵢ) PE(t)ᵢ",
            "rotary: (R_s q)·(R_t k) = q·R_(t−s) k",
            "ALiBi: s − m·Δ",
            "T5: s + b[bucket Δ]",
        ),
        numbers=numbers,
        sentence=_sentence(choice, offset, new_pairs, new_rotary),
    )


def _new_pairs(choice: OffsetChoice, width: int, base: float) -> str:
    """How many pairs make less than one turn in training, and so meet angles after it that are new."""
    theta = frequencies(width, base)
    return f"{int((choice.n_trained * theta < 2 * np.pi).sum())} of {len(theta)}"


def _sentence(choice: OffsetChoice, offset: int, new_pairs: str, new_rotary: str) -> str:
    if offset < choice.n_trained:
        return (
            f"{offset} tokens rotate each pair by the same angle wherever the text begins: move t to see "
            f"this. Drag Δ past {choice.n_trained}, the trained length: learned positions end there."
        )
    return (
        f"{offset} tokens apart was never seen in training, which ended at {choice.n_trained}. A learned "
        f"table has nothing there; sinusoidal turns {new_pairs} pairs, rotary {new_rotary}, to angles "
        f"they never met; ALiBi and T5 only use the distance, and can go on."
    )
