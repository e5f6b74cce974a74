"""Every row of every list, table, box of choices and menu can be read, whatever the pointer does to it."""

from collections.abc import Callable, Iterator

import numpy as np
import pytest
from PySide6.QtGui import QStandardItem, QStandardItemModel
from PySide6.QtWidgets import (
    QAbstractItemView,
    QApplication,
    QComboBox,
    QHeaderView,
    QListWidget,
    QMenu,
    QStackedWidget,
    QTableWidget,
    QTableWidgetItem,
    QWidget,
)
from pytestqt.qtbot import QtBot
from row_contrast import contrasts, luminance, menu_contrasts, shown_cells
from walk import PAGES, dialogs

from attnscope.app import Program
from attnscope.widgets import PlainLabel, apply_theme, palette_for
from attnscope.widgets.labs import TokenizersView
from attnscope.widgets.training import CostDialog, SweepDialog
from attnscope.widgets.window import RightEdge

pytestmark = [pytest.mark.qt, pytest.mark.slow]

LEAST = 4.5
THEMES = ("light", "dark", "projector")
_WORDS = "Words"


@pytest.mark.parametrize(
    ("one", "other", "contrast"), [("#000000", "#ffffff", 21.0), ("#777777", "#ffffff", 4.478)]
)
def test_that_contrast_is_that_of_the_guidelines(one: str, other: str, contrast: float) -> None:
    light = luminance(np.array([[int(c[k : k + 2], 16) for k in (1, 3, 5)] for c in (one, other)], np.uint32))
    assert (light.max() + 0.05) / (light.min() + 0.05) == pytest.approx(contrast, abs=1e-3)


def test_that_a_row_that_cannot_be_read_is_found(qtbot: QtBot) -> None:
    view = QListWidget()
    qtbot.addWidget(view)
    view.addItem(_WORDS)
    apply_theme(view, palette_for("light"))
    view.setStyleSheet(view.styleSheet() + "QListView::item:selected:hover { background: #e4e7eb; }")
    view.show()
    found = {state: contrast for state, _, contrast in contrasts(view)}
    assert found["hovered and selected"] < 1.5
    assert min(found["plain"], found["selected"], found["hovered"]) >= LEAST


@pytest.mark.long
def test_that_every_row_can_be_read_in_every_state(start: Callable[..., Program], qtbot: QtBot) -> None:
    program = start("grammar")
    window = program.window
    program.heads.run()
    qtbot.waitUntil(lambda: program.heads.phase != "running", timeout=60_000)
    for page in PAGES:
        window.actions_by_name[f"page-{page}"].trigger()
    for entry in window.pages.labs.entries:
        window.pages.labs.show_lab(entry.name)
    # Rows that come one by one move what is being measured.
    labs = [view.state for view in window.findChildren(TokenizersView)]
    qtbot.waitUntil(lambda: not any(state and state.is_working for state in labs), timeout=120_000)
    found: list[str] = []
    for theme in THEMES:
        window.view.set_theme(theme)
        found += [f"{theme}: {line}" for line in unreadable(window)]
        # Of an answer the export dialog offers no colours and turns; of the maps, every choice.
        window.pages.explore.answers.show_panel("Output")
        for name, dialog in every_dialog(program):
            found += [f"{theme}, {name}: {line}" for line in unreadable(dialog)]
    other = PlainLabel("Another program")
    qtbot.addWidget(other)
    other.show()
    other.activateWindow()  # Qt paints rows of a window without the focus in colours of their own
    qtbot.waitUntil(lambda: not window.isActiveWindow())
    found += [f"inactive: {line}" for line in unreadable(window)]
    other.close()
    assert not found, "\n".join(found)


def every_dialog(program: Program) -> Iterator[tuple[str, QWidget]]:
    yield from dialogs(program)
    for make in (lambda: CostDialog(program.training), lambda: SweepDialog(program.states.sweep)):
        dialog = make()
        apply_theme(dialog, palette_for(program.window.view.theme))
        dialog.show()
        yield type(dialog).__name__, dialog
        dialog.close()
        dialog.deleteLater()


def unreadable(window: QWidget) -> Iterator[str]:
    """A line for each row of `window` with less contrast than there must be."""
    views = [view for view in window.findChildren(QAbstractItemView) if not isinstance(view, QHeaderView)]
    for view in views:
        if view.window() is window:
            reveal(view)
            fill(view)
            yield from lines(view, contrasts(view))
    for combo in window.findChildren(QComboBox):
        reveal(combo)
        if not combo.count():
            combo.addItem(_WORDS)
        combo.setEnabled(True)  # the rows of one that is greyed are never seen
        combo.showPopup()
        yield from lines(combo, contrasts(combo.view()))
        combo.hidePopup()
    for menu in window.findChildren(QMenu):
        yield from lines(menu, menu_contrasts(menu), is_empty_fine=True)


def lines(
    of: QWidget, found: Iterator[tuple[str, str, float]], *, is_empty_fine: bool = False
) -> Iterator[str]:
    name = f"{type(of).__name__} {of.accessibleName() or of.objectName()!r}"
    measured = list(found)
    if not measured and not is_empty_fine:
        yield f"{name}: nothing measured"
    for state, text, contrast in measured:
        if contrast < LEAST:
            yield f"{name}: {text[:30]!r} {state} has {contrast:.2f}"


def reveal(part: QWidget) -> None:
    """Bring a widget into sight, with every panel and page around it."""
    for edge in part.window().findChildren(RightEdge):
        edge.parent().hide()  # panels lie over the page, and there is room for one of them
    while (above := part.parentWidget()) is not None and not part.isWindow():
        if isinstance(above, QStackedWidget):
            above.setCurrentWidget(part)
        part.show()
        part = above
    QApplication.processEvents()


def fill(view: QAbstractItemView) -> None:
    """Give a list that holds nothing a row."""
    if view.viewport().width() < 60 or view.viewport().height() < 40:
        view.setMinimumSize(200, 100)
        QApplication.processEvents()
    if next(shown_cells(view), None) is not None:
        return
    if isinstance(view, QListWidget):
        view.addItem(_WORDS)
    elif isinstance(view, QTableWidget):
        view.setRowCount(1)
        view.setItem(0, 0, QTableWidgetItem(_WORDS))
    else:
        model = QStandardItemModel(0, 2, view)
        model.appendRow([QStandardItem(_WORDS), QStandardItem("0.5")])
        view.setModel(model)
    QApplication.processEvents()
