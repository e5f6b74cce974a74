"""Every page in every theme and at two sizes, rendered and compared with what was looked at.

The pictures go to tests/screens/output, to be opened. What is committed of each is its mean colour over
blocks of 16 pixels (references.npz): fonts differ between machines, and this is what a reader sees from
afar. `--update-pictures` writes the references anew; look at the pictures before committing them.
"""

import io
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from pictures import block_means
from PySide6.QtGui import QImage
from pytestqt.qtbot import QtBot

from attnscope.app import Program

pytestmark = [pytest.mark.qt, pytest.mark.slow]

PAGES = ("explore", "compare", "heads", "positions", "train", "labs", "learn")
THEMES = (("light", "dark"), ("projector",))
"""Those of one size of type are chosen one after the other in one program: to start it takes seconds."""
SIZES = ((1280, 800), (2560, 1440))
REFERENCES = Path(__file__).parent / "references.npz"
OUTPUT = Path(__file__).parent / "output"
THRESHOLD = 6.0
"""Mean difference of the block means, in levels of 255. An empty page of the same theme differs by more."""

References = dict[str, NDArray[np.uint8]]


@pytest.fixture(scope="module")
def references(is_updating_pictures: bool) -> Iterator[References]:
    known: References = {}
    if REFERENCES.exists():
        with np.load(REFERENCES, allow_pickle=False) as stored:
            known = {name: stored[name] for name in stored.files}
    yield known
    if is_updating_pictures:
        packed = io.BytesIO()
        np.savez_compressed(packed, **dict(sorted(known.items())))
        REFERENCES.write_bytes(packed.getvalue())


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
@pytest.mark.parametrize("themes", THEMES, ids="-".join)
def test_that_every_page_looks_as_it_did_in_every_theme(
    themes: tuple[str, ...],
    size: tuple[int, int],
    start: Callable[..., Program],
    qtbot: QtBot,
    references: References,
    is_updating_pictures: bool,
) -> None:
    program = start("grammar", width_px=size[0], height_px=size[1], theme=themes[0])
    program.heads.run()
    qtbot.waitUntil(lambda: program.heads.phase != "running", timeout=60_000)
    OUTPUT.mkdir(exist_ok=True)
    far: dict[str, float] = {}
    for theme in themes:
        program.window.view.set_theme(theme)
        empty = 0.0
        for page in PAGES:
            image = picture_of(program, page, qtbot)
            name = f"{page}-{theme}-{size[0]}x{size[1]}"
            assert image.save(str(OUTPUT / f"{name}.png"))
            means = block_means(image)
            if is_updating_pictures:
                references[name] = np.round(means).astype(np.uint8)
            known = references[name].astype(np.float64)
            assert known.shape == means.shape, name
            far[name] = float(np.abs(known - means).mean())
            ground = np.median(known.reshape(-1, 3), axis=0)
            empty = max(empty, float(np.abs(known - ground).mean()))
        assert empty > THRESHOLD, "a page without anything on it would pass"
    assert all(value <= THRESHOLD for value in far.values()), f"{far}; pictures in {OUTPUT}"


def picture_of(program: Program, page: str, qtbot: QtBot) -> QImage:
    """The window on a page, as soon as nothing is under way."""
    program.window.actions_by_name[f"page-{page}"].trigger()
    qtbot.waitUntil(
        lambda: not program.session.tracing.is_stale and not program.session.opening.busy, timeout=30_000
    )
    if page == "compare":
        qtbot.waitUntil(
            lambda: program.states.compare.traces.is_shown and not program.states.compare.is_waiting,
            timeout=30_000,
        )
    if page == "positions":
        qtbot.waitUntil(lambda: len(program.states.positions.tables) >= 2, timeout=30_000)
    if page == "train":
        qtbot.waitUntil(lambda: program.training.watch.head_map is not None, timeout=30_000)
    qtbot.wait(350)
    return program.window.grab().toImage()
