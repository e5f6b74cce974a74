"""Lecture stops as a list over the right edge of the page: kept, named, moved, and gone to with a click."""

from collections.abc import Callable, Iterable, Mapping
from functools import partial

from PySide6.QtCore import QEvent, Qt, Signal
from PySide6.QtGui import QAction, QKeyEvent, QKeySequence
from PySide6.QtWidgets import (
    QAbstractItemView,
    QHBoxLayout,
    QListWidget,
    QListWidgetItem,
    QPushButton,
    QVBoxLayout,
    QWidget,
)

from attnscope.figures.colours import Palette
from attnscope.figures.plain import plain_text
from attnscope.figures.style import font, type_px
from attnscope.viewmodels.palette import Item
from attnscope.viewmodels.session.file import Stop
from attnscope.viewmodels.session.state import Session
from attnscope.viewmodels.session.stops import StopsState
from attnscope.viewmodels.view_state import ViewState
from attnscope.widgets.flow_row import FlowRow, together
from attnscope.widgets.icons import icon
from attnscope.widgets.labels import ElidedLabel, PlainLabel, listen, plain_tooltip, tool_button
from attnscope.widgets.offers import Offer
from attnscope.widgets.possible import allow
from attnscope.widgets.window.right_edge import RightEdge

_WIDTH_PX, _ARROW_PX = 336, 28
_EMPTY = (
    "Show what you want to speak about, then press Keep this view. A stop holds the page, the model, "
    "the text, the heads, what is switched off and how it is drawn."
)
_FULL = "A click or Enter goes to a stop. While presenting (F11), Page Down and Page Up step through them."
_TURNS = (
    (QKeySequence.StandardKey.Undo, StopsState.undo),
    (QKeySequence.StandardKey.Redo, StopsState.redo),
)


class StopsPanel(QWidget):
    """Shows a StopsState. F2 renames, Delete removes, Alt+↑ and Alt+↓ move, Ctrl+Z takes a change back."""

    def __init__(self, stops: StopsState, session: Session, palette: Palette, over: QWidget) -> None:
        super().__init__(over)
        self._stops, self._session = stops, session
        self._edge = RightEdge(self, over, _WIDTH_PX)
        self.setProperty("role", "panel")
        self.setProperty("edge", "left")
        self.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        self.list = _StopList()
        self.hint = PlainLabel("", "muted")
        self.hint.setWordWrap(True)
        self.keep_button = QPushButton("Keep this view")
        self.again_button = tool_button("Replace", "Let the stop hold what is shown now")
        self.rename_button = tool_button("Rename", "Give the stop another name")
        self.up_button = tool_button("↑", "Move the stop up")
        self.down_button = tool_button("↓", "Move the stop down")
        self.remove_button = tool_button("Remove", "Take the stop out of the list")
        self.undo_button = tool_button("", "Undo the last change of the list", role="flat")
        self.redo_button = tool_button("", "Redo the change of the list", role="flat")
        self.close_button = tool_button("", "Close the lecture stops", role="flat")
        self._lay_out()
        self._connect()
        self.set_theme(palette)
        listen(self, stops, self._on_stops)
        self._on_stops("stops")

    def set_theme(self, palette: Palette) -> None:
        """Paint in other colours."""
        self._edge.place()
        self.close_button.setIcon(icon("close", palette.muted, side_px=16))
        self.undo_button.setIcon(icon("undo", palette.text, side_px=16))
        self.redo_button.setIcon(icon("redo", palette.text, side_px=16))
        for button in (self.up_button, self.down_button):
            button.setFixedWidth(round(type_px(_ARROW_PX)))
        self._on_stops("at")

    def setVisible(self, is_visible: bool) -> None:
        super().setVisible(is_visible)
        if is_visible:
            self._edge.place()

    def keep(self) -> None:
        """Keep what is shown as a stop after the present one, or say why not."""
        if self._stops.add():
            self._session.tell_person(f"Kept as {self._stops.place}")
        elif self._session.model is None or not self._session.text.strip():
            self._session.tell_person("There is nothing to keep yet: open a model and type a sentence.")
        else:
            self._session.tell_person("A session has no room for more stops. Remove some first.")

    def event(self, event: QEvent) -> bool:
        """Here undo and redo are of the list."""
        keys = (QEvent.Type.ShortcutOverride, QEvent.Type.KeyPress)
        if isinstance(event, QKeyEvent) and event.type() in keys:
            for sequence, turn in _TURNS:
                if event.matches(sequence):
                    event.accept()
                    if event.type() == QEvent.Type.KeyPress:
                        turn(self._stops)
                    return True
        return super().event(event)

    # Building

    def _lay_out(self) -> None:
        heading = QHBoxLayout()
        heading.addWidget(PlainLabel("Lecture stops", "name"), 1)
        for button in (self.undo_button, self.redo_button, self.close_button):
            heading.addWidget(button)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(16, 8, 16, 16)
        layout.setSpacing(8)
        layout.addLayout(heading)
        layout.addWidget(self.hint)
        layout.addWidget(self.list, 1)
        buttons = FlowRow(self.again_button, self.rename_button, self.remove_button, spacing=4)
        buttons.add_stretch()
        buttons.addWidget(together(self.up_button, self.down_button))
        layout.addLayout(buttons)
        layout.addWidget(self.keep_button)

    def _connect(self) -> None:
        stops, chosen = self._stops, self.list.currentRow
        self.keep_button.setToolTip("A stop with what is shown now, after the present one (Ctrl+Shift+K)")
        self.again_button.setToolTip("The stop keeps its name and holds what is shown now")
        self.rename_button.setToolTip("Another name (F2)")
        self.up_button.setToolTip("Up (Alt+↑)")
        self.down_button.setToolTip("Down (Alt+↓)")
        self.remove_button.setToolTip("Take it out of the list (Delete)")
        self.undo_button.setToolTip("Undo the last change of the list (Ctrl+Z)")
        self.redo_button.setToolTip("Redo (Ctrl+Y)")
        self.close_button.setToolTip("Close")
        self.keep_button.clicked.connect(self.keep)
        self.again_button.clicked.connect(lambda: stops.keep_again(chosen()))
        self.rename_button.clicked.connect(self.list.rename)
        self.up_button.clicked.connect(lambda: self._move(-1))
        self.down_button.clicked.connect(lambda: self._move(1))
        self.remove_button.clicked.connect(lambda: self._remove(chosen()))
        self.undo_button.clicked.connect(stops.undo)
        self.redo_button.clicked.connect(stops.redo)
        self.list.go_wanted.connect(stops.go)
        self.list.named.connect(self._rename)
        self.list.move_wanted.connect(self._move)
        self.list.remove_wanted.connect(self._remove)
        self.list.currentRowChanged.connect(lambda _row: self._show_possible())

    # Showing

    def _on_stops(self, name: str) -> None:
        chosen = self.list.currentRow()
        if name == "stops":
            self.list.show_stops(self._stops.stops)
        at = self._stops.at
        self.list.mark(at, chosen=min(chosen, len(self._stops.stops) - 1) if at is None else at)
        self.hint.setText(_FULL if self._stops.stops else _EMPTY)
        self._show_possible()

    def _show_possible(self) -> None:
        k, n = self.list.currentRow(), len(self._stops.stops)
        for button in (self.again_button, self.rename_button, self.remove_button):
            button.setEnabled(0 <= k < n)
        self.up_button.setEnabled(k > 0)
        self.down_button.setEnabled(0 <= k < n - 1)
        self.undo_button.setEnabled(self._stops.can_undo)
        self.redo_button.setEnabled(self._stops.can_redo)

    def _move(self, by: int) -> None:
        k = self.list.currentRow()
        self._stops.move(k, by)
        self._choose(k + by)

    def _rename(self, k: int, name: str) -> None:
        self._stops.rename(k, name)
        self._choose(k)

    def _remove(self, k: int) -> None:
        self._stops.remove(k)
        self._choose(k)

    def _choose(self, k: int) -> None:
        """Have keys and buttons go on with a place of the list, whichever stop is shown."""
        self.list.setCurrentRow(min(max(k, 0), len(self._stops.stops) - 1))


class _StopList(QListWidget):
    """The names; a click goes to a stop, F2 renames it in its place."""

    go_wanted = Signal(int)
    named = Signal(int, str)
    move_wanted = Signal(int)
    remove_wanted = Signal(int)

    def __init__(self) -> None:
        super().__init__()
        self.setAccessibleName("Lecture stops, in their order")
        self.setWordWrap(True)
        self.setResizeMode(QListWidget.ResizeMode.Adjust)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setEditTriggers(QAbstractItemView.EditTrigger.NoEditTriggers)
        self.itemClicked.connect(self._on_chosen)
        self.itemActivated.connect(self._on_chosen)
        self.itemChanged.connect(self._on_changed)

    def show_stops(self, stops: tuple[Stop, ...]) -> None:
        """Show these names."""
        self.blockSignals(True)
        self.clear()
        for stop in stops:
            item = QListWidgetItem(plain_text(stop.name))
            item.setFlags(item.flags() | Qt.ItemFlag.ItemIsEditable)
            text = " ".join(stop.saved.setting.text.split())[:200]
            item.setToolTip(
                plain_tooltip(f"{stop.saved.look.page.capitalize()} · {stop.saved.model}\n{text}")
            )
            self.addItem(item)
        self.blockSignals(False)

    def mark(self, at: int | None, *, chosen: int) -> None:
        """Show which stop is on the screen, and let `chosen` be what the buttons work on."""
        self.blockSignals(True)
        for k in range(self.count()):
            item = self.item(k)
            item.setFont(font(13, is_bold=k == at))
            state = f"stop {k + 1} of {self.count()}" + (", shown now" if k == at else "")
            item.setData(Qt.ItemDataRole.AccessibleTextRole, f"{item.text()}, {state}")
        self.setCurrentRow(chosen)
        self.blockSignals(False)

    def rename(self) -> None:
        """Edit the name of the chosen stop."""
        item = self.currentItem()
        if item is not None:
            self.setFocus()
            self.editItem(item)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        steps = {Qt.Key.Key_Up: -1, Qt.Key.Key_Down: 1}
        key, is_alt = Qt.Key(event.key()), bool(event.modifiers() & Qt.KeyboardModifier.AltModifier)
        if is_alt and key in steps:
            self.move_wanted.emit(steps[key])
        elif key == Qt.Key.Key_F2:
            self.rename()
        elif key == Qt.Key.Key_Delete:
            self.remove_wanted.emit(self.currentRow())
        else:
            super().keyPressEvent(event)

    def _on_chosen(self, item: QListWidgetItem) -> None:
        self.go_wanted.emit(self.row(item))

    def _on_changed(self, item: QListWidgetItem) -> None:
        self.named.emit(self.row(item), item.text())


class StopLine(ElidedLabel):
    """While presenting: which stop is shown; with it Page Down and Page Up step through them.

    Over another page, lab or model, and during a tour, nothing is said of the stop that was left.
    """

    def __init__(
        self, stops: StopsState, session: Session, view: ViewState, actions: Mapping[str, QAction]
    ) -> None:
        super().__init__(role="muted")
        self._stops, self._view, self._is_touring = stops, view, False
        self._turns = {actions["next-stop"]: "PgDown", actions["previous-stop"]: "PgUp"}
        self._keys = {action: action.shortcuts() for action in self._turns}
        listen(self, stops, lambda _name: self.look_again())
        listen(self, session, self._on_session)
        listen(self, view, self._on_view)
        self.look_again()

    def set_touring(self, is_touring: bool) -> None:
        """A tour begins, or is over."""
        self._is_touring = is_touring
        self.look_again()

    def _on_session(self, name: str) -> None:
        if name == "model":
            self.look_again()

    def _on_view(self, name: str) -> None:
        if name == "folded":
            for action, key in self._turns.items():
                more = [QKeySequence(key)] if self._view.is_presenting else []
                action.setShortcuts([*self._keys[action], *more])
        if name in ("folded", "page"):
            self.look_again()

    def look_again(self) -> None:
        """Show what is so now: another lab may be looked at."""
        stops, n = self._stops, len(self._stops.stops)
        for action in self._turns:
            allow(action, "" if n else "No lecture stop is kept yet (Ctrl+Shift+K keeps one)")
        is_there = not self._is_touring and (stops.at is None or stops.is_shown)
        words = stops.place or (f"{n} lecture stops: Page Down begins" if n > 1 else "")
        self.setVisible(self._view.is_presenting and bool(words) and is_there)
        self.set_full_text(plain_text(words))


def stop_offers(stops: StopsState) -> Iterable[Offer]:
    """What the command palette offers: every stop by its name."""
    for k, stop in enumerate(stops.stops):
        go: Callable[[], None] = partial(stops.go, k)
        detail = stop.saved.look.page.capitalize()
        yield Offer(
            item=Item(key=f"stop:{k}", kind="page", title=f"Stop: {stop.name}", detail=detail), run=go
        )
