"""The positions page: maps, cursors, the gate in front of the picture, states."""

from collections.abc import Iterator

import numpy as np
import pytest
from figure_samples import position_table
from PySide6.QtCore import QPoint, QPointF, QRectF, Qt
from PySide6.QtGui import QColor
from PySide6.QtWidgets import QApplication, QCheckBox, QLabel, QSpinBox
from pytestqt.qtbot import QtBot
from session_samples import state_of

from attnscope.figures import lut, palette
from attnscope.records import (
    Failed,
    ModelInfo,
    ModelLoaded,
    PositionsShown,
    PositionTable,
    Request,
    ShowPositions,
)
from attnscope.widgets import FormulaLabel, apply_theme
from attnscope.widgets.positions import PositionColumn, PositionMap, PositionsPage, colour_words, ticks

pytestmark = pytest.mark.qt


def table(name: str, n: int = 5, d: int = 4, note: str = "", formula: str = "") -> PositionTable:
    matrix = np.linspace(-1.0, 1.0, n * d, dtype=np.float32).reshape(n, d)
    lengths = np.linalg.norm(matrix, axis=1)
    dots = matrix @ matrix.T
    return PositionTable(
        name=name,
        matrix=matrix,
        cosine=dots / np.outer(lengths, lengths),
        by_offset=np.linspace(1.0, -1.0, n),
        dot_by_offset=np.linspace(3.0, 0.0, n),
        note=note,
        formula=formula,
        source="Su et al. 2021" if formula else "",
    )


class Desk:
    def __init__(self, qtbot: QtBot) -> None:
        self.posted: list[Request] = []
        self.state = state_of("positions", self.posted.append)
        self.page = PositionsPage(self.state)
        qtbot.addWidget(self.page)
        apply_theme(self.page, palette(False))
        self.page.resize(1200, 720)

    def answer(self, note: str = "") -> None:
        request = self.posted[-1]
        assert isinstance(request, ShowPositions)
        tables = tuple(table(name, note=note) for name in request.names)
        self.state.handle(PositionsShown(number=request.number, tables=tables))

    def texts(self) -> str:
        return "\n".join(label.text() for label in self.page.findChildren(QLabel))

    def columns(self) -> list[PositionColumn]:
        return self.page.findChildren(PositionColumn)

    def box(self, name: str) -> QCheckBox:
        return next(b for b in self.page.findChildren(QCheckBox) if b.property("scheme") == name)


@pytest.fixture
def desk(qtbot: QtBot) -> Iterator[Desk]:
    desk = Desk(qtbot)
    desk.page.show()
    yield desk
    desk.page.hide()


def test_that_tables_are_asked_for_when_the_page_is_seen(qtbot: QtBot) -> None:
    hidden = Desk(qtbot)
    assert not hidden.posted
    hidden.page.show()
    assert "Computing" in hidden.texts()
    hidden.answer()
    assert [c.table.name for c in hidden.columns()] == list(hidden.state.names)
    hidden.page.hide()


def test_that_a_box_adds_and_removes_its_column(desk: Desk, qtbot: QtBot) -> None:
    desk.answer()
    n = len(desk.columns())
    desk.box("binary").click()
    desk.answer()
    qtbot.waitUntil(lambda: len(desk.columns()) == n - 1)
    desk.box("binary").click()
    desk.answer()
    assert len(desk.columns()) == n


def test_that_both_sizes_can_be_set(desk: Desk) -> None:
    desk.answer()
    for name, value in (("Positions", 20), ("d_model", 32)):
        next(b for b in desk.page.findChildren(QSpinBox) if b.accessibleName() == name).setValue(value)
    desk.answer()
    assert (desk.state.n_positions, desk.state.d_model) == (20, 32)
    request = desk.posted[-1]
    assert isinstance(request, ShowPositions)
    assert (request.n_positions, request.d_model) == (20, 32)


def test_that_the_model_s_own_waits_for_a_model_and_says_when_it_has_none(desk: Desk) -> None:
    assert not desk.box("model").isEnabled()
    desk.answer()
    n = len(desk.columns())
    info = ModelInfo(
        name="<b>tiny</b>",
        source="",
        form="decoder",
        objective="causal",
        n_parameters=1,
        max_tokens=8,
        vocab_size=9,
        tokenizer="words",
        device="cpu",
        sha256="",
        sites=(),
    )
    desk.state.handle(ModelLoaded(number=0, info=info))
    assert desk.box("model").isEnabled()
    desk.box("model").click()
    request = desk.posted[-1]
    desk.state.handle(Failed(number=request.number, request="ShowPositions", message="It has no positions."))
    desk.answer()
    assert "It has no positions." in desk.texts()
    assert len(desk.columns()) == n


def test_that_nothing_chosen_and_failure_are_said(desk: Desk) -> None:
    desk.answer()
    for name in desk.state.names:
        desk.box(name).click()
    desk.answer()
    assert "Choose an encoding" in desk.texts()
    desk.box("rotary").click()
    desk.state.handle(Failed(number=desk.posted[-1].number, request="ShowPositions", message="Too large."))
    assert "Too large." in desk.texts()


def test_that_one_cursor_stands_in_every_map_and_plot(desk: Desk, qtbot: QtBot) -> None:
    desk.answer()
    first = desk.columns()[0]
    with qtbot.waitSignal(desk.page.hover_text) as heard:
        first.cosine.hovered.emit(4, 1)
    assert heard.args == ["positions 4 and 1 · offset 3"]
    assert "at offset 3" in desk.texts()
    assert all(c._cosine_value.text() for c in desk.columns())
    first.matrix.hovered.emit(4, 3)
    assert all(c._matrix_value.text() == "1" for c in desk.columns())
    first.matrix.left.emit()
    assert not any(c._matrix_value.text() for c in desk.columns())


def test_that_zooming_one_map_zooms_all(desk: Desk) -> None:
    desk.answer()
    first, *others = desk.columns()
    part = QRectF(0.25, 0.25, 0.5, 0.5)
    first.matrix.set_view(part)
    first.matrix.view_moved.emit(part)
    assert all(c.matrix._view == part for c in others)


def test_that_tables_become_a_figure(desk: Desk) -> None:
    assert desk.page.figure_spec() is None
    desk.answer(note="a note")
    spec = desk.page.figure_spec()
    assert spec is not None
    assert spec.view == "positions"
    assert spec.positions == desk.state.tables


def test_that_notes_are_shown_as_they_are_written(desk: Desk) -> None:
    desk.answer(note="<i>x</i>")
    assert "<i>x</i>" in desk.texts()


def test_that_every_state_can_be_drawn_in_both_themes(desk: Desk) -> None:
    desk.answer()
    for is_dark in (True, False):
        apply_theme(desk.page, palette(is_dark))
        for size in ((700, 480), (1600, 900)):
            desk.page.resize(*size)
            assert not desk.page.grab().isNull()


@pytest.mark.parametrize(
    "values",
    [
        np.zeros((2, 2, 2, 4), dtype=np.float32),
        np.zeros((0, 4), dtype=np.float32),
        np.zeros(4, dtype=np.float32),
        np.array([[object()]]),
        np.zeros((2, 2), dtype=np.int64),
    ],
)
def test_that_what_is_no_matrix_never_reaches_the_picture(values: np.ndarray) -> None:
    with pytest.raises(ValueError, match="expected a matrix"):
        colour_words(values, 1.0, palette(False))


@pytest.mark.parametrize("limit", [0.0, -1.0, float("nan"), float("inf")])
def test_that_an_impossible_limit_is_taken_as_one(limit: float) -> None:
    values = np.array([[-1.0, 0.0, 1.0]], dtype=np.float32)
    words = colour_words(values, limit, palette(False))
    assert np.array_equal(words, colour_words(values, 1.0, palette(False)))


def test_that_zero_is_the_middle_and_both_ends_are_the_ends_of_the_map() -> None:
    words = colour_words(np.array([[-2.0, 0.0, 2.0, np.nan]], dtype=np.float32), 2.0, palette(False))[0]
    colours = [QColor.fromRgb(int(word)) for word in words]
    table = lut("diverging")
    assert colours[0].getRgb()[:3] == tuple(table[0].tolist())
    assert colours[2].getRgb()[:3] == tuple(table[255].tolist())
    assert colours[1].getRgb()[:3] in (tuple(table[127].tolist()), tuple(table[128].tolist()))
    assert colours[3].name() == palette(False).no_data


def test_that_the_cell_under_the_cursor_is_found(qtbot: QtBot) -> None:
    shown = PositionMap("dimension", "position")
    qtbot.addWidget(shown)
    shown.resize(300, 200)
    shown.set_values(np.arange(12, dtype=np.float32).reshape(3, 4), 11.0)
    rect = shown.plot_rect()
    assert shown.cell_at(rect.topLeft() + QPointF(1, 1)) == (0, 0)
    assert shown.cell_at(rect.bottomRight() - QPointF(1, 1)) == (2, 3)
    assert shown.cell_at(QPointF(1, 1)) is None
    assert shown.value_at((2, 3)) == 11.0
    assert shown.value_at((3, 0)) is None
    shown.set_view(QRectF(0.5, 0.0, 0.5, 1.0))
    assert shown.cell_at(rect.topLeft() + QPointF(1, 1)) == (0, 2)


def test_that_a_drag_pans_and_a_double_click_fits(qtbot: QtBot) -> None:
    shown = PositionMap("dimension", "position")
    qtbot.addWidget(shown)
    shown.resize(300, 200)
    shown.set_values(np.zeros((8, 8), dtype=np.float32), 1.0)
    shown.set_view(QRectF(0.25, 0.25, 0.5, 0.5))
    start = shown.plot_rect().center().toPoint()
    qtbot.mousePress(shown, Qt.MouseButton.LeftButton, pos=start)
    qtbot.mouseMove(shown, start + QPoint(40, 0))
    qtbot.mouseRelease(shown, Qt.MouseButton.LeftButton, pos=start + QPoint(40, 0))
    assert shown._view.left() < 0.25
    qtbot.mouseDClick(shown, Qt.MouseButton.LeftButton, pos=start)
    assert shown._view == QRectF(0, 0, 1, 1)


def test_that_ticks_are_round_and_inside() -> None:
    assert [i for i, _ in ticks(100, 0.0, 1.0, 5)] == [0, 20, 40, 60, 80]
    assert [i for i, _ in ticks(1, 0.0, 1.0, 5)] == [0]
    inside = ticks(1000, 0.5, 0.6, 4)
    assert all(0.0 <= share <= 1.0 and i % 50 == 0 for i, share in inside)
    assert inside


def test_that_new_tables_take_the_last_read_out_away(qtbot: QtBot) -> None:
    column = PositionColumn(position_table("two"), "two", "#993366")
    qtbot.addWidget(column)
    names = {label.text() for label in column.findChildren(QLabel)}
    column.show_table(position_table("one"), "one", "#336699")
    fresh = {label.text() for label in column.findChildren(QLabel)}
    column.show_matrix_cursor(1, 2)
    column.show_cosine_cursor(1, 2)
    assert {label.text() for label in column.findChildren(QLabel)} != fresh != names
    column.show_table(position_table("one"), "one", "#336699")
    assert {label.text() for label in column.findChildren(QLabel)} == fresh


def test_that_each_column_has_its_formula_and_source_and_all_maps_begin_at_one_height(desk: Desk) -> None:
    request = desk.posted[-1]
    formulas = ("x_t = e_t", "s_ij = (R_i q)·(R_j k),   R_t turns pair n", "", "x_t = e_t + p_t")
    formulas += ("",) * (len(request.names) - len(formulas))
    tables = tuple(table(name, formula=one) for name, one in zip(request.names, formulas, strict=True))
    desk.state.handle(PositionsShown(number=request.number, tables=tables))
    columns = desk.columns()
    shown = [column.findChild(FormulaLabel) for column in columns]
    assert [label.text() for label in shown] == [one.replace(",   ", "\n") for one in formulas]
    assert "Su et al. 2021" in desk.texts()
    QApplication.processEvents()
    tops = {column.matrix.mapTo(desk.page, QPoint(0, 0)).y() for column in columns}
    assert len(tops) == 1
    needed = [label.heightForWidth(column.width()) for label, column in zip(shown, columns, strict=True)]
    assert all(label.height() >= px for label, px in zip(shown, needed, strict=True))
