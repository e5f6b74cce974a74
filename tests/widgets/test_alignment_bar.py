"""The bar of gold links below the map, and the marks on the map."""

from dataclasses import replace

import numpy as np
import pytest
from aligning_samples import CELLS, HEADS, table
from PySide6.QtCore import QRectF
from PySide6.QtGui import QImage
from pytestqt.qtbot import QtBot
from session_samples import Desk, head_map, info, ref, state_of, tokens

from attnscope.figures import BASE_PT, FigureSpec, MapPart, part_layout, part_rect, render
from attnscope.figures.views import HeadFigure
from attnscope.records import AlignmentShown, GoldCell, MapTile, ShowAlignment
from attnscope.widgets.explore import AlignmentBar, HeadView

pytestmark = pytest.mark.qt


def test_that_the_bar_shows_numbers_selects_the_best_and_hides_without_cross_heads(qtbot: QtBot) -> None:
    desk, asked = Desk().open(), []
    state = state_of("aligning", asked.append, session=desk.session)
    answers = iter(["/l.txt", "/p.tsv", ""])
    bar = AlignmentBar(state, desk.session, ask=lambda *_: next(answers))
    qtbot.addWidget(bar)
    bar.show()
    desk.session.select_heads((HEADS[0],))
    desk.answer()
    assert not bar.switch.isHidden()
    assert not bar.isVisible()  # until it is switched on
    assert not bar.best.isVisible()
    bar.switch.click()
    assert bar.isVisible()
    request = asked[-1]
    assert isinstance(request, ShowAlignment)
    shown = AlignmentShown(
        number=request.number,
        trace=request.trace,
        cells=CELLS,
        table=table(0.5, 0.25, 0.75, 0.5, 0.4, 0.6),
        origin="links",
    )
    state.handle(shown)
    assert bar.shown.text() == "L0H0  AER 0.50 · P 0.50 · R 0.50"
    assert bar.best.text() == "Best: L0H1"
    bar.best.click()
    desk.answer()
    assert desk.session.primary == HEADS[1]
    assert bar.best.text() == "L0H1 is best"
    bar.files.chosen.emit("1")
    assert (asked[-1].files.links, asked[-1].files.pairs, asked[-1].files.counts_from) == (
        "/l.txt",
        "/p.tsv",
        1,
    )
    bar.files.chosen.emit("0")
    assert len(asked) == 2
    desk.open(info("decoder"))
    assert not bar.isVisible()
    assert bar.switch.isHidden()


def test_that_sure_and_possible_links_are_marked_on_their_cells_only(qtbot: QtBot) -> None:
    view = HeadView()
    qtbot.addWidget(view)
    view.resize(420, 360)
    view.set_map(head_map(ref(0, 0, "cross"), tokens("le chat dort"), tokens("the cat sleeps")))
    before = _pixels(view)
    seen = []
    for is_sure in (True, False):
        view.set_gold((GoldCell(rows=(1, 2), cols=(2, 3), is_sure=is_sure, words=("chat", "cat")),))
        seen.append(_pixels(view))
    layout = view.layout_now()
    assert layout is not None
    cell = layout.cell_rect(1, 2).toRect()
    is_marked = np.zeros(before.shape[:2], bool)
    is_marked[cell.top() - 1 : cell.bottom() + 2, cell.left() - 1 : cell.right() + 2] = True
    for picture in seen:
        changed = (picture != before).any(axis=2)
        assert changed.sum() > 50
        assert not (changed & ~is_marked).any()
    assert (seen[0] != seen[1]).any()
    view.set_gold(())
    assert (_pixels(view) == before).all()


def test_that_links_are_marked_on_a_figure_of_a_part_of_a_long_map() -> None:
    words = tokens(" ".join("abcdefgh")).tokens
    weights = np.full((4, 4), 0.25, np.float32)
    tile = MapTile(
        head=ref(0, 0, "cross"), trace=1, rows=(2, 6), cols=(4, 8), b=1,
        levels=np.full((4, 4), 60, np.uint8), peak=0.25, head_peak=0.25, weights=weights,
    )  # fmt: skip
    part = MapPart(tile=tile, queries=words, keys=words)
    spec = HeadFigure(part=part, dpi=96, font_pt=BASE_PT)
    seen = GoldCell(rows=(3, 4), cols=(5, 6), is_sure=True, words=("d", "f"))
    away = GoldCell(rows=(7, 8), cols=(0, 1), is_sure=True, words=("h", "a"))
    plain, marked, outside = (_dots(replace(spec, gold=gold)) for gold in ((), (seen,), (away,)))
    assert (plain == outside).all()
    layout, window = part_layout(QRectF(0, 0, spec.width_px, spec.height_px), part)
    cell = part_rect(layout, window, seen.rows, seen.cols).toRect()
    changed = (plain != marked).any(axis=2)
    assert changed.sum() > 50
    changed[cell.top() - 1 : cell.bottom() + 2, cell.left() - 1 : cell.right() + 2] = False
    assert not changed.any()


def _dots(spec: FigureSpec) -> np.ndarray:
    image = QImage.fromData(render(spec, "png")).convertToFormat(QImage.Format.Format_RGB32)
    return np.array(image.constBits()).reshape(image.height(), image.width(), 4)[..., :3].copy()


def _pixels(view: HeadView) -> np.ndarray:
    image = view.grab().toImage().convertToFormat(view.grab().toImage().Format.Format_RGB32)
    return np.array(image.constBits()).reshape(image.height(), image.width(), 4)[..., :3].copy()
