"""The sheet of shortcuts: every action with its keys, and what mouse and keys do in the views."""

import itertools
from collections.abc import Iterable

from PySide6.QtCore import Qt
from PySide6.QtGui import QAction, QKeySequence
from PySide6.QtWidgets import (
    QDialog,
    QDialogButtonBox,
    QGridLayout,
    QLineEdit,
    QScrollArea,
    QWidget,
)

from attnscope.figures.style import type_px
from attnscope.viewmodels.palette import match_letters
from attnscope.widgets.actions import ACTIONS, HANDS, MENUS
from attnscope.widgets.form_parts import column, row
from attnscope.widgets.labels import PlainLabel, named

Rows = list[tuple[str, str]]


class ShortcutsSheet(QDialog):
    """Made from the actions themselves; a few letters leave only what is meant."""

    def __init__(self, actions: Iterable[QAction], parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setWindowTitle("Shortcuts")
        self._groups = shortcut_groups(actions)
        self.filter = named(QLineEdit(placeholderText="Type to find a shortcut"), "Find a shortcut")
        self.filter.setClearButtonEnabled(True)
        self.filter.textEdited.connect(self.show_rows)
        self._scroll = QScrollArea(widgetResizable=True)
        self._scroll.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Close)
        buttons.rejected.connect(self.reject)
        column(self.filter, (self._scroll, 1), buttons, on=self, margins=(24, 24, 24, 16), spacing=16)
        self.rows: Rows = []
        room = parent.size() if parent is not None else self.sizeHint()
        width, height = round(type_px(1200)), round(type_px(760))
        self.resize(min(width, room.width() - 48), min(height, room.height() - 48))
        self.show_rows("")

    def show_rows(self, query: str) -> None:
        """Show the rows whose text or keys fit the query."""
        groups = [(name, [row for row in rows if _fits(row, query)]) for name, rows in self._groups]
        groups = [(name, rows) for name, rows in groups if rows]
        self.rows = [row for _, rows in groups for row in rows]
        room = self.width() - 48 - self._scroll.verticalScrollBar().sizeHint().width()
        tried = (_columns(groups, n) for n in (3, 2))
        inner = next((one for one in tried if one.minimumSizeHint().width() <= room), _columns(groups, 1))
        self._scroll.setWidget(inner)
        inner.setAutoFillBackground(False)  # setWidget turns it on


def shortcut_groups(actions: Iterable[QAction]) -> list[tuple[str, Rows]]:
    """Text and keys of every action that has keys, by menu; then what hands do in the views."""
    menus = {spec.name: spec.menu for spec in ACTIONS}
    found: dict[str, Rows] = {name: [] for name in (*MENUS, "Models")}
    for action in actions:
        keys = [k.toString(QKeySequence.SequenceFormat.NativeText) for k in action.shortcuts()]
        if not keys or not action.isVisible():
            continue
        name = action.objectName()
        text = name.capitalize() if name in ("undo", "redo") else action.text()
        menu = menus.get(action.objectName()) or ("Models" if action.data() else "Elsewhere")
        found.setdefault(menu, []).append((text.replace("&&", "&").rstrip("…"), " or ".join(keys[:2])))
    groups = [(name, list(dict.fromkeys(rows))) for name, rows in found.items() if rows]
    return [*groups, ("In the views", list(HANDS))]


def _fits(row: tuple[str, str], query: str) -> bool:
    words = query.lower().split()
    text = f"{row[0]} {row[1]}".lower()
    return all(word in text or match_letters(row[0].lower(), word) is not None for word in words)


def _in_columns(groups: list[tuple[str, Rows]], n_columns: int) -> list[list[tuple[str, Rows]]]:
    """The groups in columns, in their order, so that the longest column is as short as can be."""
    heights = [len(rows) + 2 for _, rows in groups]
    cuts = itertools.combinations_with_replacement(range(len(groups) + 1), n_columns - 1)
    best = min(
        ((0, *cut, len(groups)) for cut in cuts),
        key=lambda ends: max(sum(heights[a:b]) for a, b in itertools.pairwise(ends)),
    )
    return [groups[a:b] for a, b in itertools.pairwise(best) if a < b]


def _columns(groups: list[tuple[str, Rows]], n_columns: int) -> QWidget:
    inner = QWidget()
    columns = row(on=inner, margins=(0, 0, 8, 0), spacing=32)
    for part in _in_columns(groups, n_columns):
        columns.addLayout(_column(part), 1)
    return inner


def _column(groups: list[tuple[str, Rows]]) -> QGridLayout:
    grid = QGridLayout()
    grid.setHorizontalSpacing(16)
    grid.setVerticalSpacing(4)
    line = 0
    for name, rows in groups:
        heading = PlainLabel(name, "section")
        heading.setContentsMargins(0, 12 if line else 0, 0, 0)
        grid.addWidget(heading, line, 0)
        line += 1
        for text, keys in rows:
            label = PlainLabel(text)
            grid.addWidget(label, line, 0)
            grid.addWidget(PlainLabel(keys, "muted"), line, 1)
            line += 1
    grid.setColumnStretch(0, 1)
    grid.setRowStretch(line, 1)
    return grid
