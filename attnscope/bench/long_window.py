"""A real window on a long text, panned and zoomed by a script while tiles are made beside it."""

import time

from attnscope.app import Program
from attnscope.bench.lag import LagProbe
from attnscope.bench.long_model import long_files
from attnscope.bench.report import Measurement, spread
from attnscope.bench.window import is_settled, open_program, turn_loop, wait_until
from attnscope.errors import UserError
from attnscope.viewmodels.maps.map_tiles import MapTiles
from attnscope.widgets.explore.street_map import StreetMap

N_FRAMES = 240
WITHIN_S = 120.0
FIRST_MS, FRAME_MS = 100.0, 16.0


def measure_long_window() -> tuple[Measurement, ...]:
    """Seconds to open the text, milliseconds of each frame of a scripted flight, and of settling."""
    with long_files() as (model, text), open_program(str(model)) as program:
        begin_s = time.perf_counter()
        program.session.open_text(str(text))
        wait_until(program, lambda: is_long_shown(program), "the long text", WITHIN_S)
        traced_s = time.perf_counter() - begin_s
        state, street = program.map_tiles, street_map(program)
        begin_s = time.perf_counter()
        _wait(lambda: state.overview is not None)
        first_ms = (time.perf_counter() - begin_s) * 1e3
        _wait(lambda: state.best is not None and not state.best.is_sampled)
        exact_s = time.perf_counter() - begin_s
        probe = LagProbe(program)
        probe.start()
        frames_ms, settled_ms = fly(street, state)
        probe.stop()
        lags_ms = list(probe.lags_ms)
        probe.deleteLater()
    return (
        Measurement(name="text opened, traced and shown", value=traced_s, unit="s", note="32,768 tokens"),
        Measurement(name="first picture in the window", value=first_ms, unit="ms", target=FIRST_MS),
        Measurement(name="exact overview in the window", value=exact_s, unit="s"),
        *spread("frame of a flight", frames_ms, "ms", targets={99: FRAME_MS}, percentiles=(50, 95, 99)),
        *spread("exact after a jump", settled_ms, "ms", percentiles=(50, 95)),
        *spread("event-loop lag in flight", lags_ms, "ms", percentiles=(50, 99)),
    )


def is_long_shown(program: Program) -> bool:
    """Whether a long text is traced and shown by tiles."""
    return program.map_tiles.shown is not None and is_settled(program)


def street_map(program: Program) -> StreetMap:
    """The widget that shows the long map; raises UserError when there is none."""
    street = program.window.pages.explore.head_panel.street_map
    if street is None:
        raise UserError("The window has no map for long texts.")
    return street


def fly(street: StreetMap, state: MapTiles) -> tuple[list[float], list[float]]:
    """Zoom in and out on a circle and pan on the way: ms of each frame, and of settling after jumps."""
    frames_ms: list[float] = []
    settled_ms: list[float] = []
    layout = street.layout_now()
    width, height = (layout.cells.width(), layout.cells.height()) if layout else (1.0, 1.0)
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
        if index % 40 == 39:
            begin_s = time.perf_counter()
            _wait(lambda: _is_settled(state))
            settled_ms.append((time.perf_counter() - begin_s) * 1e3)
    return frames_ms, settled_ms


def _is_settled(state: MapTiles) -> bool:
    best, window = state.best, state.window
    return best is not None and window is not None and not best.is_sampled and best.b <= window.block


def _wait(is_true: object) -> None:
    deadline_s = time.perf_counter() + WITHIN_S
    while not is_true():  # type: ignore[operator]
        if time.perf_counter() > deadline_s:
            raise UserError(f"Waited {WITHIN_S:.0f} s for a tile.")
        turn_loop(0.002)
