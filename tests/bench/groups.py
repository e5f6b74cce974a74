"""The groups of measurements by name; each imports what it needs when it runs."""

from collections.abc import Callable
from dataclasses import dataclass
from types import MappingProxyType

from bench.report import Doing, Rows


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What a person chose: where models compute, and how many texts a corpus has (0: few)."""

    device: str = "cpu"
    n_texts: int = 0


def _start(wish: Wish) -> Rows:
    from bench.opening import measure_opening
    from bench.start import measure_start

    yield Doing("whole starts of the program")
    yield from measure_start()
    yield Doing("a large model opened, and by transformers")
    yield from measure_opening()


def _grid(wish: Wish) -> Rows:
    from bench.grid import measure_grid

    yield Doing("the grid of 144 heads")
    yield from measure_grid()


def _window(wish: Wish) -> Rows:
    from bench.curves import measure_curves
    from bench.exports import measure_exports
    from bench.hover import measure_hover
    from bench.lines import measure_lines
    from bench.window_memory import measure_leak, measure_window_memory

    yield Doing("memory of the window")
    yield from measure_window_memory()
    yield Doing("lines")
    yield from measure_lines()
    yield Doing("curves of ten runs")
    yield from measure_curves()
    yield Doing("figures")
    yield from measure_exports()
    yield Doing("the pointer over 144 heads")
    yield from measure_hover()
    yield Doing("memory left behind")
    yield from measure_leak()


def _trace(wish: Wish) -> Rows:
    from bench.first_maps import measure_first_maps
    from bench.tracing import measure_tracing

    yield Doing("144 maps of a long text")
    yield from measure_first_maps(wish.device)
    yield Doing("traced and plain passes")
    yield from measure_tracing(wish.device)


def _typing(wish: Wish) -> Rows:
    from bench.keystroke import measure_large_typing, measure_typing

    yield Doing("typing into a small decoder")
    yield from measure_typing()
    yield Doing("typing into GPT-2's shape")
    yield from measure_large_typing()


def _lag(wish: Wish) -> Rows:
    from bench.lag import measure_lag
    from bench.loading import measure_loading

    yield Doing("the window while its worker traces and trains")
    yield from measure_lag()
    yield Doing("the window while models are opened")
    yield from measure_loading()


def _analysis(wish: Wish) -> Rows:
    from bench.analysis import measure_corpus_cost
    from bench.importance import measure_across_layers

    yield Doing("measures of a corpus, and its plain passes")
    yield measure_corpus_cost(wish.n_texts) if wish.n_texts else measure_corpus_cost()
    yield Doing("importance and rollout")
    yield from measure_across_layers()


def _train(wish: Wish) -> Rows:
    from bench.training import measure_training

    yield Doing("steps of training")
    yield from measure_training(wish.device)


def _tiles(wish: Wish) -> Rows:
    from bench.tiles import measure_tiles

    yield Doing("tiles of one head")
    yield from measure_tiles(wish.device)


def _write(wish: Wish) -> Rows:
    from bench.writing import measure_writing

    yield Doing("writing")
    yield from measure_writing(wish.device)


@dataclass(frozen=True, slots=True)
class Group:
    """What belongs together, and what it sets against what."""

    about: str
    measure: Callable[[Wish], Rows]


GROUPS: MappingProxyType[str, Group] = MappingProxyType(
    {
        "start": Group(
            "from the start of the process, as installed, to the window and to attention in it", _start
        ),
        "grid": Group("frames of the grid of heads, each with its paint", _grid),
        "window": Group("frames of other pictures, figures on disk, memory", _window),
        "trace": Group("text to attention, against the same pass without it and against BertViz", _trace),
        "typing": Group("a keystroke to its painted maps, in a whole window", _typing),
        "lag": Group("how late the window answers while its worker is busy", _lag),
        "analysis": Group("what analyses cost over the passes that they cannot do without", _analysis),
        "train": Group("a step of training against the loops of others", _train),
        "tiles": Group("texts of up to 32,768 tokens: tiles, a whole window, memory", _tiles),
        "write": Group("writing with its attention against the library's own generate", _write),
    }
)
"""In the order they run: whole processes first, while this one is still small. Each takes the wish."""
