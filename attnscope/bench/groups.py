"""The groups of measurements by name; each imports what it needs when it runs."""

from collections.abc import Callable
from types import MappingProxyType

from attnscope.bench.report import Measurement


def _start(device: str) -> tuple[Measurement, ...]:
    from attnscope.bench.start import measure_start

    return measure_start()


def _typing(device: str) -> tuple[Measurement, ...]:
    from attnscope.bench.keystroke import measure_typing

    return measure_typing()


def _lag(device: str) -> tuple[Measurement, ...]:
    from attnscope.bench.lag import measure_lag

    return measure_lag()


def _trace(device: str) -> tuple[Measurement, ...]:
    from attnscope.bench.first_maps import measure_first_maps
    from attnscope.bench.tracing import measure_tracing

    return (*measure_first_maps(device), *measure_tracing(device))


def _grid(device: str) -> tuple[Measurement, ...]:
    from attnscope.bench.grid import measure_grid

    return measure_grid()


def _analysis(device: str) -> tuple[Measurement, ...]:
    from attnscope.bench.analysis import measure_analysis
    from attnscope.bench.importance import measure_across_layers

    return (*measure_analysis(), *measure_across_layers())


def _tiles(device: str) -> tuple[Measurement, ...]:
    from attnscope.bench.tiles import measure_tiles

    return measure_tiles(device)


def _write(device: str) -> tuple[Measurement, ...]:
    from attnscope.bench.writing import measure_writing

    return measure_writing(device)


def _train(device: str) -> tuple[Measurement, ...]:
    from attnscope.bench.training import measure_training

    return measure_training(device)


GROUPS: "MappingProxyType[str, Callable[[str], tuple[Measurement, ...]]]" = MappingProxyType(
    {
        "start": _start,
        "grid": _grid,
        "trace": _trace,
        "typing": _typing,
        "lag": _lag,
        "analysis": _analysis,
        "train": _train,
        "tiles": _tiles,
        "write": _write,
    }
)
"""In the order they run: whole processes first, while this one is still small. Each takes a device."""
