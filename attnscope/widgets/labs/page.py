"""The Labs page: a list of labs by group at the left, the chosen one beside it, created on first use."""

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, Protocol, cast, runtime_checkable

from PySide6.QtCore import QEvent, QObject, Qt, Signal
from PySide6.QtGui import QKeyEvent, QKeySequence, QShowEvent
from PySide6.QtWidgets import (
    QBoxLayout,
    QComboBox,
    QFrame,
    QLineEdit,
    QListWidget,
    QListWidgetItem,
    QStackedWidget,
    QWidget,
)

from attnscope.figures.spec import FigureSpec
from attnscope.figures.style import type_px
from attnscope.labs.lab import GROUPS, AnyLab, Lab, LabEntry
from attnscope.viewmodels.labs.controls import LabControls, LabValues, UnkeptControls
from attnscope.viewmodels.palette import Item
from attnscope.viewmodels.states import LabStates
from attnscope.viewmodels.view_state import ViewState
from attnscope.widgets.command_palette import Offer
from attnscope.widgets.form_parts import column, row
from attnscope.widgets.labels import ElidedLabel, PlainLabel, ground, named, plain_tooltip, when
from attnscope.widgets.theme import Dressed


class LabWidget(Protocol):
    """The page's interface of a lab, which is also a QWidget; the signals carry a text and nothing."""

    hover_text: Any
    export_wanted: Any

    def figure_spec(self) -> FigureSpec | None:
        """Figure for Ctrl+E; None while there is nothing to export."""
        ...


@runtime_checkable
class HasControls(Protocol):
    """A lab whose controls can be undone, reset to the example and saved."""

    @property
    def controls(self) -> LabControls[Any]:
        """Controls of the lab."""
        ...


@runtime_checkable
class LinksToPages(Protocol):
    """A lab with a link to another page; the signal carries the page's key."""

    page_wanted: Any


def make_lab(entry: LabEntry, states: LabStates) -> QWidget:
    """The widget of a lab: its own, or the general view of labs drawn from their choice.

    Those that ask the worker get their own of the `states`.
    """
    own = _OWN.get(entry.name)
    if own is not None:
        return own(entry, states)
    if not isinstance(entry, Lab):
        raise TypeError(f"the lab {entry.name} has neither a picture nor a widget")
    if entry.asks:
        from attnscope.widgets.labs.measured import make_asking_view

        return make_asking_view(entry, states.experiments)
    from attnscope.widgets.labs.lab_view import LabView

    return LabView(entry)


def _cost(entry: LabEntry, _states: LabStates) -> QWidget:
    from attnscope.widgets.labs.measured import make_cost_view

    return make_cost_view(cast("AnyLab", entry))


def _heads(entry: LabEntry, _states: LabStates) -> QWidget:
    from attnscope.widgets.labs.measured import make_heads_view

    return make_heads_view(cast("AnyLab", entry))


def _merges(_entry: LabEntry, states: LabStates) -> QWidget:
    from attnscope.widgets.labs.tokenizers_view import MergesView

    return MergesView(states.merges)


def _tokenizers(_entry: LabEntry, states: LabStates) -> QWidget:
    from attnscope.widgets.labs.tokenizers_view import TokenizersView

    return TokenizersView(states.tokenizers)


def _vocabulary(_entry: LabEntry, states: LabStates) -> QWidget:
    from attnscope.widgets.labs.vocabulary_view import VocabularyView

    return VocabularyView(states.vocabulary)


_OWN: Mapping[str, Callable[[LabEntry, LabStates], QWidget]] = {
    "Cost by length": _cost,
    "Cost of heads": _heads,
    "Merges replayed": _merges,
    "Tokenizers compared": _tokenizers,
    "Vocabulary": _vocabulary,
}


_LIST_PX, _NARROW_PX = 168, 1000
_OVERRIDE = QEvent.Type.ShortcutOverride


class LabsPage(Dressed):
    """Labs that show what attention computes and why it is built that way; most need no model.

    `controls_changed` when another lab is shown or something else is set in it.
    """

    hover_text = Signal(str)
    export_wanted = Signal()
    page_wanted = Signal(str)
    controls_changed = Signal()

    def __init__(
        self, states: LabStates, *, make: Callable[[LabEntry, LabStates], QWidget] = make_lab
    ) -> None:
        super().__init__()
        self._make_lab, self._states = make, states
        ground(self, "page")
        self.labs: dict[str, QWidget] = {}
        self.list = named(QListWidget(), "Labs", role="contents")
        self.list.setFrameShape(QFrame.Shape.NoFrame)
        self.list.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.box, self._shows = named(QComboBox(maxVisibleItems=30), "Labs"), ElidedLabel(role="muted")
        self._stack = QStackedWidget()
        self.side = self._build_side()
        self._parts = QBoxLayout(QBoxLayout.Direction.LeftToRight, self)
        self._parts.setContentsMargins(0, 0, 0, 0)
        self._parts.setSpacing(0)
        self._parts.addWidget(self.side)
        self._parts.addWidget(self._stack, 1)
        self._shown = ""
        self._no_controls: UnkeptControls[None] = UnkeptControls(None, lambda: None, lambda _: None)
        self.list.currentItemChanged.connect(self._on_current)
        self.box.activated.connect(self._on_box)
        self.fit_room()

    @property
    def entries(self) -> tuple[LabEntry, ...]:
        from attnscope.labs import LABS  # imports all of them: not before one is looked at

        return tuple(LABS.values())

    @property
    def shown(self) -> str:
        """The name of the current lab, or of the first one to be shown."""
        return self._shown or self.entries[0].name

    @property
    def controls(self) -> LabControls[Any]:
        """Controls of the current lab; none if it has none."""
        lab = self.labs.get(self._shown)
        return lab.controls if isinstance(lab, HasControls) else self._no_controls

    def values(self) -> LabValues:
        """Settings of the current lab, to be saved."""
        return self.controls.values

    def take_values(self, values: LabValues) -> None:
        """Restore the saved settings of the current lab."""
        if values:
            self.controls.take_values(values)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """A text field of a lab with nothing to undo leaves the keys of undo and redo to the lab."""
        if isinstance(watched, QLineEdit) and isinstance(event, QKeyEvent) and event.type() == _OVERRIDE:
            for keys, has_own in (
                (QKeySequence.StandardKey.Undo, watched.isUndoAvailable()),
                (QKeySequence.StandardKey.Redo, watched.isRedoAvailable()),
            ):
                if event.matches(keys) and not has_own:
                    event.ignore()
                    return True
        return super().eventFilter(watched, event)

    def show_lab(self, name: str) -> None:
        """Switch to a lab, creating it the first time. Raises KeyError for an unknown name."""
        entry = {entry.name: entry for entry in self.entries}[name]
        self._shown = name
        if not self.list.count():
            self._list_labs()
            self.fit_room()
        self._mark_shown(entry)
        if name not in self.labs:
            self.labs[name] = self._make(entry)
        self._stack.setCurrentWidget(self.labs[name])
        self._tell()

    def figure_spec(self) -> FigureSpec | None:
        """The current lab as a figure; None while the page is hidden."""
        lab = self.labs.get(self._shown)
        return cast("LabWidget", lab).figure_spec() if lab is not None and self.isVisible() else None

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        self.show_lab(self.shown)

    def _tell(self) -> None:
        self.controls_changed.emit()

    def _tell_of(self, lab: str) -> None:
        """Report changed settings of a lab while it is current."""
        if lab == self._shown:
            self._tell()

    # Building

    def _make(self, entry: LabEntry) -> QWidget:
        widget = self._make_lab(entry, self._states)
        lab = cast("LabWidget", widget)
        lab.hover_text.connect(self.hover_text)
        lab.export_wanted.connect(self.export_wanted)
        if isinstance(widget, LinksToPages):
            widget.page_wanted.connect(self.page_wanted)
        if isinstance(widget, HasControls):
            when(self, partial(self._tell_of, entry.name), widget.controls.changed)
        self._stack.addWidget(widget)
        for field in widget.findChildren(QLineEdit):
            field.installEventFilter(self)
        return widget

    def _list_labs(self) -> None:
        """Name every lab, by groups: in the list and in the box."""
        for group in GROUPS:
            entries = [entry for entry in self.entries if entry.group == group]
            if not entries:
                continue
            heading = QListWidgetItem(group)
            heading.setFlags(Qt.ItemFlag.NoItemFlags)
            self.list.addItem(heading)
            if self.box.count():
                self.box.insertSeparator(self.box.count())
            for entry in entries:
                item = QListWidgetItem(entry.name)
                item.setToolTip(plain_tooltip(entry.shows))
                item.setData(Qt.ItemDataRole.UserRole, entry.name)
                self.list.addItem(item)
                self.box.addItem(entry.name, entry.name)

    def _build_side(self) -> QWidget:
        side = ground(QWidget(), "panel", edge="right")
        layout = column(self.list, on=side, margins=(0, 4, 1, 4), spacing=0)
        self._above = QWidget()
        row(
            PlainLabel("Lab", "small"),
            self.box,
            (self._shows, 1),
            on=self._above,
            margins=(12, 0, 12, 0),
            spacing=12,
        )
        layout.addWidget(self._above)
        return side

    def fit_room(self) -> None:
        """Put the list beside the lab, or as a combo box above it if the lab would have little room."""
        bar = self.list.verticalScrollBar().sizeHint().width()
        longest = self.list.sizeHintForColumn(0) + 2 * self.list.frameWidth() + bar
        self.list.setFixedWidth(max(round(type_px(_LIST_PX)), longest))
        is_narrow = self.width() < type_px(_NARROW_PX)
        if is_narrow != self.list.isHidden() or self._above.isHidden() == is_narrow:
            self.list.setVisible(not is_narrow)
            self._above.setVisible(is_narrow)
            way = QBoxLayout.Direction.TopToBottom if is_narrow else QBoxLayout.Direction.LeftToRight
            self._parts.setDirection(way)
            self.side.setProperty("edge", "bottom" if is_narrow else "right")
            self.side.style().unpolish(self.side)
            self.side.style().polish(self.side)

    # Showing

    def _mark_shown(self, entry: LabEntry) -> None:
        for k in range(self.list.count()):
            item = self.list.item(k)
            if item.data(Qt.ItemDataRole.UserRole) == entry.name:
                self.list.setCurrentItem(item)
                self.list.scrollToItem(self.list.item(k - 1))  # the heading, where it is the first of a group
        self.box.setCurrentIndex(self.box.findData(entry.name))
        self._shows.set_full_text(entry.shows)

    def _on_box(self, index: int) -> None:
        self.show_lab(str(self.box.itemData(index)))

    def _on_current(self, item: QListWidgetItem | None) -> None:
        name = item.data(Qt.ItemDataRole.UserRole) if item is not None else None
        if name is not None and name != self._shown:
            self.show_lab(name)


def lab_offers(page: LabsPage, view: ViewState) -> Iterable[Offer]:
    """One palette offer for each lab, which switches to the page and to the lab."""
    for entry in page.entries:

        def run(name: str = entry.name) -> None:
            page.show_lab(name)
            view.show_page("labs")

        item = Item(
            key=f"lab:{entry.name}",
            kind="page",
            title=f"Lab: {entry.name}",
            detail=entry.shows,
            search=" ".join((entry.source, *entry.search, entry.help)),
        )
        yield Offer(item=item, run=run)
