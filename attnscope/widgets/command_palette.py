"""The command palette: everything it offers, with search words, in a field and a list over the window."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

from PySide6.QtCore import (
    QAbstractListModel,
    QEvent,
    QModelIndex,
    QObject,
    QPersistentModelIndex,
    QPointF,
    QRectF,
    QSize,
    Qt,
)
from PySide6.QtGui import QAction, QColor, QFontMetricsF, QHideEvent, QKeyEvent, QKeySequence, QPainter
from PySide6.QtWidgets import (
    QApplication,
    QFrame,
    QLineEdit,
    QListView,
    QStyle,
    QStyledItemDelegate,
    QStyleOptionViewItem,
    QWidget,
)

from attnscope.figures.style import (
    NORMAL_PX,
    SMALL_PX,
    font,
    plain_text,
    short_path,
    shorten,
    text_width,
    type_px,
)
from attnscope.kept_models import kept_model
from attnscope.records.sites import HeadRef
from attnscope.viewmodels.maps.aspect import BLENDS, BLOCKS, HIDDEN, OVERS, ROW_WORDS
from attnscope.viewmodels.palette import KIND_NAMES, Item, ItemMatch, Kind, find
from attnscope.viewmodels.session.changes import every_head
from attnscope.viewmodels.session.state import Session
from attnscope.viewmodels.view_state import COLOUR_MAP_NAMES, LINES, SCALES, THEME_NAMES, Page, ViewState
from attnscope.widgets.actions import ACTIONS, has_two_texts, writes
from attnscope.widgets.form_parts import column
from attnscope.widgets.labels import PlainLabel, named
from attnscope.widgets.theme import theme_of

_MAX_HEADS = 6000


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """One item and its action."""

    item: Item
    run: Callable[[], None]


def action_offers(actions: Mapping[str, QAction]) -> Iterable[Offer]:
    """One offer for each visible action; disabled ones are greyed."""
    specs = {spec.name: spec for spec in ACTIONS}
    for name, action in actions.items():
        if name == "palette" or not action.isVisible():
            continue
        text = action.text().replace("&&", "&").rstrip("…")
        tip = action.toolTip().split(" (")[0]
        yield Offer(
            item=Item(
                key=f"action:{name}",
                kind="page" if name.startswith("page-") else "action",
                title=text,
                detail=tip if tip != text else specs[name].menu if name in specs else "",
                keys=shortcut_text(action),
                search=specs[name].search if name in specs else "",
                is_enabled=action.isEnabled(),
            ),
            run=action.trigger,
        )


def shortcut_text(action: QAction) -> str:
    """The first shortcut in this system's notation."""
    return action.shortcut().toString(QKeySequence.SequenceFormat.NativeText)


_SHOW_MODEL: tuple[Page, ...] = ("explore", "compare", "heads", "positions")
"""Pages on which one sees that another model is open; from the others its offer turns to Explore."""
_SHOW_MAPS: tuple[Page, ...] = ("explore", "compare")


def _seen(view: ViewState, pages: tuple[Page, ...], run: Callable[[], None]) -> Callable[[], None]:
    """Wrap `run` so that its effect is visible."""

    def turn_and_run() -> None:
        if view.page not in pages:
            view.show_page("explore")
        run()

    return turn_and_run


def model_offers(session: Session, view: ViewState, recent: Iterable[str]) -> Iterable[Offer]:
    """Demo models, then recently opened models."""

    def load(source: str) -> Callable[[], None]:
        return _seen(view, _SHOW_MODEL, lambda: session.opening.load(source))

    for name in session.demo_models:
        kept = kept_model(name)
        yield Offer(
            item=Item(
                key=f"model:{name}",
                kind="model",
                title=plain_text(name),
                detail=f"demo model; {kept.lacks}" if kept.lacks else "demo model",
                search=kept.search,
            ),
            run=load(name),
        )
    for source in recent:
        if source not in session.demo_models:
            short = short_path(plain_text(source), 60)
            yield Offer(
                item=Item(key=f"recent:{source}", kind="recent", title=short, detail="opened before"),
                run=load(source),
            )


def session_offers(recent: Iterable[str], open_path: Callable[[str], None]) -> Iterable[Offer]:
    """Recently opened sessions."""
    for path in recent:
        short = shorten(plain_text(path), 60)
        yield Offer(
            item=Item(key=f"session:{path}", kind="recent", title=short, detail="session"),
            run=lambda path=path: open_path(path),  # type: ignore[misc]
        )


def sample_offers(session: Session, show_explore: Callable[[], None]) -> Iterable[Offer]:
    """The samples of the open model."""
    for sample in session.model.samples if session.model else ():

        def run(chosen: object = sample) -> None:
            show_explore()
            session.texts.choose_sample(chosen)  # type: ignore[arg-type]

        title = shorten(plain_text(sample.text), 64)
        hint = shorten(plain_text(sample.hint), 60)
        yield Offer(item=Item(key=f"sample:{sample.text}", kind="sample", title=title, detail=hint), run=run)


def head_offers(session: Session, show_explore: Callable[[], None]) -> Iterable[Offer]:
    """Every head of the open model, with its role on this text."""
    heads = every_head(session.model.sites) if session.model else ()
    for head in heads[:_MAX_HEADS]:

        def run(chosen: HeadRef = head) -> None:
            show_explore()
            session.select_heads((chosen,))

        words = session.line_about(head)
        title = f"{head.label} {head.stack}"
        yield Offer(item=Item(key=f"head:{title}", kind="head", title=title, detail=words), run=run)


def choice_offers(session: Session, view: ViewState) -> Iterable[Offer]:
    """Every choice in a menu, by name."""
    yield from _aspect_offers(session, view)
    for key, text in LINES.items():
        run = _seen(view, _SHOW_MAPS, lambda k=key: view.choose_lines(k))  # type: ignore[misc]
        yield _choice("Lines", text, view.lines == key, run)
    for name, text in COLOUR_MAP_NAMES.items():
        is_so = view.colour_map == name
        yield _choice("Colour map", text, is_so, lambda n=name: view.set_colour_map(n))  # type: ignore[misc]
    for scale, text in SCALES.items():
        yield _choice("Scale", text, view.scale == scale, lambda s=scale: view.set_scale(s))  # type: ignore[misc]
    for theme, text in THEME_NAMES.items():
        yield _choice("Theme", text, view.theme == theme, lambda t=theme: view.set_theme(t))  # type: ignore[misc]


def _aspect_offers(session: Session, view: ViewState) -> Iterable[Offer]:
    aspect = session.aspect
    for title, field, texts in (
        ("Show", "blend", BLENDS),
        ("Blend", "over", OVERS),
        ("Keys", "hidden", HIDDEN),
        *((("Two texts", "block", BLOCKS),) if has_two_texts(session) else ()),
        *((("Rows", "rows", ROW_WORDS),) if writes(session) else ()),
    ):
        for value, text in texts.items():
            wanted = replace(aspect, **{field: value})
            if field == "over" and aspect.blend == "none":
                wanted = replace(wanted, blend="mean")
            run = _seen(view, _SHOW_MAPS, lambda w=wanted: session.set_aspect(w))  # type: ignore[misc]
            yield _choice(title, text, wanted == aspect, run)


def _choice(title: str, text: str, is_so: bool, run: Callable[[], None]) -> Offer:
    name = f"{title}: {text}"
    return Offer(item=Item(key=name, kind="choice", title=name, detail="chosen" if is_so else ""), run=run)


# How one row of the command palette is painted: title with marked letters, detail, kind, shortcut.

_ROW_PX = 34
_PAD_PX = 12.0


class MatchDelegate(QStyledItemDelegate):
    """Paints matches; letters of the query are bold."""

    def row_px(self) -> int:
        return round(type_px(_ROW_PX))

    def sizeHint(self, _option: QStyleOptionViewItem, _index: QModelIndex | QPersistentModelIndex) -> QSize:
        return QSize(320, self.row_px())

    def paint(
        self,
        painter: QPainter,
        option: QStyleOptionViewItem,
        index: QModelIndex | QPersistentModelIndex,
    ) -> None:
        match = index.data(Qt.ItemDataRole.UserRole)
        if not isinstance(match, ItemMatch):
            return
        palette = theme_of(option.widget)
        rect = QRectF(option.rect)
        is_chosen = bool(option.state & QStyle.StateFlag.State_Selected)
        painter.save()
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        if is_chosen:
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(QColor(palette.accent if match.item.is_enabled else palette.line))
            painter.drawRoundedRect(rect.adjusted(0, 1, 0, -1), 4, 4)
        is_lit = is_chosen and match.item.is_enabled
        ink = palette.accent_text if is_lit else palette.text if match.item.is_enabled else palette.no_data
        quiet = palette.accent_text if is_lit else palette.muted
        right = self._paint_right(painter, rect, match, quiet)
        left = self._paint_title(painter, rect, match, ink, right)
        self._paint_detail(painter, rect, match, quiet, left, right)
        painter.restore()

    def _paint_right(self, painter: QPainter, rect: QRectF, match: ItemMatch, colour: str) -> float:
        text = match.item.keys or KIND_NAMES[match.item.kind]
        painter.setFont(font(SMALL_PX, is_bold=bool(match.item.keys)))
        painter.setPen(QColor(colour))
        middle = Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignRight
        painter.drawText(rect.adjusted(0, 0, -_PAD_PX, 0), middle, text)
        return rect.right() - _PAD_PX - text_width(text, SMALL_PX, is_bold=True) - _PAD_PX

    def _paint_title(
        self, painter: QPainter, rect: QRectF, match: ItemMatch, colour: str, right: float
    ) -> float:
        """The title letter by letter in runs of the same weight; returns where it ends."""
        places, title = set(match.places), match.item.title
        x, at = rect.left() + _PAD_PX, 0
        painter.setPen(QColor(colour))
        while at < len(title) and x < right:
            end = at + 1
            while end < len(title) and (end in places) == (at in places):
                end += 1
            face = font(NORMAL_PX, is_bold=at in places)
            metrics = QFontMetricsF(face)
            run = metrics.elidedText(title[at:end], Qt.TextElideMode.ElideRight, max(right - x, 8.0))
            painter.setFont(face)
            baseline = rect.center().y() + (metrics.ascent() - metrics.descent()) / 2
            painter.drawText(QPointF(x, baseline), run)
            x += metrics.horizontalAdvance(run)
            at = end
        return x + _PAD_PX

    def _paint_detail(
        self, painter: QPainter, rect: QRectF, match: ItemMatch, colour: str, left: float, right: float
    ) -> None:
        room = right - left
        if not match.item.detail or room < 40:
            return
        face = font(SMALL_PX)
        painter.setFont(face)
        painter.setPen(QColor(colour))
        text = QFontMetricsF(face).elidedText(match.item.detail, Qt.TextElideMode.ElideRight, room)
        painter.drawText(QRectF(left, rect.top(), room, rect.height()), Qt.AlignmentFlag.AlignVCenter, text)


MATCH_ROLE = Qt.ItemDataRole.UserRole
_WIDTH_PX, _N_ROWS, _TOP_PX = 640, 11, 72
_N_REMEMBERED = 30
_PROMPT = "Type a command, a page, a model, a sample or a head such as L3H5"
_PROMPTS: dict[Kind | None, str] = {"choice": "Show as: mean of heads, lines, a scale, colours, a theme"}
_MOVES = {
    Qt.Key.Key_Down: 1,
    Qt.Key.Key_Up: -1,
    Qt.Key.Key_PageDown: _N_ROWS - 1,
    Qt.Key.Key_PageUp: 1 - _N_ROWS,
}
Index = QModelIndex | QPersistentModelIndex


class MatchModel(QAbstractListModel):
    """The matches as rows."""

    def __init__(self, parent: QObject) -> None:
        super().__init__(parent)
        self.matches: tuple[ItemMatch, ...] = ()

    def show_matches(self, matches: tuple[ItemMatch, ...]) -> None:
        """Show other rows."""
        self.beginResetModel()
        self.matches = matches
        self.endResetModel()

    def rowCount(self, parent: Index = QModelIndex()) -> int:  # noqa: B008  Qt's own signature
        return 0 if parent.isValid() else len(self.matches)

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> object:
        if not index.isValid() or index.row() >= len(self.matches):
            return None
        item = self.matches[index.row()].item
        if role == MATCH_ROLE:
            return self.matches[index.row()]
        if role == Qt.ItemDataRole.DisplayRole:
            return item.title
        if role == Qt.ItemDataRole.AccessibleTextRole:
            parts = (KIND_NAMES[item.kind], item.title, item.detail, item.keys)
            return ", ".join(part for part in parts if part)
        return None

    def flags(self, index: Index) -> Qt.ItemFlag:
        if index.isValid() and index.row() < len(self.matches) and self.matches[index.row()].item.is_enabled:
            return Qt.ItemFlag.ItemIsSelectable | Qt.ItemFlag.ItemIsEnabled
        return Qt.ItemFlag.ItemIsSelectable


class CommandPalette(QFrame):
    """Lies over `window`; `gather` gives all offers each time it opens."""

    def __init__(self, window: QWidget, gather: Callable[[], Iterable[Offer]]) -> None:
        super().__init__(window)
        self._window, self._gather = window, gather
        self._offers: dict[str, Offer] = {}
        self._used: list[str] = []
        self._came_from: QWidget | None = None
        self.setProperty("role", "palette")
        self.setAccessibleName("Command palette")
        self.field = named(QLineEdit(), "Find a command, page, model, sample or head")
        self.list = named(QListView(), "What was found")
        self.list.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.list.setUniformItemSizes(True)
        self.list.setFrameShape(QFrame.Shape.NoFrame)
        self.list.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.rows = MatchModel(self)
        self.list.setModel(self.rows)
        self._delegate = MatchDelegate(self)
        self.list.setItemDelegate(self._delegate)
        self.nothing = PlainLabel("No matches", "hint")
        column(self.field, self.nothing, self.list, on=self, margins=8)
        self.field.textEdited.connect(self._on_edited)
        self.list.clicked.connect(self._on_clicked)
        self.field.installEventFilter(self)
        self.hide()

    def open(self, query: str = "", *, only: Kind | None = None) -> None:
        """Show the palette, with all offers or those of one kind, and take the focus."""
        if not self.isVisible():
            self._came_from = QApplication.focusWidget()
        self._offers = {offer.item.key: offer for offer in self._gather() if only in (None, offer.item.kind)}
        self.field.setPlaceholderText(_PROMPTS.get(only, _PROMPT))
        self.field.setText(query)
        self._on_edited(query)
        self._place()
        self._window.installEventFilter(self)
        self.show()
        self.raise_()
        self.field.setFocus(Qt.FocusReason.PopupFocusReason)
        self.field.selectAll()

    def close_palette(self) -> None:
        """Hide the palette and return the focus."""
        came_from, self._came_from = self._came_from, None
        self.hide()
        if came_from is not None and came_from.isVisible():
            came_from.setFocus(Qt.FocusReason.PopupFocusReason)

    def run_current(self) -> None:
        """Run the chosen row; a greyed one does nothing."""
        match = self.list.currentIndex().data(MATCH_ROLE)
        if not isinstance(match, ItemMatch) or not match.item.is_enabled:
            return
        key = match.item.key
        self._used = [key, *(other for other in self._used if other != key)][:_N_REMEMBERED]
        self.close_palette()
        self._offers[key].run()

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Take the list's keys from the field; close when the user turns elsewhere."""
        if watched is self.field and isinstance(event, QKeyEvent):
            if event.type() == QEvent.Type.ShortcutOverride and event.key() in _OWN_KEYS:
                event.accept()
                return True
            if event.type() == QEvent.Type.KeyPress and self._takes(Qt.Key(event.key())):
                return True
        if watched is self.field and event.type() == QEvent.Type.FocusOut and self.isVisible():
            self._came_from = None
            self.hide()
        if watched is self._window and event.type() == QEvent.Type.Resize:
            self._place()
        return super().eventFilter(watched, event)

    def hideEvent(self, event: QHideEvent) -> None:
        self._window.removeEventFilter(self)
        super().hideEvent(event)

    def sizeHint(self) -> QSize:
        return QSize(round(type_px(_WIDTH_PX)), 56 + _N_ROWS * self._delegate.row_px())

    def _takes(self, key: Qt.Key) -> bool:
        if key == Qt.Key.Key_Escape:
            self.close_palette()
        elif key in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
            self.run_current()
        elif key in _MOVES:
            self._go_to(self.list.currentIndex().row() + _MOVES[key])
        else:
            return False
        return True

    def _go_to(self, row: int) -> None:
        n_rows = self.rows.rowCount()
        if n_rows:
            self.list.setCurrentIndex(self.rows.index(min(max(row, 0), n_rows - 1)))
            self.field.setAccessibleDescription(
                str(self.list.currentIndex().data(Qt.ItemDataRole.AccessibleTextRole))
            )

    def _on_edited(self, query: str) -> None:
        ranks = {key: rank + 1 for rank, key in enumerate(self._used)}
        self.rows.show_matches(find((offer.item for offer in self._offers.values()), query, used=ranks))
        self.nothing.setVisible(not self.rows.matches)
        self.list.setVisible(bool(self.rows.matches))
        self._go_to(0)
        self._place()

    def _on_clicked(self, index: QModelIndex) -> None:
        self.list.setCurrentIndex(index)
        self.run_current()

    def _place(self) -> None:
        width = min(self.sizeHint().width(), self._window.width() - 32)
        n_rows = min(max(self.rows.rowCount(), 1), _N_ROWS)
        wanted = self.field.sizeHint().height() + 32 + n_rows * self._delegate.row_px()
        height = min(wanted, self._window.height() - _TOP_PX - 16)
        self.setGeometry((self._window.width() - width) // 2, _TOP_PX, width, height)


_OWN_KEYS = (Qt.Key.Key_Escape, Qt.Key.Key_Return, Qt.Key.Key_Enter, *_MOVES)
