"""Numbers of options, within what can be meant by them."""

import argparse
import math
from collections.abc import Callable

MOST = 10**9


def whole(least: int = 0, most: int = MOST) -> Callable[[str], int]:
    """Reads a whole number from `least` to `most`; raises ArgumentTypeError."""

    def read(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            value = None
        if value is None or not least <= value <= most:
            is_number = text.strip().lstrip("+-").isdecimal()
            is_beyond = is_number and (value is None or value > most or least == -MOST)
            raise _refused(text, "a whole number", least, most, is_beyond=is_beyond)
        return value

    return read


def real(least: float = 0.0, most: float = 1.0) -> Callable[[str], float]:
    """Reads a number from `least` to `most`; raises ArgumentTypeError."""

    def read(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not least <= value <= most:
            raise _refused(text, "a number", least, most)
        return value

    return read


seed = whole(0, 2**63 - 1)
token_place = whole(-MOST, MOST)
"""A place in a text, from its end where it is negative."""


def _refused(
    text: str, kind: str, least: float, most: float, *, is_beyond: bool = False
) -> argparse.ArgumentTypeError:
    """What was found and expected; a very distant end is shown only to those who go beyond it."""
    is_open = most >= MOST and not is_beyond
    end = f" from {least:,.12g} upwards" if is_open else f" from {least:,.12g} to {most:,.20g}"
    return argparse.ArgumentTypeError(
        f"{text[:40]!r} is not {kind}{'' if is_open and least == -MOST else end}"
    )
