"""A beam search as a tree: one row a token, the best at the left, kept paths emphasised."""

from dataclasses import dataclass
from typing import Literal

from PySide6.QtCore import QPointF, QRectF, QSize, Qt, Signal
from PySide6.QtGui import QColor, QFontMetricsF, QMouseEvent, QPainter, QPainterPath, QPaintEvent, QPen
from PySide6.QtWidgets import QSizePolicy

from attnscope.counting import fixed, number_text
from attnscope.figures.style import NORMAL_PX, SMALL_PX, drawn_piece, font, isolated, text_width, type_px
from attnscope.records.outputs import BeamNode, BeamTree
from attnscope.widgets.labels import Telling
from attnscope.widgets.theme import Dressed

# Where the nodes of a beam tree stand: one row a token, the best of each row at the left.

PathKind = Literal["best", "kept", "dropped"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacedNode:
    """One node: `row` counts tokens from 0, `column` ranks the nodes of a row from 0.

    `parent` is a place among the placed nodes, None for a first token. `kind` is `best` on the path to
    the best text, `dropped` where the search went no further.
    """

    node: BeamNode
    index: int
    row: int
    column: int
    parent: int | None
    kind: PathKind

    @property
    def sentence(self) -> str:
        """The node in words and numbers."""
        node = self.node
        ends = {"kept": "kept", "dropped": "dropped", "finished": "ends its text"}[node.state]
        return (
            f"“{node.token.piece}”  {ends}\n"
            f"log p of this token  {number_text(node.log_probability)} nats\n"
            f"log p of the text  {number_text(node.total)} nats\n"
            f"score  {number_text(node.score)}"
        )


def place_nodes(tree: BeamTree, *, has_dropped: bool = True) -> tuple[PlacedNode, ...]:
    """Every node in its position; the dropped ones at the right of their row, or left out."""
    best = set(tree.path(tree.best)) if tree.nodes else set()
    rows: dict[int, list[int]] = {}
    for index, node in enumerate(tree.nodes):
        if has_dropped or node.state != "dropped":
            rows.setdefault(node.depth - 1, []).append(index)
    placed: list[PlacedNode] = []
    places: dict[int, int] = {}
    for row in sorted(rows):
        ranked = sorted(rows[row], key=lambda index: (tree.nodes[index].state == "dropped", index))
        for column, index in enumerate(ranked):
            node = tree.nodes[index]
            places[index] = len(placed)
            kind: PathKind = "best" if index in best else "dropped" if node.state == "dropped" else "kept"
            parent = None if node.parent is None else places[node.parent]
            placed.append(
                PlacedNode(node=node, index=index, row=row, column=column, parent=parent, kind=kind)
            )
    return tuple(placed)


_COLUMNS_PX, _ROW_PX, _NODE_PX = (56, 96), 56, 36
_NO_TREE = BeamTree(nodes=(), best=0, n_beams=0, length_penalty=0.0)
"""Before anything was written with beams."""


class BeamView(Telling, Dressed):
    """Draws a BeamTree; a click on the best path chooses one of its tokens."""

    step_chosen = Signal(int)

    def __init__(self) -> None:
        super().__init__()
        self._tree = _NO_TREE
        self._placed: tuple[PlacedNode, ...] = ()
        self._has_dropped = True
        self._chosen: int | None = None
        self._column_px = float(_COLUMNS_PX[0])
        self.setAccessibleName("Tree of the beam search")
        self.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Fixed)
        self.setMouseTracking(True)
        self.fit_room()

    def show_tree(self, tree: BeamTree | None) -> None:
        """Draw another tree."""
        tree = tree or _NO_TREE
        if tree is not self._tree:
            self._tree = tree
            self.fit_room()

    def show_dropped(self, has_dropped: bool) -> None:
        """Show or hide the nodes dropped by the search."""
        self._has_dropped = has_dropped
        self.fit_room()

    def show_chosen(self, step: int | None) -> None:
        """Mark a token of the best path."""
        self._chosen = step
        self.update()

    def node_rect(self, node: PlacedNode) -> QRectF:
        column, height = self._column_px, type_px(_NODE_PX)
        return QRectF(node.column * column + 2, node.row * type_px(_ROW_PX) + 2, column - 6, height)

    def placed(self) -> tuple[PlacedNode, ...]:
        return self._placed

    def sizeHint(self) -> QSize:
        return self.size()

    def mousePressEvent(self, event: QMouseEvent) -> None:
        node = self._node_at(event.position())
        if node is not None and node.kind == "best":
            self.step_chosen.emit(node.row)

    def tip_at(self, place: QPointF) -> str:
        node = self._node_at(place)
        return "" if node is None else node.sentence

    def paintEvent(self, event: QPaintEvent) -> None:
        seen = QRectF(event.rect()).adjusted(0, -type_px(_ROW_PX), 0, type_px(_ROW_PX))
        with QPainter(self) as painter:
            painter.setRenderHint(QPainter.RenderHint.Antialiasing)
            shown = [node for node in self._placed if self.node_rect(node).intersects(seen)]
            for kind in ("dropped", "kept", "best"):
                for node in shown:
                    if node.kind == kind:
                        self._paint_edge(painter, node)
            for node in shown:
                self._paint_node(painter, node)

    def _paint_edge(self, painter: QPainter, node: PlacedNode) -> None:
        if node.parent is None:
            return
        above, below = self.node_rect(self._placed[node.parent]), self.node_rect(node)
        begin, end = QPointF(above.center().x(), above.bottom()), QPointF(below.center().x(), below.top())
        half = (end.y() - begin.y()) / 2
        path = QPainterPath(begin)
        path.cubicTo(begin + QPointF(0, half), end - QPointF(0, half), end)
        palette = self.theme
        colour, width = {
            "best": (palette.accent, 2.5),
            "kept": (palette.muted, 1.5),
            "dropped": (palette.line, 1.0),
        }[node.kind]
        painter.setBrush(Qt.BrushStyle.NoBrush)
        painter.setPen(QPen(QColor(colour), width))
        painter.drawPath(path)

    def _paint_node(self, painter: QPainter, node: PlacedNode) -> None:
        palette, rect = self.theme, self.node_rect(node)
        is_best, is_dropped = node.kind == "best", node.kind == "dropped"
        is_chosen = is_best and node.row == self._chosen
        if not is_dropped:
            painter.setBrush(QColor(palette.accent if is_chosen else palette.raised))
            pen = QPen(QColor(palette.accent if is_best else palette.line), 1.5 if is_best else 1.0)
            painter.setPen(pen)
            painter.drawRoundedRect(rect, 4, 4)
            if node.node.state == "finished":
                painter.drawRoundedRect(rect.adjusted(2.5, 2.5, -2.5, -2.5), 3, 3)
        type_ = font(NORMAL_PX, is_bold=not is_dropped)
        text = QFontMetricsF(type_).elidedText(
            drawn_piece(node.node.token.piece), Qt.TextElideMode.ElideMiddle, rect.width() - 8
        )
        ink = palette.accent_text if is_chosen else palette.muted if is_dropped else palette.text
        upper, lower = QRectF(rect), QRectF(rect)
        upper.setHeight(rect.height() * 0.58)
        lower.setTop(rect.top() + rect.height() * 0.50)
        painter.setPen(QColor(ink))
        painter.setFont(type_)
        painter.drawText(upper, Qt.AlignmentFlag.AlignCenter, isolated(text))
        painter.setFont(font(SMALL_PX))
        painter.setPen(QColor(palette.accent_text if is_chosen else palette.muted))
        painter.drawText(lower, Qt.AlignmentFlag.AlignCenter, fixed(node.node.score))

    def _node_at(self, place: QPointF) -> PlacedNode | None:
        return next((node for node in self._placed if self.node_rect(node).contains(place)), None)

    def fit_room(self) -> None:
        self._placed = place_nodes(self._tree, has_dropped=self._has_dropped)
        n_columns = 1 + max((node.column for node in self._placed), default=0)
        n_rows = 1 + max((node.row for node in self._placed), default=0)
        gap = type_px(_ROW_PX - _NODE_PX)
        widest = max((_piece_width(node) for node in self._placed), default=0.0) + type_px(16)
        self._column_px = min(max(widest, type_px(_COLUMNS_PX[0])), type_px(_COLUMNS_PX[1]))
        self.setFixedSize(round(n_columns * self._column_px), round(n_rows * type_px(_ROW_PX) - gap + 6))
        self.update()


def _piece_width(node: PlacedNode) -> float:
    is_bold = node.kind != "dropped"
    return text_width(drawn_piece(node.node.token.piece), NORMAL_PX, is_bold=is_bold)
