"""The dialog of the shelf: open a model, or download one after showing source, size and licence.

It is not modal: a download goes on when it is closed, and the model that is open stays open.
"""

from PySide6.QtCore import QModelIndex, QSize, Qt, Signal, Slot
from PySide6.QtGui import QFont, QKeyEvent
from PySide6.QtWidgets import (
    QDialog,
    QDialogButtonBox,
    QHeaderView,
    QLineEdit,
    QProgressBar,
    QPushButton,
    QTableView,
    QWidget,
)

from attnscope.counting import plural
from attnscope.figures.style import plain_text, type_px
from attnscope.records.models import ShelfRow, size_words
from attnscope.viewmodels.shelf import ShelfState, facts_words, licence_words, place_words
from attnscope.widgets.form_parts import Column, Index, TableModel, column, dress_table, row
from attnscope.widgets.labels import ElidedLabel, PlainLabel, named, plain_tooltip, rule, when

# The table of the shelf: a model in each row, and what to look for in it.

COLUMNS = ("Model", "What to look for", "Size", "Licence", "State")
_WORDS, _SIZE = 1, 2
_WIDTHS_PX = {0: 184, 2: 112, 3: 96, 4: 138}
_ROW_PX = 28


class ShelfModel(TableModel):
    """The rows of a ShelfState for Qt."""

    def __init__(self, state: ShelfState, parent: QWidget) -> None:
        super().__init__(parent)
        self._state = state
        self.rows: tuple[ShelfRow, ...] = ()
        self.heads = tuple(Column(title, is_left=k != _SIZE) for k, title in enumerate(COLUMNS))

    def reload(self) -> None:
        """Read the state again."""
        if self._state.rows != self.rows:
            self.beginResetModel()
            self.rows = self._state.rows
            self.endResetModel()

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> object:
        row, column = self.rows[index.row()], index.column()
        match role:
            case Qt.ItemDataRole.DisplayRole | Qt.ItemDataRole.AccessibleTextRole:
                return _cell(row, column)
            case Qt.ItemDataRole.TextAlignmentRole:
                return self.heads[column].side
            case Qt.ItemDataRole.ToolTipRole:
                return plain_tooltip(row.entry.name if column == 0 else _cell(row, column))
            case Qt.ItemDataRole.FontRole if column == 0 and row.is_here:
                font = QFont()
                font.setBold(True)
                return font
            case _:
                return None


class ShelfTable(QTableView):
    """Shows a ShelfState; `opened` when a row is double-clicked."""

    opened = Signal()

    def __init__(self, state: ShelfState) -> None:
        super().__init__()
        self._state = state
        self._rows = ShelfModel(state, self)
        dress_table(self, "Models")
        self.setModel(self._rows)
        self.setTabKeyNavigation(False)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        header = self.horizontalHeader()
        header.setSectionsClickable(False)
        header.setMinimumSectionSize(round(type_px(60)))
        for k in range(len(COLUMNS)):
            is_words = k == _WORDS
            mode = QHeaderView.ResizeMode.Stretch if is_words else QHeaderView.ResizeMode.Interactive
            header.setSectionResizeMode(k, mode)
        for k, width_px in _WIDTHS_PX.items():
            self.setColumnWidth(k, round(type_px(width_px)))
        self.verticalHeader().setDefaultSectionSize(round(type_px(_ROW_PX)))
        self.selectionModel().currentRowChanged.connect(self._on_current)
        self.doubleClicked.connect(lambda _index: self.opened.emit())

    def show_rows(self) -> None:
        self._rows.reload()
        self.show_chosen()

    def show_chosen(self) -> None:
        """Mark the chosen row."""
        names = [row.entry.name for row in self._rows.rows]
        if self._state.chosen not in names:
            self.clearSelection()
            return
        at = names.index(self._state.chosen)
        if self.currentIndex().row() != at:
            self.setCurrentIndex(self._rows.index(at, 0))

    def _on_current(self, current: QModelIndex, _previous: QModelIndex) -> None:
        if current.isValid() and current.row() < len(self._rows.rows):
            self._state.choose(self._rows.rows[current.row()].entry.name)


def _cell(row: ShelfRow, column: int) -> str:
    entry = row.entry
    cells = (entry.title, entry.look_for, size_words(row), entry.licence, place_words(row))
    return plain_text(cells[column])


_WIDTH_PX, _HEIGHT_PX, _WORDS_PX = 960, 640, 36
_MARGIN = QSize(48, 48)
"""Of the window that stays to be seen around it."""


class ShelfDialog(QDialog):
    """Shows a ShelfState; `open_wanted` carries the source that opens the chosen model."""

    open_wanted = Signal(str)

    def __init__(self, state: ShelfState, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._state = state
        self.setWindowTitle("Get a model")
        self.setModal(False)
        self.filter = named(QLineEdit(state.wanted, clearButtonEnabled=True), "Find a model")
        self.filter.setPlaceholderText("Find a model, or type any owner/name of the Hub")
        self.table = ShelfTable(state)
        self.title, self.facts = ElidedLabel(role="name"), ElidedLabel(role="muted")
        self.files = ElidedLabel(role="hint")
        self.words, self.told = PlainLabel(), PlainLabel()
        self.bar = named(QProgressBar(textVisible=False), "Progress of the download")
        self.progress = ElidedLabel(role="value")
        self.pause_button, self.cancel_button = QPushButton("Pause"), QPushButton("Cancel")
        self.main_button = QPushButton()
        self.buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Close)
        self._build()
        self._connect()
        when(self, self._show_rows, state.changed.rows)
        when(self, self.table.show_chosen, state.changed.chosen)
        when(self, self._show_chosen, state.changed.rows, state.changed.chosen)
        when(self, self._show_progress, state.changed.progress)
        self.table.show_rows()
        self._show_chosen()
        self._show_progress()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if self.filter.hasFocus() and event.key() in (Qt.Key.Key_Down, Qt.Key.Key_PageDown):
            self.table.setFocus(Qt.FocusReason.ShortcutFocusReason)
            return
        super().keyPressEvent(event)

    def _build(self) -> None:
        for label in (self.words, self.told):
            label.setWordWrap(True)
            label.setAlignment(Qt.AlignmentFlag.AlignTop | Qt.AlignmentFlag.AlignLeft)
        self.words.setMinimumHeight(round(type_px(36)))
        self.told.setMinimumHeight(round(type_px(_WORDS_PX)))
        self.told.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self.bar.setRange(0, 1000)
        for button in (self.pause_button, self.cancel_button):
            button.setAutoDefault(False)
        self.download_row = QWidget()
        under_way = column(on=self.download_row, spacing=4)
        line = row((self.progress, 1), self.pause_button, self.cancel_button)
        under_way.addWidget(self.bar)
        under_way.addLayout(line)
        self.buttons.addButton(self.main_button, QDialogButtonBox.ButtonRole.ActionRole)
        self.download_row.setFixedHeight(self.download_row.sizeHint().height())  # nothing moves when it comes
        column(
            self.filter,
            (self.table, 1),
            self.title,
            self.facts,
            self.words,
            self.told,
            self.files,
            rule(),
            self.download_row,
            self.buttons,
            on=self,
            margins=(24, 24, 24, 16),
        )
        wished = QSize(round(type_px(_WIDTH_PX)), round(type_px(_HEIGHT_PX)))
        window = self.parentWidget()
        self.resize(wished if window is None else wished.boundedTo(window.size() - _MARGIN))
        self.main_button.setDefault(True)  # not before it is in the dialog, or Enter would press the other

    def _connect(self) -> None:
        self.filter.textEdited.connect(self._state.look_for)
        self.filter.textChanged.connect(self._on_cleared)
        self.table.opened.connect(self._on_main)
        self.main_button.clicked.connect(self._on_main)
        self.pause_button.clicked.connect(self._state.pause)
        self.cancel_button.clicked.connect(self._state.cancel)
        self.buttons.rejected.connect(self.reject)

    def _show_rows(self) -> None:
        if self.filter.text() != self._state.wanted:
            self.filter.setText(self._state.wanted)
        self.table.show_rows()

    def _show_chosen(self) -> None:
        state, chosen = self._state, self._state.row
        self.title.set_full_text(plain_text(chosen.entry.title) if chosen else "")
        self.facts.set_full_text(plain_text(facts_words(chosen, state.offer)) if chosen else "")
        look_for = chosen.entry.look_for if chosen else ""
        self.words.setText(plain_text(look_for))
        self.told.setText(plain_text(state.problem or self._told(chosen)))
        names = (
            ", ".join(file.name for file in state.offer.files)
            if state.step == "download" and state.offer
            else ""
        )
        self.files.set_full_text(plain_text(names))
        self.told.set_role("error" if state.problem else "")
        self._show_main(chosen)
        self._show_download()

    def _told(self, chosen: ShelfRow | None) -> str:
        """Meaning of the chosen model's state, and the effect of the button."""
        state = self._state
        if chosen is None:
            return "No matches. Type the owner/name of a model as on its page." if state.is_listed else ""
        host, offer = state.host or "the Hub", state.offer
        match state.step:
            case "open" if chosen.place == "package":
                return (
                    f"The package {chosen.entry.package} contains it. Its weights are verified when it opens."
                )
            case "open":
                return "It opens without the network."
            case "ask":
                kept = f"{chosen.n_bytes:,} bytes of it are here. " if chosen.n_bytes else ""
                return f"{kept}Asking {host} for its exact size and licence does not download anything yet."
            case "asking":
                return f"Asking {host}…"
            case "busy":
                return f"{state.fetching} is being downloaded: pause or cancel it first."
            case "download" if offer is not None:
                there = f"{offer.host} has {offer.n_bytes:,} bytes in {plural(len(offer.files), 'file')}."
                return f"{there} {offer.n_here:,} of them are here already." if offer.n_here else there
            case "fetching":
                return "The open model stays open. You can close this window; the download continues."
            case _:
                return ""

    def _show_main(self, chosen: ShelfRow | None) -> None:
        state, offer = self._state, self._state.offer
        host = state.host or "the Hub"
        words, is_enabled = "Open", chosen is not None
        match state.step:
            case "ask" | "asking":
                words, is_enabled = f"Ask {host}…", state.step == "ask"
            case "download" | "busy" | "fetching" if offer is not None:
                named = licence_words(chosen.entry, offer) if chosen else ""
                licence = f"licence {named}" if named else "no licence stated"
                rest = "the remaining " if offer.n_here else ""
                words = f"Download {rest}{offer.n_missing:,} bytes from {offer.host} ({licence})"
                is_enabled = state.step == "download"
            case _:
                pass
        self.main_button.setText(plain_text(words).replace("&", "&&"))
        self.main_button.setEnabled(is_enabled)

    def _show_download(self) -> None:
        """The row of the download, of the chosen model or of another; else of a paused one."""
        state, chosen = self._state, self._state.row
        is_paused = chosen is not None and chosen.place == "partial" and not state.fetching
        self.pause_button.setVisible(bool(state.fetching))
        self.cancel_button.setVisible(bool(state.fetching) or is_paused)
        self.cancel_button.setText("Cancel" if state.fetching else "Delete what has arrived")
        self.bar.setVisible(bool(state.fetching))
        if is_paused and chosen is not None:
            self.progress.set_full_text(
                f"Paused: {chosen.n_bytes:,} bytes are kept, and the download will continue from there."
            )
        elif not state.fetching:
            self.progress.set_full_text("")

    def _show_progress(self) -> None:
        state = self._state
        if state.fetching:
            is_known = state.fraction is not None
            self.bar.setRange(0, 1000 if is_known else 0)
            self.bar.setValue(round(1000 * (state.fraction or 0.0)))
            name = state.fetching.rpartition("/")[2]
            self.progress.set_full_text(plain_text(f"{name}: {state.progress}"))
        self._show_download()

    @Slot(str)
    def _on_cleared(self, text: str) -> None:
        """The field's clear button empties it without an edit."""
        if not text:
            self._state.look_for("")

    @Slot()
    def _on_main(self) -> None:
        chosen = self._state.row
        match self._state.step:
            case "open" if chosen is not None:
                self.open_wanted.emit(chosen.source)
                self.accept()
            case "ask":
                self._state.ask()
            case "download":
                self._state.download()
            case _:
                pass
