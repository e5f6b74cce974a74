"""The groups of measurements by name; each imports what it needs when it runs."""

from collections.abc import Callable
from dataclasses import dataclass
from types import MappingProxyType

from attnscope.bench.report import Measurement


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What a person chose: where models compute, and how many texts a corpus has (0: few)."""

    device: str = "cpu"
    n_texts: int = 0


def _start(wish: Wish) -> tuple[Measurement, ...]:
    from attnscope.bench.start import measure_start

    return measure_start()


def _typing(wish: Wish) -> tuple[Measurement, ...]:
    from attnscope.bench.keystroke import measure_large_typing, measure_typing

    return (*measure_typing(), *measure_large_typing())


def _lag(wish: Wish) -> tuple[Measurement, ...]:
    from attnscope.bench.lag import measure_lag
    from attnscope.bench.loading import measure_loading

    return (*measure_lag(), *measure_loading())


def _trace(wish: Wish) -> tuple[Measurement, ...]:
    from attnscope.bench.first_maps import measure_first_maps
    from attnscope.bench.tracing import measure_tracing

    return (*measure_first_maps(wish.device), *measure_tracing(wish.device))


def _grid(wish: Wish) -> tuple[Measurement, ...]:
    from attnscope.bench.grid import measure_grid

    return measure_grid()


def _window(wish: Wish) -> tuple[Measurement, ...]:
    from attnscope.bench.curves import measure_curves
    from attnscope.bench.exports import measure_exports
    from attnscope.bench.hover import measure_hover
    from attnscope.bench.lines import measure_lines
    from attnscope.bench.window_memory import measure_leak, measure_window_memory

    return (
        *measure_window_memory(),
        *measure_lines(),
        *measure_curves(),
        *measure_exports(),
        *measure_hover(),
        *measure_leak(),
    )


def _analysis(wish: Wish) -> tuple[Measurement, ...]:
    from attnscope.bench.analysis import measure_analysis
    from attnscope.bench.importance import measure_across_layers

    measured = measure_analysis(wish.n_texts) if wish.n_texts else measure_analysis()
    return (*measured, *measure_across_layers())


def _tiles(wish: Wish) -> tuple[Measurement, ...]:
    from attnscope.bench.tiles import measure_tiles

    return measure_tiles(wish.device)


def _write(wish: Wish) -> tuple[Measurement, ...]:
    from attnscope.bench.writing import measure_writing

    return measure_writing(wish.device)


def _train(wish: Wish) -> tuple[Measurement, ...]:
    from attnscope.bench.training import measure_training

    return measure_training(wish.device)


GROUPS: "MappingProxyType[str, Callable[[Wish], tuple[Measurement, ...]]]" = MappingProxyType(
    {
        "start": _start,
        "grid": _grid,
        "window": _window,
        "trace": _trace,
        "typing": _typing,
        "lag": _lag,
        "analysis": _analysis,
        "train": _train,
        "tiles": _tiles,
        "write": _write,
    }
)
"""In the order they run: whole processes first, while this one is still small. Each takes the wish."""
