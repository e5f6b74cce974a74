"""How soon what the pointer is on is lit everywhere: a real window on 144 heads of a text of 512 tokens."""

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from PySide6.QtWidgets import QApplication

from attnscope.app import Program
from bench.frames import measure_frames, move_to
from bench.lines import point_at_token
from bench.long_model import long_text, write_long_model
from bench.report import Measurement
from bench.window import is_settled, open_program, wait_until

N_LAYERS = N_HEADS = 12
N_TOKENS = 512
N_FRAMES = 100
TARGET_MS = 16.0


def measure_hover(
    n_frames: int = N_FRAMES, n_layers: int = N_LAYERS, n_heads: int = N_HEADS, n_tokens: int = N_TOKENS
) -> Iterator[Measurement]:
    """Milliseconds from a move of the mouse until all is painted that it changes, in each picture."""
    with tempfile.TemporaryDirectory(prefix="attnscope-hover-") as folder:
        model = write_long_model(
            Path(folder) / "model", n_layers=n_layers, n_heads=n_heads, d_model=12 * n_heads
        )
        with open_program(str(model)) as program:
            program.session.texts.set_text(long_text(n_tokens - 1))
            wait_until(program, lambda: is_settled(program), "the trace")
            traced = program.session.traced
            n_shown = len(traced.source) if traced is not None else 0
            for name, step in _steps(program).items():
                QApplication.processEvents()
                yield measure_frames(
                    f"hover over {name}, T = {n_shown}",
                    step,
                    QApplication.processEvents,
                    n_frames,
                    target_ms=TARGET_MS,
                )


def _steps(program: Program) -> dict[str, Callable[[int], None]]:
    """For each picture, how the mouse moves to another place in it."""
    explore = program.window.pages.explore
    grid, heat, lines = explore.grid_panel.grid, explore.head_panel.heatmap, explore.head_panel.lines
    strip = explore.text_bar.source_strip
    sites = program.session.model.sites if program.session.model else ()

    def over_grid(index: int) -> None:
        layout = grid.layout_now()
        row, column = index * 5 % len(layout.rows), index * 7 % layout.n_columns
        move_to(grid, layout.box(row, column).center())

    def over_map(index: int) -> None:
        layout = heat.layout_now()
        if layout is not None:
            query = index * 37 % layout.n_queries
            move_to(heat, layout.cell_rect(query, index * 11 % (query + 1)).center())

    def over_lines(index: int) -> None:
        if index == 0:
            program.session.select_heads(sites[0].heads)
            program.window.view.show_view("lines")
            QApplication.processEvents()
        point_at_token(lines, index)

    def over_text(index: int) -> None:
        bottom_px = strip.visibleRegion().boundingRect().bottom()
        in_sight = [chip for chip in strip.chips() if chip.rect.bottom() < bottom_px]
        move_to(strip, in_sight[index * 7 % len(in_sight)].rect.center())

    return {"the grid": over_grid, "the head's map": over_map, "the text": over_text, "lines": over_lines}
