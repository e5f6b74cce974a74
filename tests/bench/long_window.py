"""A real window on a long text, panned and zoomed by a script while tiles are made beside it."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path

from attnscope.analysis import encode_corpus, run_batch
from attnscope.app import Program
from attnscope.errors import UserError
from attnscope.models import load
from attnscope.nn import QuietProbe
from attnscope.viewmodels.maps import MapTiles
from attnscope.widgets.explore import StreetMap
from bench.lag import LagProbe, lag_row
from bench.long_model import N_TOKENS, long_files
from bench.report import Measurement, worst_of
from bench.window import is_settled, open_program, turn_loop

N_FRAMES, N_JUMPS = 240, 20
WITHIN_S = 60.0
FRAME_MS, JUMP_MS = 16.0, 100.0
FIRST_RATIO, LAST_RATIO, EXACT_RATIO = 0.75, 1.15, 1.5
"""Of two layers the first is known after half of the pass. The head that is looked at is of the last one: its
map cannot come before the pass is over, and the text has been opened and read before."""


def measure_long_window() -> Iterator[Measurement]:
    """A long text's way to its first maps, to that of a head of the last layer and to all of its exact
    weights, over the plain pass; frames and jumps.
    """
    with long_files() as (model, text), open_program(str(model)) as program:
        plain_s = plain_pass_s(str(model), text)
        begin_s = time.perf_counter()
        program.session.texts.open_file(str(text))
        state = program.states.map_tiles
        wait_for(lambda: len(program.session.traced.source if program.session.traced else ()) == N_TOKENS)
        program.window.pages.explore.repaint()
        first_s = time.perf_counter() - begin_s
        wait_for(lambda: state.overview is not None)
        last_s = time.perf_counter() - begin_s
        wait_for(lambda: is_long_shown(program) and state.best is not None and not state.best.is_sampled)
        exact_s = time.perf_counter() - begin_s
        note = f"32,768 tokens, 2 layers of 2 heads; plain {plain_s:.1f} s"
        for name, seconds, target in (
            ("first maps", first_s, FIRST_RATIO),
            ("map of a head of the last layer", last_s, LAST_RATIO),
            ("exact map of that", exact_s, EXACT_RATIO),
        ):
            name = f"long text opened to the {name} / plain pass"
            yield Measurement(name=name, value=seconds / plain_s, unit="×", target=target, note=note)
        street = street_map(program)
        probe = LagProbe(program)
        probe.start()
        frames_ms = fly(street, state)
        probe.stop()
        yield worst_of("frame of a flight", frames_ms, "ms", q=99, target=FRAME_MS)
        yield lag_row("in flight", probe.lags_ms)
        probe.deleteLater()
        yield worst_of("exact cells after a jump", jump(street, state), "ms", target=JUMP_MS)


def plain_pass_s(source: str, path: Path) -> float:
    """Seconds to read the text from its file and run the model on it, with nothing seen of attention."""
    model = load(source, device="cpu")
    begin_s = time.perf_counter()
    batch = list(encode_corpus(model, [path.read_text(encoding="utf-8")]))
    run_batch(model, batch, QuietProbe())
    return time.perf_counter() - begin_s


def is_long_shown(program: Program) -> bool:
    """Whether a long text is traced and shown by tiles."""
    return program.states.map_tiles.shown is not None and is_settled(program)


def street_map(program: Program) -> StreetMap:
    """The widget that shows the long map; raises UserError when there is none."""
    street = program.window.pages.explore.head_panel.street_map
    if street is None:
        raise UserError("The window has no map for long texts.")
    return street


def fly(street: StreetMap, state: MapTiles) -> list[float]:
    """Zoom in and out on a circle and pan on the way: ms of each frame."""
    frames_ms: list[float] = []
    width, height = _size_of(street)
    for index in range(N_FRAMES):
        factor = 1.12 if index % 120 < 75 else 1 / 1.18
        begin_s = time.perf_counter()
        if index % 3:
            state.zoom(factor, width * (0.3 + 0.002 * index), height * 0.6)
        else:
            state.pan(18.0, -11.0)
        street.state.point_at(state.window.cell(width / 2, height / 2) if state.window else None)
        street.repaint()
        frames_ms.append((time.perf_counter() - begin_s) * 1e3)
        turn_loop(0.012)
    return frames_ms


def jump(street: StreetMap, state: MapTiles, n_jumps: int = N_JUMPS) -> list[float]:
    """Go to far places of the map at full zoom: ms from each click to the exact cells on the screen.

    No two places share a cell, so that none has been made before.
    """
    took_ms: list[float] = []
    window = state.window
    assert window is not None
    state.zoom(window.max_zoom, *(size / 2 for size in _size_of(street)))
    for index in range(n_jumps + 1):
        query = window.n_queries * (0.95 - 0.9 * (index * 5 % (n_jumps + 1)) / n_jumps)
        begin_s = time.perf_counter()
        state.centre_on(query, query * (0.1 + 0.8 * index / n_jumps))
        wait_for(lambda: is_exact(state))
        street.repaint()
        took_ms.append((time.perf_counter() - begin_s) * 1e3)
    return took_ms[1:]  # the first also zooms


def is_exact(state: MapTiles) -> bool:
    """Whether every cell that is seen has its exact weight, as fine as the screen shows it."""
    seen, window = state.seen_tile(), state.window
    return seen is not None and window is not None and seen.b <= window.block


def _size_of(street: StreetMap) -> tuple[float, float]:
    layout = street.layout_now()
    return (layout.cells.width(), layout.cells.height()) if layout else (1.0, 1.0)


def wait_for(is_true: Callable[[], bool]) -> None:
    """Turn the event loop until something is so; raises UserError when it takes too long."""
    deadline_s = time.perf_counter() + WITHIN_S
    while not is_true():
        if time.perf_counter() > deadline_s:
            raise UserError(f"Waited {WITHIN_S:.0f} s for a tile.")
        turn_loop(0.002)
