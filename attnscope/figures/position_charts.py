"""What the labs of positions draw: the same for the screen and for files."""

import numpy as np

from attnscope.records.charts import Chart, Series
from attnscope.viewmodels.labs.position_offsets import Numbers, Offsets, TurningPair

BLUE, ORANGE, GREEN, PURPLE, OCHRE, SKY = 0, 1, 2, 3, 4, 5
_CELL = 3.4
_ROW = 3.0
_EDGE = 1.2
_CIRCLE = np.linspace(0.0, 2 * np.pi, 49)


def offset_charts(shown: Offsets) -> tuple[Chart, ...]:
    """Likeness and bias by offset, the turning pairs, and the turns made in training."""
    trained, at = float(shown.choice.n_trained), float(shown.offset)

    def line(name: str, ys: Numbers, colour: int, *, is_quiet: bool = False) -> Series:
        return Series(name=name, xs=shown.offsets, ys=ys, colour=colour, is_quiet=is_quiet)

    return (
        Chart(
            title="Likeness",
            x_label="offset Δ in tokens",
            y_label="cosine of two positions; rotary: score of equal vectors",
            series=(
                line("learned, new", shown.learned, GREEN),
                line("sinusoidal", shown.sinusoidal, BLUE),
                line("rotary", shown.rotary, ORANGE),
            ),
            y_range=(-0.5, 1.0),
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
        y_label="sinusoidal pairs, number and turn: the same for every t",
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
    """How often each pair turned over the trained length."""

    def line(name: str, turns: Numbers, colour: int) -> Series:
        places = (np.arange(len(turns)) + 0.5) / len(turns)
        return Series(name=name, xs=places, ys=turns, colour=colour, has_points=True)

    ends = np.array([0.0, 1.0])
    return Chart(
        title="Turns in training",
        x_label="pair: the quickest at 0, the slowest at 1",
        y_label="in L places; below 1: angles past L are new",
        series=(
            Series(name="one turn", xs=ends, ys=np.ones(2), colour=SKY, is_quiet=True),
            line("sinusoidal", shown.sinusoidal_turns, BLUE),
            line("rotary", shown.rotary_turns, ORANGE),
        ),
        is_log_y=True,
    )


def _turned(pair: TurningPair) -> str:
    degrees = float(np.degrees(pair.after - pair.before)) % 360
    return f"{pair.pair}: {degrees:.0f}°" if degrees >= 10 else f"{pair.pair}: {degrees:.2g}°"


def _hand(centre: float, middle: float, angle: float) -> tuple[Numbers, Numbers]:
    return np.array([centre, centre + np.sin(angle)]), np.array([middle, middle + np.cos(angle)])


def _joined(parts: list[tuple[Numbers, Numbers]], axis: int) -> Numbers:
    """All lines one after the other, with a gap between two."""
    pieces = [np.array([np.nan if axis else -_EDGE])]
    for part in parts:
        pieces += [part[axis], np.array([np.nan if axis else part[0][0]])]
    return np.concatenate(pieces)
