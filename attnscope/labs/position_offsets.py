"""Positional encodings at offsets unseen in training: several schemes on one axis.

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

from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from attnscope.counting import format_number
from attnscope.fields import number
from attnscope.labs.distance_in_scores import buckets
from attnscope.labs.lab import BLUE, GREEN, OCHRE, ORANGE, PURPLE, SKY, Lab, LabWords
from attnscope.labs.shift_matrix import turn_text
from attnscope.records.charts import Chart, Series

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
    """Trained length, model width, rotary base, ALiBi's head (1 … N_HEADS), and the positions t and t + Δ."""

    offset: int = number(
        96,
        range(FURTHER * TRAINED[-1] + 1),
        title="offset Δ",
        tip="How far the two tokens are apart; click or drag in the upper pictures",
        shown=lambda c: min(c.offset, FURTHER * c.n_trained),
    )
    place: int = number(
        3,
        range(65),
        title="position t",
        tip="The position of the first of the two tokens: the relative rotation does not depend on it",
    )
    n_trained: int = number(64, TRAINED, title="trained L", tip="Tokens of the longest trained text")
    d_model: int = number(64, WIDTHS, title="width d", tip="d_model; a rotary head is a quarter of it")
    base: float = number(
        10000.0,
        BASES,
        title="base",
        tip="Base of the rotary angles: a larger one rotates the slow pairs even more slowly",
        text=lambda v: f"{v:,.0f}" if v < 1e5 else f"{v / 1000:,.0f} k",
    )
    head: int = number(
        4,
        range(1, N_HEADS + 1),
        title="head",
        tip="Which of eight ALiBi heads: the first looks near, the last far",
    )

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
    """Every scheme at `offsets` 0 … FURTHER·L; NaN where undefined.

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
    """Cosine of position 0 and each position of a table of random numbers, as a learned one begins."""
    table = np.random.default_rng(0).standard_normal((n_trained, width))
    lengths = np.linalg.norm(table, axis=1)
    return np.asarray(table @ table[0] / (lengths * lengths[0]))


def slope(head: int, n_heads: int = N_HEADS) -> float:
    """Penalty of ALiBi for each token of distance, for head 1 … n_heads (a power of 2)."""
    return float(2.0 ** (-8.0 * head / n_heads))


def _buckets(offsets: Numbers) -> NDArray[np.int64]:
    return buckets(-offsets, is_causal=True, n_buckets=N_BUCKETS, max_distance=MAX_DISTANCE)


def example_bias(offsets: Numbers) -> Numbers:
    """Example of a T5 bias: its values fall evenly from bucket to bucket."""
    return np.asarray(-0.25 * _buckets(offsets))


def turning_pairs(choice: OffsetChoice, offset: int) -> tuple[TurningPair, ...]:
    """A few pairs from the fastest to the slowest, at t and t + Δ."""
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
        ("T5 bucket", f"{_buckets(np.array([float(offset)]))[0]} of {N_BUCKETS}"),
        ("pairs under one rotation in L", new_pairs),
        ("the same, rotary", new_rotary),
    )
    return LabWords(
        formula=(
            "θᵢ = 10000^(−2i/d)",
            "PE(t+Δ)ᵢ = R(Δ·θᵢ) PE(t)ᵢ",
            "rotary: (R_s q)·(R_t k)",
            "= q·R_(t−s) k",
            "ALiBi: s − m·Δ",
            "T5: s + b[bucket Δ]",
        ),
        numbers=numbers,
        sentence=_sentence(choice, offset),
    )


def _new_pairs(choice: OffsetChoice, width: int, base: float) -> str:
    """Number of pairs that make less than one turn in training, and so meet new angles after it."""
    theta = frequencies(width, base)
    return f"{int((choice.n_trained * theta < 2 * np.pi).sum())} of {len(theta)}"


def _turned_anew(choice: OffsetChoice, offset: int, width: int, base: float) -> str:
    """Number of pairs that an offset turns to an angle unseen in training."""
    theta = frequencies(width, base)
    met = (choice.n_trained - 1) * theta
    return f"{int(((met < 2 * np.pi) & (offset * theta % (2 * np.pi) > met)).sum())} of {len(theta)}"


def _sentence(choice: OffsetChoice, offset: int) -> str:
    if offset < choice.n_trained:
        return (
            f"{offset} tokens rotate each pair by the same angle wherever the text begins: move t to see "
            f"this. Drag Δ past {choice.n_trained}, the trained length: learned positions end there."
        )
    sinusoidal = _turned_anew(choice, offset, choice.d_model, SINUSOIDAL_BASE)
    rotary = _turned_anew(choice, offset, choice.d_head, choice.base)
    return (
        f"{offset} tokens apart was never seen in training, which ended at {choice.n_trained}. A learned "
        f"table has nothing there; sinusoidal turns {sinusoidal} pairs, rotary {rotary}, to angles "
        f"they never met; ALiBi and T5 only use the distance, and can go on."
    )


_CELL = 3.4


_ROW = 3.0


_EDGE = 1.2


_CIRCLE = np.linspace(0.0, 2 * np.pi, 49)


def offset_charts(shown: Offsets) -> tuple[Chart, ...]:
    """Similarity and bias by offset, the turning pairs, and the turns made in training."""
    trained, at = float(shown.choice.n_trained), float(shown.offset)

    def line(name: str, ys: Numbers, colour: int, *, is_quiet: bool = False) -> Series:
        return Series(name=name, xs=shown.offsets, ys=ys, colour=colour, is_quiet=is_quiet)

    return (
        Chart(
            title="Likeness",
            x_label="offset Δ in tokens",
            y_label="cosine of two positions, or rotary score",
            series=(
                line("learned, new", shown.learned, GREEN),
                line("sinusoidal", shown.sinusoidal, BLUE),
                line("rotary", shown.rotary, ORANGE),
            ),
            y_range=(min(-0.5, float(np.nanmin([shown.learned, shown.sinusoidal, shown.rotary]))), 1.0),
            marks=((trained, f"trained: {trained:.0f}"), (at, "")),
        ),
        Chart(
            title="Bias",
            x_label="offset Δ in tokens",
            y_label="added to the score, nats",
            series=(
                line(f"ALiBi head {shown.choice.head}", shown.alibi, PURPLE),
                line("T5, example", shown.t5, OCHRE),
            ),
            marks=((trained, ""), (at, f"Δ = {shown.offset}")),
        ),
        _turning(shown),
        _turns(shown),
    )


def _turning(shown: Offsets) -> Chart:
    """Each pair as the hand of a clock, at t and at t + Δ."""
    circles, before, after, notes = [], [], [], []
    for k, pair in enumerate(shown.pairs):
        centre, middle = _CELL * (k % 2), -_ROW * (k // 2)
        circles.append((centre + np.sin(_CIRCLE), middle + np.cos(_CIRCLE)))
        before.append(_hand(centre, middle, pair.before))
        after.append(_hand(centre, middle, pair.after))
        notes.append((centre, middle + 1.48, _turned(pair)))
    n_rows = (len(shown.pairs) + 1) // 2
    end = np.array([_CELL + _EDGE])
    return Chart(
        title="Rotation",
        x_label="",
        y_label="pairs: number and turn, at every t",
        series=(
            Series(name="", xs=_joined(circles, 0), ys=_joined(circles, 1), colour=SKY, is_quiet=True),
            Series(name="", xs=_joined(before, 0), ys=_joined(before, 1), colour=BLUE),
            Series(name="", xs=_joined(after, 0), ys=_joined(after, 1), colour=ORANGE),
            Series(name=f"t = {shown.choice.place}", xs=end, ys=np.array([0.4]), colour=BLUE),
            Series(name="t + Δ", xs=end, ys=np.array([-0.4]), colour=ORANGE),
        ),
        y_range=(-1.1 - _ROW * (n_rows - 1), 1.8),
        is_geometric=True,
        notes=tuple(notes),
    )


def _turns(shown: Offsets) -> Chart:
    def line(name: str, turns: Numbers, colour: int) -> Series:
        places = (np.arange(len(turns)) + 0.5) / len(turns)
        return Series(name=name, xs=places, ys=turns, colour=colour, has_points=True)

    ends = np.array([0.0, 1.0])
    return Chart(
        title="Turns in training",
        x_label="pair: the quickest at 0, the slowest at 1",
        y_label="below 1: new angles",
        series=(
            Series(name="one turn", xs=ends, ys=np.ones(2), colour=SKY, is_quiet=True),
            line("sinusoidal", shown.sinusoidal_turns, BLUE),
            line("rotary", shown.rotary_turns, ORANGE),
        ),
        is_log_y=True,
    )


def _turned(pair: TurningPair) -> str:
    return f"{pair.pair}: {turn_text(pair.after - pair.before)}"


def _hand(centre: float, middle: float, angle: float) -> tuple[Numbers, Numbers]:
    return np.array([centre, centre + np.sin(angle)]), np.array([middle, middle + np.cos(angle)])


def _joined(parts: list[tuple[Numbers, Numbers]], axis: int) -> Numbers:
    """All lines one after the other, with a gap between two."""
    pieces = [np.array([np.nan if axis else -_EDGE])]
    for part in parts:
        pieces += [part[axis], np.array([np.nan if axis else part[0][0]])]
    return np.concatenate(pieces)


class PastTrainedLength(Lab[OffsetChoice, Offsets]):
    name = "Past the trained length"
    group = "Positions"
    order = 2
    shows = "What sinusoidal, rotary, learned, T5 and ALiBi positions do at offsets never trained"
    source = "Vaswani et al. 2017, Raffel et al. 2020, Su et al. 2021, Press et al. 2022"
    search = ("length generalisation", "length extrapolation")
    help = """What sinusoidal, rotary, learned, T5 and ALiBi positions do at offsets never seen in training.
    The trained length can be set; everything beyond it is marked.
    """

    example = OffsetChoice()
    dragged = (0, 1)
    stretches = (5, 4)
    names_px = 84
    figure_mm = (230.0, 190.0)
    other_page = ("Matrices and similarities →", "positions")

    resolve = staticmethod(look_past)
    charts = staticmethod(offset_charts)

    def drag(self, choice: OffsetChoice, x: float, y: float, *, is_start: bool) -> OffsetChoice:
        return replace(choice, offset=min(max(round(x), 0), FURTHER * choice.n_trained))
