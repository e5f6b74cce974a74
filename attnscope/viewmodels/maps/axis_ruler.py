"""Where the marks of a ruler along a long axis of tokens go: whole positions in steps of 1, 2 or 5.

| symbol | meaning                                                | unit   |
|--------|--------------------------------------------------------|--------|
| first  | the position at the beginning of the ruler, a fraction | tokens |
| step   | room of one token on the screen                        | pixels |

Positions are whole numbers and places are float64, exact to far more than a million tokens.
"""

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """One mark: a token's position and where its middle lies, in pixels from the ruler's beginning."""

    position: int
    place_px: float
    is_major: bool

    @property
    def text(self) -> str:
        """The position in digits, grouped by thousands."""
        return f"{self.position:,}"


def mark_step(step_px: float, room_px: float) -> int:
    """The smallest 1, 2 or 5 times a power of ten of tokens that leaves `room_px` between two marks."""
    if not (step_px > 0 and math.isfinite(step_px)):
        return 1
    least = max(1.0, room_px / step_px)
    power = 10 ** max(0, math.floor(math.log10(least) + 1e-12))
    for factor in (1, 2, 5, 10, 20):
        if factor * power >= least * (1 - 1e-9):
            return int(factor * power)
    raise AssertionError("unreachable: 20 powers of ten are always enough")


def ruler_marks(
    *, first: float, step_px: float, length_px: float, n: int, room_px: float, minor_px: float = 6.0
) -> tuple[Mark, ...]:
    """The marks of the tokens whose middle is on a ruler of `length_px`; minor ones have no text.

    `n` is the number of tokens of the whole axis, `room_px` what the text of a mark needs.
    """
    if step_px <= 0 or length_px <= 0 or n <= 0:
        return ()
    major = mark_step(step_px, room_px)
    minor = _minor_step(major, step_px, minor_px)
    start = max(0, math.ceil(first - 0.5 - 1e-9))
    stop = min(n - 1, math.floor(first + length_px / step_px - 0.5 + 1e-9))
    begin = -(-start // minor) * minor
    return tuple(
        Mark(position=i, place_px=(i + 0.5 - first) * step_px, is_major=i % major == 0)
        for i in range(begin, stop + 1, minor)
    )


def widest_text(n: int) -> str:
    """The longest text that a mark of an axis of `n` tokens can have."""
    return f"{int('9' * len(str(max(1, n - 1)))):,}"


def _minor_step(major: int, step_px: float, minor_px: float) -> int:
    """A fifth, a quarter, a half of the major step, or the step itself where marks would touch."""
    for parts in (10, 5, 4, 2):
        if major % parts == 0 and major // parts * step_px >= minor_px:
            return major // parts
    return major
