"""The mask editor: a window of its own beside the maps, so that every stroke shows its effect."""

from collections.abc import Callable
from pathlib import Path

from PySide6.QtCore import QEvent, QPointF, QRect, QRectF, QSize, Qt, Signal
from PySide6.QtGui import (
    QAction,
    QBrush,
    QCloseEvent,
    QColor,
    QKeyEvent,
    QKeySequence,
    QMouseEvent,
    QPainter,
    QPaintEvent,
    QPen,
    QShortcut,
)
from PySide6.QtWidgets import (
    QCheckBox,
    QDialog,
    QFileDialog,
    QFrame,
    QGridLayout,
    QMenu,
    QPlainTextEdit,
    QPushButton,
    QScrollArea,
    QSizePolicy,
    QSpinBox,
    QToolButton,
    QVBoxLayout,
    QWidget,
)

from attnscope.figures.style import SMALL_PX, drawn_piece, font, isolated, plain_text, text_width, type_px
from attnscope.viewmodels.session.masking import GRAPHS, PRESETS, Cell, Graph, MaskState, Preset, graph_text
from attnscope.viewmodels.session.state import Session
from attnscope.widgets.dialogs import open_one
from attnscope.widgets.form_parts import column, inset_text, row, scrolled_column
from attnscope.widgets.labels import PlainLabel, ground, named, plain_tooltip, push_button, tool_button, when
from attnscope.widgets.map_widget import ARROWS
from attnscope.widgets.theme import Dressed, Dressing

# The grid of a mask: tokens × tokens, allowed by click, drag and keyboard.

_LEAST_PX, _MOST_PX, _PAD_PX, _MARK_PX = 15, 48, 6, 14
_LONGEST = 14


class MaskGrid(Dressed):
    """Shows and paints the cells of `state`; `pointed_at` carries the cell under cursor or keys."""

    pointed_at = Signal(int, int)
    cell_moved = Signal(QRect)

    def __init__(self, state: MaskState) -> None:
        super().__init__()
        self._state = state
        self._cells = state.cells
        self._names: tuple[str, ...] = ()
        self._cell_px, self._left_px, self._top_px = 20, 80, 80
        self._room = QSize(480, 420)
        self._cursor: Cell = (0, 0)
        self._hovered: Cell | None = None
        self.setAccessibleName("Mask: rows queries, columns keys")
        self.setMouseTracking(True)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Fixed)

    def dress(self) -> None:
        self._measure()

    def show_state(self) -> None:
        self._cells = self._state.cells
        names = tuple(drawn_piece(token.piece, max_characters=_LONGEST) for token in self._state.tokens)
        if names != self._names:
            self._names, self._cursor, self._hovered = names, (0, 0), None
            self._measure()
        self.update()

    def fit(self, room: QSize) -> None:
        """Make the cells as large as there is room for."""
        self._room = room
        self._measure()

    def cell_at(self, place: QPointF) -> Cell | None:
        row = int((place.y() - self._top_px) // self._cell_px)
        column = int((place.x() - self._left_px) // self._cell_px)
        n = len(self._names)
        return (row, column) if 0 <= row < n and 0 <= column < n else None

    def cell_rect(self, cell: Cell) -> QRectF:
        side = float(self._cell_px)
        return QRectF(self._left_px + cell[1] * side, self._top_px + cell[0] * side, side, side)

    def sizeHint(self) -> QSize:
        n = max(1, len(self._names))
        return QSize(self._left_px + n * self._cell_px + 2, self._top_px + n * self._cell_px + 2)

    # User actions

    def mousePressEvent(self, event: QMouseEvent) -> None:
        cell = self.cell_at(event.position())
        if event.button() == Qt.MouseButton.LeftButton and cell and not self._state.is_locked(*cell):
            self._cursor = cell
            self._state.brush.press(cell)

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        cell = self.cell_at(event.position())
        if cell is not None:
            self._state.brush.drag(cell)
        self._point_at(cell)

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        super().mouseReleaseEvent(event)
        self._state.brush.release()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        step = ARROWS.get(Qt.Key(event.key()))
        n = len(self._names)
        if step is not None and n:
            before = self._cursor
            self._cursor = (min(max(before[0] + step[0], 0), n - 1), min(max(before[1] + step[1], 0), n - 1))
            if event.modifiers() & Qt.KeyboardModifier.ShiftModifier:
                self._paint_key(bool(self._cells[before]))
            self.cell_moved.emit(self.cell_rect(self._cursor).toRect())
            self._point_at(self._cursor)
        elif event.key() == Qt.Key.Key_Space and n:
            self._paint_key(not bool(self._cells[self._cursor]))
            self._point_at(self._cursor)
        else:
            super().keyPressEvent(event)

    def leaveEvent(self, event: QEvent) -> None:
        super().leaveEvent(event)
        self._point_at(None)

    def _paint_key(self, is_allowed: bool) -> None:
        if not self._state.is_locked(*self._cursor):
            self._state.brush.begin()
            self._state.brush.paint([self._cursor], is_allowed)
            self._state.brush.end()

    def _point_at(self, cell: Cell | None) -> None:
        if cell != self._hovered:
            self._hovered = cell
            self.pointed_at.emit(*(cell or (-1, -1)))
            if cell is not None:
                self.setAccessibleDescription(self._state.drawn.cell_sentence(*cell))
            self.update()

    # Painting

    def _measure(self) -> None:
        n = max(1, len(self._names))
        widest = max((text_width(name, SMALL_PX) for name in self._names), default=24.0)
        self._left_px = round(widest + 2 * _PAD_PX + type_px(_MARK_PX))
        self._top_px = round(widest + 2 * _PAD_PX)
        room = min(self._room.width() - self._left_px, self._room.height() - self._top_px) - 4
        least, most = round(type_px(_LEAST_PX)), round(type_px(_MOST_PX))
        self._cell_px = min(max(room // n, least), most)
        self.setFixedSize(self.sizeHint())
        self.update()

    def paintEvent(self, event: QPaintEvent) -> None:
        n = len(self._names)
        if not n:
            return
        with QPainter(self) as painter:
            painter.setClipRect(event.rect())
            self._paint_cells(painter, event.rect())
            self._paint_names(painter, event.rect())
            for cell, width in ((self._hovered, 1.0), (self._cursor if self.hasFocus() else None, 2.0)):
                if cell is not None:
                    painter.setBrush(Qt.BrushStyle.NoBrush)
                    painter.setPen(QPen(QColor(self.theme.text), width))
                    painter.drawRect(self.cell_rect(cell))

    def _paint_cells(self, painter: QPainter, area: QRect) -> None:
        palette, n = self.theme, len(self._names)
        first_row, last_row = self._span(area.top() - self._top_px, area.bottom() - self._top_px, n)
        first, last = self._span(area.left() - self._left_px, area.right() - self._left_px, n)
        painter.setPen(QPen(QColor(palette.line), 1.0))
        for i in range(first_row, last_row):
            for j in range(first, last):
                rect = self.cell_rect((i, j))
                if self._state.is_locked(i, j):
                    painter.fillRect(rect, QColor(palette.not_allowed))
                    painter.fillRect(rect, QBrush(QColor(palette.hatch), Qt.BrushStyle.BDiagPattern))
                else:
                    painter.fillRect(
                        rect, QColor(palette.accent if self._cells[i, j] else palette.background)
                    )
                painter.drawRect(rect)

    def _paint_names(self, painter: QPainter, area: QRect) -> None:
        palette, blind = self.theme, set(self._state.drawn.blind)
        row, column = self._hovered or (-1, -1)
        painter.setFont(font(SMALL_PX))
        side, flags = self._cell_px, Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter
        for k, name in enumerate(self._names):
            place = self._top_px + k * side
            if area.top() - side <= place <= area.bottom() + side:
                ink = palette.warning if k in blind else palette.accent if k == row else palette.text
                painter.setPen(QColor(ink))
                box = QRectF(0, place, self._left_px - _PAD_PX, side)
                painter.drawText(box, flags, isolated(f"∅ {name}" if k in blind else name))
            left = self._left_px + k * side
            if area.left() - side <= left <= area.right() + side:
                painter.setPen(QColor(palette.accent if k == column else palette.text))
                painter.save()
                painter.translate(left + side / 2, self._top_px - _PAD_PX)
                painter.rotate(-90)
                box = QRectF(0, -side / 2, self._top_px, side)
                painter.drawText(
                    box, Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter, isolated(name)
                )
                painter.restore()

    def _span(self, low: int, high: int, n: int) -> tuple[int, int]:
        return max(0, low // self._cell_px), min(n, high // self._cell_px + 1)


_SIDE_PX = 288
ChooseFile = Callable[[QWidget, str], str]


def _ask_file(parent: QWidget, title: str) -> str:
    return QFileDialog.getOpenFileName(parent, title, str(Path.home()))[0]


class MaskDialog(Dressing, QDialog):
    """Draws the mask of the open text; closing it leaves the mask in use."""

    def __init__(
        self,
        session: Session,
        parent: QWidget | None = None,
        *,
        choose_file: ChooseFile = _ask_file,
    ) -> None:
        super().__init__(parent)
        self.setWindowTitle("Custom mask")
        wanted = QSize(round(type_px(940)), round(type_px(680)))
        self.resize(wanted if parent is None else wanted.boundedTo(parent.window().size()))
        self._session, self._choose_file = session, choose_file
        self._pointed = (-1, -1)
        self.state = MaskState(session)
        self.grid = MaskGrid(self.state)
        self.presets: dict[Preset, QToolButton] = {}
        self.count = PlainLabel(role="name")
        self.scope, self.pointed = PlainLabel(role="hint"), PlainLabel(role="hint")
        self.blind, self.effect = PlainLabel(role="warning"), PlainLabel(role="hint")
        self.refusal = PlainLabel(role="hint", wraps=True)
        self.edges = named(QPlainTextEdit(tabChangesFocus=True), "Edge list: a query and a key in each line")
        self.edges_error = PlainLabel(role="error", wraps=True)
        self._build()
        when(self, self._show, self.state.changed)
        self.dress()
        self._show()

    def dress(self) -> None:
        self._side.setFixedWidth(round(type_px(_SIDE_PX)))

    def closeEvent(self, event: QCloseEvent) -> None:
        self.state.close()
        super().closeEvent(event)

    def done(self, result: int) -> None:
        self.state.close()
        super().done(result)

    # Building

    def _build(self) -> None:
        self._area = QScrollArea()
        self._area.setWidget(self.grid)
        self.grid.setAutoFillBackground(False)
        self._area.setFrameShape(QFrame.Shape.NoFrame)
        self._area.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self._area.setAlignment(Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignTop)
        self.refusal.setAlignment(Qt.AlignmentFlag.AlignCenter)
        right = QWidget()
        layout = column(on=right, margins=12, spacing=6)
        for label in (self.blind, self.effect, self.pointed):
            label.setWordWrap(True)
        legend = (
            _swatch("on"),
            PlainLabel("allowed", "muted"),
            _swatch("off"),
            PlainLabel("not allowed", "muted"),
        )
        layout.addLayout(row(self.count, None, *legend, spacing=6))
        layout.addWidget(self._area, 1)
        layout.addWidget(self.refusal, 1)
        for part in (self.pointed, self.blind, self.effect):
            layout.addWidget(part)
        self._side = self._build_side()
        row(self._side, (right, 1), on=self, spacing=0)
        self.grid.pointed_at.connect(self._on_pointed)
        self.grid.cell_moved.connect(self._on_cell_moved)
        for keys, run in (
            (QKeySequence.StandardKey.Undo, self._session.undo),
            (QKeySequence.StandardKey.Redo, self._session.redo),
        ):
            shortcut = QShortcut(QKeySequence(keys), self)
            shortcut.activated.connect(run)

    def _build_side(self) -> QWidget:
        side = ground(QWidget(), "panel", edge="right")
        self.scope.setWordWrap(True)
        self.symmetric = QCheckBox("Both directions")
        self.symmetric.setToolTip("A cell is painted with its mirror image; edges go both ways")
        self.symmetric.clicked.connect(self.state.brush.set_symmetric)
        self.invert_button = tool_button("Invert", "Invert the mask")
        self.invert_button.setToolTip("Allowed cells become not allowed, and vice versa")
        self.invert_button.clicked.connect(lambda _checked=False: self.state.invert())
        layout = scrolled_column(side, spacing=6)
        layout.addWidget(PlainLabel("Attention mask", "large"))
        layout.addWidget(self.scope)
        layout.addSpacing(6)
        layout.addWidget(PlainLabel("Presets", "section"))
        layout.addLayout(self._build_presets())
        layout.addSpacing(6)
        layout.addWidget(PlainLabel("Painting", "section"))
        layout.addLayout(row(self.symmetric, None, self.invert_button))
        layout.addSpacing(6)
        self._build_edges(layout)
        self.undo_button, self.redo_button = QPushButton("Undo"), QPushButton("Redo")
        self.undo_button.clicked.connect(lambda _checked=False: self._session.undo())
        self.redo_button.clicked.connect(lambda _checked=False: self._session.redo())
        self.own_button = push_button("The model's own", tip="Remove the mask", clicked=self._on_own)
        for button in (self.undo_button, self.redo_button, self.own_button):
            button.setAutoDefault(False)
        layout.addLayout(row(self.undo_button, self.redo_button, None, self.own_button, spacing=6))
        return side

    def _build_presets(self) -> QGridLayout:
        grid = QGridLayout()
        grid.setSpacing(4)
        for k, (preset, (name, tip)) in enumerate(PRESETS.items()):
            button = tool_button(name, f"Mask: {name}", role="segment", is_checkable=True)
            button.setToolTip(plain_tooltip(tip))
            button.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
            button.clicked.connect(lambda _checked=False, wanted=preset: self.state.use_preset(wanted))
            grid.addWidget(button, k // 2, k % 2)
            self.presets[preset] = button
        self.window_box = named(QSpinBox(minimum=0, maximum=64), "Positions to each side of the window")
        inset_text(self.window_box)
        self.window_box.setValue(self.state.window)
        self.window_box.valueChanged.connect(self.state.set_window)
        n_rows = (len(PRESETS) + 1) // 2
        grid.addWidget(PlainLabel("Window to each side", "hint"), n_rows, 0)
        grid.addWidget(self.window_box, n_rows, 1)
        return grid

    def _build_edges(self, layout: QVBoxLayout) -> None:
        graphs = tool_button("Example ▾", "Example edge lists")
        graphs.setPopupMode(QToolButton.ToolButtonPopupMode.InstantPopup)
        menu = QMenu(graphs)
        for kind, text in GRAPHS.items():
            action = QAction(text, menu)
            action.triggered.connect(lambda _checked=False, wanted=kind: self.use_graph(wanted))
            menu.addAction(action)
        graphs.setMenu(menu)
        layout.addLayout(row(PlainLabel("Edge list", "section"), None, graphs))
        self.edges.setPlaceholderText("query key\n0 1\ncat -> sat\n# numbers from 0, or texts of tokens")
        self.edges.setMinimumHeight(round(type_px(84)))
        layout.addWidget(self.edges, 1)
        layout.addWidget(self.edges_error)
        self.loops = named(QCheckBox("and itself"), tip="Each token also sees itself")
        self.loops.clicked.connect(self.state.edges.set_loops)
        self.file_button, self.use_button = QPushButton("From file…"), QPushButton("Use")
        self.file_button.clicked.connect(self._on_file)
        self.use_button.clicked.connect(self._on_use)
        for button in (self.file_button, self.use_button):
            button.setAutoDefault(False)
        layout.addLayout(row(self.loops, None, self.file_button, self.use_button, spacing=6))
        layout.addSpacing(8)

    # Showing

    def _show(self) -> None:
        state = self.state
        refusal = state.refusal
        self.refusal.say(refusal)
        self._area.setVisible(not refusal)
        for part in (*self.presets.values(), self.use_button, self.file_button, self.invert_button):
            part.setEnabled(not refusal)
        self.scope.setText(_scope_words(state))
        self.count.setText("" if refusal else state.drawn.count_sentence)
        self.blind.say("" if refusal else plain_text(state.drawn.blind_sentence))
        self.effect.say(plain_text(state.effect_sentence))
        self.edges_error.say(plain_text(state.edges.error))
        self.symmetric.setChecked(state.brush.is_symmetric)
        self.loops.setChecked(state.edges.has_loops)
        name = state.name
        for preset, button in self.presets.items():
            button.setChecked(bool(name) and name.startswith(PRESETS[preset][0].lower()))
        if state.edges.file_text:
            self.edges.setPlainText(state.edges.file_text)
            state.edges.file_text = ""
        self._show_steps()
        self.own_button.setEnabled(state.mask is not None)
        if not refusal:
            self.grid.show_state()
            self._show_pointed()
            self.fit_room()

    def _show_steps(self) -> None:
        history = self._session.history
        for button, label, nothing in (
            (self.undo_button, history.undo_label, "Nothing to undo"),
            (self.redo_button, history.redo_label, "Nothing to redo"),
        ):
            button.setEnabled(bool(label))
            button.setToolTip(plain_tooltip(label or nothing))

    def _show_pointed(self) -> None:
        self.pointed.setText(plain_text(self.state.drawn.cell_sentence(*self._pointed)) or _HOW)

    def fit_room(self) -> None:
        self.grid.fit(QSize(self._area.viewport().width(), self._area.viewport().height()))

    # User actions

    def _on_pointed(self, query: int, key: int) -> None:
        self._pointed = (query, key)
        self._show_pointed()

    def _on_cell_moved(self, place: QRect) -> None:
        self._area.ensureVisible(place.center().x(), place.center().y(), place.width(), place.height())

    def _on_own(self) -> None:
        self.state.drop()

    def use_graph(self, kind: Graph) -> None:
        """Write the edge list of a graph, for further editing, and use it."""
        self.edges.setPlainText(graph_text(kind, len(self.state.tokens)))
        self.state.edges.use(self.edges.toPlainText(), kind)

    def _on_use(self) -> None:
        self.state.edges.use(self.edges.toPlainText())

    def _on_file(self) -> None:
        if path := self._choose_file(self, "Open edge list"):
            self.state.edges.read_file(path)


_HOW = "Click or drag to allow or forbid; arrow keys move, Space toggles, Shift+arrows paint."


def _scope_words(state: MaskState) -> str:
    if state.stack is None:
        return ""
    words = f"Rows are queries, columns the keys they may see. Holds in every head of the {state.stack}"
    words += ", instead of the model's own mask."
    if state.is_causal:
        words += " Later tokens stay not allowed, and what is written on after the text is left out."
    return words


def open_mask_editor(session: Session, window: QWidget) -> None:
    """Show the editor, one over a window, and the heads of the stack that its mask is for."""
    dialog = open_one(window, MaskDialog, lambda: MaskDialog(session, window))
    dialog.state.show_stack()
    dialog.grid.setFocus()


def _swatch(state: str) -> QFrame:
    cell = QFrame()
    cell.setProperty("swatch", state)
    cell.setFixedSize(round(type_px(11)), round(type_px(11)))
    return cell
