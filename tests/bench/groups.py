"""The groups of measurements by name, and `attnscope bench`, which measures them one after the other.

Each group imports what it needs when it runs; each row is printed as it comes, and the JSON written at last.
"""

import argparse
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from attnscope import boot
from attnscope.cli.terminal import json_text, say, say_progress
from attnscope.errors import UserError
from attnscope.files import replace_file
from bench.report import Doing, NotRun, Row, Rows, busy_words, has_failed, machine, report, row_facts, summary

KEPT, MISSED = 0, 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What a person chose: where models compute, and how many texts a corpus has (0: few)."""

    device: str = "cpu"
    n_texts: int = 0


def _start(wish: Wish) -> Rows:
    from bench.start import measure_commands, measure_large_figure, measure_opening, measure_start

    yield Doing("commands, and what they cannot be faster than")
    yield from measure_commands()
    yield Doing("a figure of BERT-base's size")
    yield from measure_large_figure()
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
    from bench.keystroke import measure_large_typing, measure_translating, measure_typing

    yield Doing("typing into a small decoder")
    yield from measure_typing()
    yield Doing("typing into the translator")
    yield from measure_translating()
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
    from bench.analysis import measure_across_layers, measure_corpus_cost

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


def run(arguments: argparse.Namespace) -> int:
    """Measure one group or all, print each row as it comes, write the JSON; 1 when a promise was missed."""
    application = boot.offscreen_application(has_widgets=True)
    busy = busy_words()
    is_lines, begin_s = arguments.json is True, time.monotonic()
    wish = Wish(device=arguments.device, n_texts=max(0, arguments.texts))
    names = (arguments.group,) if arguments.group else tuple(GROUPS)
    done: dict[str, list[Row]] = {}
    try:
        for number, name in enumerate(names, start=1):
            group = GROUPS[name]
            if not is_lines:
                say(f"{name}: {group.about}")
            done[name] = []
            for row in _measured(name, group.measure(wish), f"{number} of {len(names)}"):
                done[name].append(row)
                if is_lines:
                    say(json_text({"group": name, **row_facts(row)}, indent=None))
                else:
                    say(f"  {row.sentence}")
    finally:
        if isinstance(arguments.json, Path):
            replace_file(arguments.json, json_text(report(done)).encode())
    rows = [row for found in done.values() for row in found]
    told = f"{summary(rows)}. {time.monotonic() - begin_s:.0f} s. {busy}".strip()
    if is_lines:
        say(json_text({"machine": machine(), "summary": told}, indent=None))
    else:
        say(told)
    del application
    return MISSED if has_failed(rows) else KEPT


def _measured(name: str, rows: Rows, place: str) -> Iterator[Row]:
    """The rows of a group; one that says why where the group had to end. Progress is told between them."""
    begin_s, what = time.monotonic(), ""
    try:
        for row in rows:
            _tell_progress("")
            if isinstance(row, Doing):
                what = row.what
            else:
                yield row
            _tell_progress(f"{name} ({place}), {time.monotonic() - begin_s:.0f} s: {what}")
    except UserError as error:
        yield NotRun(name=f"the rest of {name}", reason=str(error), is_fault=True)
    _tell_progress("")


def _tell_progress(text: str) -> None:
    if sys.stderr.isatty():
        say_progress(text)
