"""Panels at the right edge of the pages, which make room for them: the history, and kept views."""

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Protocol, runtime_checkable

from PySide6.QtCore import QEvent, QObject, Qt, Signal
from PySide6.QtGui import QAction, QColor, QKeyEvent, QKeySequence
from PySide6.QtWidgets import (
    QAbstractItemView,
    QListWidget,
    QListWidgetItem,
    QPlainTextEdit,
    QPushButton,
    QStackedWidget,
    QToolButton,
    QWidget,
)

from attnscope.figures.style import font, plain_text, type_px
from attnscope.viewmodels.palette import Item
from attnscope.viewmodels.session.file import KeptView, KeptViews
from attnscope.viewmodels.session.state import Session
from attnscope.viewmodels.view_state import ViewState
from attnscope.widgets.actions import allow
from attnscope.widgets.command_palette import Offer
from attnscope.widgets.form_parts import FlowRow, column, one_of, row, together
from attnscope.widgets.labels import ElidedLabel, PlainLabel, ground, named, plain_tooltip, tool_button, when
from attnscope.widgets.theme import Dressed, icon

_LEAST_PX = 264
"""How narrow a panel becomes before it lies over a page that needs its width."""
_MOST_PX = 1_000_000


@runtime_checkable
class GivesWay(Protocol):
    """A page with parts that can be hidden beside such a panel."""

    def give_way(self, room_px: int) -> None:
        """Hide them if they do not fit into this width, or show them again."""


class RightEdge(QObject):
    """Keeps `panel` at the right edge of `over`, `width_px` wide at the size of type.

    The page in front becomes as much narrower as it can; nothing of it lies below the panel then.
    """

    def __init__(self, panel: QWidget, over: QWidget, width_px: int) -> None:
        super().__init__(panel)
        self._panel, self._over, self._width_px = panel, over, width_px
        over.installEventFilter(self)
        panel.installEventFilter(self)
        if isinstance(over, QStackedWidget):
            over.currentChanged.connect(self.place)  # which raises the page above its siblings

    def place(self) -> None:
        """Take its place again, on top; no effect while the panel is hidden."""
        if self._panel.isHidden():
            return
        over, wanted = self._over, round(type_px(self._width_px))
        self._tell_room(over.width() - wanted)
        shown = (over.currentWidget() if isinstance(over, QStackedWidget) else None) or over
        free = max(0, over.width() - shown.minimumSizeHint().width())
        least = max(self._panel.minimumSizeHint().width(), round(type_px(_LEAST_PX)))
        width = min(wanted, max(free, least), over.width())
        self._panel.setGeometry(over.width() - width, 0, width, over.height())
        self._panel.raise_()
        over.setContentsMargins(0, 0, min(width, free), 0)

    def _take_over(self) -> None:
        """Allow one panel at a time: two would push each other's margin back and forth forever."""
        for other in self._over.findChildren(RightEdge):
            if other is not self and other._over is self._over:
                other._panel.hide()

    def _tell_room(self, room_px: int) -> None:
        for page in self._over.children():
            if isinstance(page, GivesWay):
                page.give_way(room_px)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Stay at the right edge when the page changes its size."""
        if watched is self._over and event.type() in (QEvent.Type.Resize, QEvent.Type.LayoutRequest):
            self.place()
        elif watched is self._panel and event.type() == QEvent.Type.Show:
            self._take_over()
            self.place()
        elif watched is self._panel and event.type() == QEvent.Type.Hide:
            self._tell_room(_MOST_PX)
            self._over.setContentsMargins(0, 0, 0, 0)
        return super().eventFilter(watched, event)


class _Drawer(Dressed):
    """A panel at the right edge that Esc closes while it has the focus."""

    close_button: QToolButton

    def event(self, event: QEvent) -> bool:
        """Esc belongs to the panel before the window."""
        if isinstance(event, QKeyEvent) and event.type() in _KEYS and event.key() == Qt.Key.Key_Escape:
            event.accept()
            if event.type() == QEvent.Type.KeyPress:
                self.close_button.click()
            return True
        return super().event(event)


_KEYS = (QEvent.Type.ShortcutOverride, QEvent.Type.KeyPress)
_HISTORY_PX = 280


class HistoryPanel(_Drawer):
    """The session's history, newest below; undone steps stay, faintly, until something new is done."""

    def __init__(self, session: Session, over: QWidget) -> None:
        super().__init__(over)
        self._session = session
        self._edge = RightEdge(self, over, _HISTORY_PX)
        ground(self, "panel", edge="left")
        self.steps = named(QListWidget(), "Steps you can go back to")
        self.steps.setWordWrap(True)
        self.steps.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.close_button = tool_button("", "Close the history", role="flat", tip="Close (Esc, Ctrl+H)")
        self.python_button = QPushButton("Copy as Python")
        self.command_button = QPushButton("Copy as command line")
        self.hint = PlainLabel("Click a step to go back to it.", "muted")
        self._lay_out()
        self.steps.itemClicked.connect(self._on_chosen)
        self.steps.itemActivated.connect(self._on_chosen)
        self.dress()
        when(self, self.show_steps, session.changed.history)

    def dress(self) -> None:
        self._edge.place()
        self.close_button.setIcon(icon("close", self.theme.muted, side_px=16))
        self.show_steps()

    def show_steps(self) -> None:
        """Show the session's steps, the current one marked."""
        if self.isHidden():
            return
        history = self._session.history
        texts = ("start", *history.labels)
        for k, text in enumerate(texts):
            item = self.steps.item(k)
            if item is None:
                item = QListWidgetItem()
                self.steps.addItem(item)
            shown = plain_text(text)
            is_now, is_undone = k == history.n_done, k > history.n_done
            item.setText(shown)
            item.setToolTip(plain_tooltip(shown))
            item.setFont(font(13, is_bold=is_now, is_italic=is_undone))
            item.setForeground(QColor(self.theme.muted if is_undone else self.theme.text))
            state = "present step" if is_now else "undone" if is_undone else "done"
            item.setData(Qt.ItemDataRole.AccessibleTextRole, f"{shown}, {state}")
        while self.steps.count() > len(texts):
            self.steps.takeItem(self.steps.count() - 1)
        self.steps.setCurrentRow(history.n_done)

    def setVisible(self, is_visible: bool) -> None:
        super().setVisible(is_visible)
        if is_visible:
            self._edge.place()
            self.show_steps()

    def _lay_out(self) -> None:
        column(
            row((PlainLabel("History", "name"), 1), self.close_button, spacing=-1),
            self.hint,
            (self.steps, 1),
            self.python_button,
            self.command_button,
            on=self,
            margins=(16, 8, 16, 16),
        )

    def _on_chosen(self, item: QListWidgetItem) -> None:
        self._session.go_to(self.steps.row(item))


_KEPT_PX, _ARROW_PX = 336, 28
_EMPTY = (
    "Set up what you want to talk about, then press Keep this view. A view stores the page, the model, "
    "the text, the heads, what is switched off and how it is drawn."
)
_FULL = (
    "Click a view, or press Enter, to go to it. While presenting (F11), Page Down and Page Up step "
    "through them."
)
_NO_NOTES = "What you see, what to try next, what to say. Plain text, saved with the session."
_NO_NOTE = "What to say about this view, and what to try. It is printed below the view in a handout."
_TURNS = (
    (QKeySequence.StandardKey.Undo, KeptViews.undo),
    (QKeySequence.StandardKey.Redo, KeptViews.redo),
)


class KeptPanel(_Drawer):
    """Shows KeptViews. F2 renames, Delete removes, Alt+↑ and Alt+↓ move, Ctrl+Z undoes a change."""

    def __init__(self, kept: KeptViews, session: Session, over: QWidget) -> None:
        super().__init__(over)
        self._kept, self._session = kept, session
        self._noted = -1
        """The view whose notes are shown."""
        self._edge = RightEdge(self, over, _KEPT_PX)
        ground(self, "panel", edge="left")
        self.list = _ViewList()
        self.hint = PlainLabel("", "muted", wraps=True)
        self.keep_button = QPushButton("Keep this view")
        self.handout_button = tool_button("Handout…", "Save all views as a handout")
        self.again_button = tool_button("Replace", "Update the view to what is shown now")
        self.rename_button = tool_button("Rename", "Rename the view", tip="Rename (F2)")
        self.up_button = tool_button("↑", "Move the view up", tip="Up (Alt+↑)")
        self.down_button = tool_button("↓", "Move the view down", tip="Down (Alt+↓)")
        self.remove_button = tool_button("Remove", "Remove the view from the list")
        self.undo_button = tool_button("", "Undo the last change of the list", role="flat")
        self.redo_button = tool_button("", "Redo the change of the list", role="flat", tip="Redo (Ctrl+Y)")
        self.notes = QPlainTextEdit(tabChangesFocus=True)
        self.of_view, self.of_session = (
            tool_button(f"On {what}", f"Notes on {what}", role="segment", is_checkable=True)
            for what in ("this view", "the session")
        )
        one_of(self, (self.of_view, self.of_session))
        self.of_session.setChecked(True)
        self.close_button = tool_button("", "Close the kept views", role="flat", tip="Close (Esc)")
        self._lay_out()
        self._connect()
        self.dress()
        changed = kept.changed
        when(self, self._show_views, changed.views)
        when(self, self._show_notes, changed.notes)
        when(self, self._show_place, changed.at, changed.notes, changed.going)
        self._show_views()
        self._show_notes()

    def dress(self) -> None:
        self._edge.place()
        self.close_button.setIcon(icon("close", self.theme.muted, side_px=16))
        self.undo_button.setIcon(icon("undo", self.theme.text, side_px=16))
        self.redo_button.setIcon(icon("redo", self.theme.text, side_px=16))
        for button in (self.up_button, self.down_button):
            button.setFixedWidth(round(type_px(_ARROW_PX)))
        self._show_place()

    def setVisible(self, is_visible: bool) -> None:
        super().setVisible(is_visible)
        if is_visible:
            self._edge.place()

    def keep(self) -> None:
        """Keep the current display as a view after the current one, or say why not."""
        if self._kept.add():
            self._session.notices.say(f"Kept as {self._kept.place}")
        elif self._session.model is None or not self._session.text.strip():
            self._session.notices.say("There is nothing to keep yet: open a model and type a sentence.")
        else:
            self._session.notices.say("A session has no room for more views. Remove some first.")

    def event(self, event: QEvent) -> bool:
        """Here undo and redo apply to the list."""
        if isinstance(event, QKeyEvent) and event.type() in _KEYS:
            for sequence, turn in _TURNS:
                if event.matches(sequence):
                    event.accept()
                    if event.type() == QEvent.Type.KeyPress:
                        turn(self._kept)
                    return True
        return super().event(event)

    # Building

    def _lay_out(self) -> None:
        layout = column(
            row(
                (PlainLabel("Kept views", "name"), 1),
                self.undo_button,
                self.redo_button,
                self.close_button,
                spacing=-1,
            ),
            self.hint,
            (self.list, 2),
            on=self,
            margins=(16, 8, 16, 16),
        )
        buttons = FlowRow(self.again_button, self.rename_button, self.remove_button, spacing=4)
        buttons.add_stretch()
        buttons.addWidget(together(self.up_button, self.down_button))
        layout.addLayout(buttons)
        layout.addLayout(row((self.keep_button, 1), self.handout_button, spacing=4))
        about = together(self.of_view, self.of_session, spacing=0)
        layout.addLayout(row((PlainLabel("Notes", "name"), 1), about))
        layout.addWidget(self.notes, 1)

    def _connect(self) -> None:
        kept, chosen = self._kept, self.list.currentRow
        self.keep_button.setToolTip("Add a view of what is shown now, after the current one (Ctrl+Shift+K)")
        self.handout_button.setToolTip("A PDF of all views, one on each page, with the notes on it")
        self.again_button.setToolTip("Update the view to what is shown now; it keeps its name")
        self.remove_button.setToolTip("Remove from the list (Delete)")
        self.undo_button.setToolTip("Undo the last change of the list (Ctrl+Z)")
        self.keep_button.clicked.connect(self.keep)
        self.again_button.clicked.connect(lambda: kept.keep_again(chosen()))
        self.rename_button.clicked.connect(self.list.rename)
        self.up_button.clicked.connect(lambda: self._move(-1))
        self.down_button.clicked.connect(lambda: self._move(1))
        self.remove_button.clicked.connect(lambda: self._remove(chosen()))
        self.undo_button.clicked.connect(kept.undo)
        self.redo_button.clicked.connect(kept.redo)
        self.list.go_wanted.connect(kept.go)
        self.list.named.connect(self._rename)
        self.list.move_wanted.connect(self._move)
        self.list.remove_wanted.connect(self._remove)
        self.notes.textChanged.connect(self._on_text_changed)
        for button in (self.of_view, self.of_session):
            button.clicked.connect(self._show_notes)
        self.list.currentRowChanged.connect(lambda _row: self._show_possible())

    # Showing

    def _show_views(self) -> None:
        chosen = self.list.currentRow()
        self.list.show_views(self._kept.views)
        self._mark(chosen)

    def _show_notes(self) -> None:
        is_of_view = self.of_view.isChecked()
        text = self._kept.note if is_of_view else self._kept.notes
        self.notes.setPlaceholderText(_NO_NOTE if is_of_view else _NO_NOTES)
        named(self.notes, "Notes on this view" if is_of_view else "Notes of this session")
        if self.notes.toPlainText() != text:
            self.notes.setPlainText(text)

    def _show_place(self) -> None:
        at = self._kept.at
        shown = -1 if at is None else at
        if shown != self._noted:  # whoever goes to a view is shown the notes on it
            self._noted = shown
            self.of_view.setEnabled(at is not None)
            (self.of_session if at is None else self.of_view).setChecked(True)
            self._show_notes()
        self._mark(self.list.currentRow())

    def _mark(self, chosen: int) -> None:
        at = self._kept.at
        self.list.mark(at, chosen=min(chosen, len(self._kept.views) - 1) if at is None else at)
        self.hint.setText(_FULL if self._kept.views else _EMPTY)
        self._show_possible()

    def _on_text_changed(self) -> None:
        write = self._kept.write_note if self.of_view.isChecked() else self._kept.write_notes
        write(self.notes.toPlainText())

    def _show_possible(self) -> None:
        k, n = self.list.currentRow(), len(self._kept.views)
        for button in (self.again_button, self.rename_button, self.remove_button):
            button.setEnabled(0 <= k < n)
        self.handout_button.setEnabled(n > 0)
        self.up_button.setEnabled(k > 0)
        self.down_button.setEnabled(0 <= k < n - 1)
        self.undo_button.setEnabled(self._kept.can_undo)
        self.redo_button.setEnabled(self._kept.can_redo)

    def _move(self, by: int) -> None:
        k = self.list.currentRow()
        self._kept.move(k, by)
        self._choose(k + by)

    def _rename(self, k: int, name: str) -> None:
        self._kept.rename(k, name)
        self._choose(k)

    def _remove(self, k: int) -> None:
        self._kept.remove(k)
        self._choose(k)

    def _choose(self, k: int) -> None:
        """Make keys and buttons act on an entry of the list, whichever view is shown."""
        self.list.setCurrentRow(min(max(k, 0), len(self._kept.views) - 1))


class _ViewList(QListWidget):
    """The names; a click shows a view, F2 renames it in place."""

    go_wanted = Signal(int)
    named = Signal(int, str)
    move_wanted = Signal(int)
    remove_wanted = Signal(int)

    def __init__(self) -> None:
        super().__init__()
        self.setAccessibleName("Kept views, in their order")
        self.setWordWrap(True)
        self.setResizeMode(QListWidget.ResizeMode.Adjust)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setEditTriggers(QAbstractItemView.EditTrigger.NoEditTriggers)
        self.itemClicked.connect(self._on_chosen)
        self.itemActivated.connect(self._on_chosen)
        self.itemChanged.connect(self._on_changed)

    def show_views(self, views: tuple[KeptView, ...]) -> None:
        """Show these names."""
        self.blockSignals(True)
        self.clear()
        for view in views:
            item = QListWidgetItem(plain_text(view.name))
            item.setFlags(item.flags() | Qt.ItemFlag.ItemIsEditable)
            text = " ".join(view.saved.setting.text.split())[:200]
            item.setToolTip(
                plain_tooltip(f"{view.saved.look.page.capitalize()} · {view.saved.model}\n{text}")
            )
            self.addItem(item)
        self.blockSignals(False)

    def mark(self, at: int | None, *, chosen: int) -> None:
        """Mark the view on the screen, and make `chosen` the one for the buttons."""
        self.blockSignals(True)
        for k in range(self.count()):
            item = self.item(k)
            item.setFont(font(13, is_bold=k == at))
            state = f"view {k + 1} of {self.count()}" + (", shown now" if k == at else "")
            item.setData(Qt.ItemDataRole.AccessibleTextRole, f"{item.text()}, {state}")
        self.setCurrentRow(chosen)
        self.blockSignals(False)

    def rename(self) -> None:
        """Edit the name of the chosen view."""
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


class KeptLine(ElidedLabel):
    """While presenting: the current view; with it Page Down and Page Up step through them.

    Over another page, lab or model, and during a tour, nothing is said of the view that was left.
    """

    def __init__(
        self, kept: KeptViews, session: Session, view: ViewState, actions: Mapping[str, QAction]
    ) -> None:
        super().__init__(role="muted")
        self._kept, self._view, self._is_touring = kept, view, False
        self._turns = {actions["next-view"]: "PgDown", actions["previous-view"]: "PgUp"}
        self._needing = (*self._turns, actions["handout"])
        self._keys = {action: action.shortcuts() for action in self._turns}
        folded, page = view.changed.folded, view.changed.page
        when(self, self._set_keys, folded)
        when(self, self.look_again, kept.changed.all, session.changed.model, folded, page)
        self.look_again()

    def set_touring(self, is_touring: bool) -> None:
        """Note that a tour begins, or is over."""
        self._is_touring = is_touring
        self.look_again()

    def _set_keys(self) -> None:
        for action, key in self._turns.items():
            more = [QKeySequence(key)] if self._view.is_presenting else []
            action.setShortcuts([*self._keys[action], *more])

    def look_again(self) -> None:
        """Update: another lab may be shown."""
        kept, n = self._kept, len(self._kept.views)
        for action in self._needing:
            allow(action, "" if n else "There are no kept views yet (Ctrl+Shift+K adds one)")
        is_there = not self._is_touring and (kept.at is None or kept.is_shown)
        words = kept.place or (f"{n} kept views: Page Down begins" if n > 1 else "")
        self.setVisible(self._view.is_presenting and bool(words) and is_there)
        self.set_full_text(plain_text(words))


def view_offers(kept: KeptViews) -> Iterable[Offer]:
    """Palette entries for all views, by name."""
    for k, view in enumerate(kept.views):
        go: Callable[[], None] = partial(kept.go, k)
        detail = view.saved.look.page.capitalize()
        yield Offer(
            item=Item(key=f"view:{k}", kind="page", title=f"View: {view.name}", detail=detail), run=go
        )
