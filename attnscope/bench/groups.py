"""The groups of measurements by name; each imports what it needs when it runs."""

from collections.abc import Callable
from types import MappingProxyType

from attnscope.bench.report import Measurement


def _start() -> tuple[Measurement, ...]:
    from attnscope.bench.start import measure_start

    return measure_start()


def _typing() -> tuple[Measurement, ...]:
    from attnscope.bench.keystroke import measure_typing

    return measure_typing()


def _lag() -> tuple[Measurement, ...]:
    from attnscope.bench.lag import measure_lag

    return measure_lag()


def _trace() -> tuple[Measurement, ...]:
    from attnscope.bench.tracing import measure_tracing

    return measure_tracing()


def _grid() -> tuple[Measurement, ...]:
    from attnscope.bench.grid import measure_grid

    return measure_grid()


GROUPS: "MappingProxyType[str, Callable[[], tuple[Measurement, ...]]]" = MappingProxyType(
    {"start": _start, "grid": _grid, "trace": _trace, "typing": _typing, "lag": _lag}
)
"""In the order they run: whole processes first, while this one is still small."""
