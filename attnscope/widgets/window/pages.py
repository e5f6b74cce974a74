"""The pages of the window, one in front, and panels in windows of their own, detached from their page."""

import functools
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from PySide6.QtCore import QObject, QRect, Qt, Signal, Slot
from PySide6.QtGui import QAction, QCloseEvent, QGuiApplication
from PySide6.QtWidgets import QMainWindow, QSplitter, QStackedWidget, QStyle, QWidget

from attnscope.figures.spec import FigureSpec
from attnscope.settings import Settings
from attnscope.viewmodels.session.opening import Recents
from attnscope.viewmodels.states import States
from attnscope.viewmodels.view_state import Page, ViewState, page_named
from attnscope.widgets.actions import HEAD_ACTIONS
from attnscope.widgets.compare.page import ComparePage
from attnscope.widgets.explore.page import ExplorePage
from attnscope.widgets.export.figures_offered import SpecOfPage, offered_figures
from attnscope.widgets.form_parts import column
from attnscope.widgets.heads.page import HeadsPage
from attnscope.widgets.heads.tabs import HeadsTabs
from attnscope.widgets.labels import PlainLabel, ground, push_button, when
from attnscope.widgets.labs.page import LabsPage
from attnscope.widgets.map_widget import map_style
from attnscope.widgets.positions.page import PositionsPage
from attnscope.widgets.training.page import TrainingPage

# The Heads page as a whole: the table of all heads, pruning curves, which are alike, what weights say.


class Pages(QStackedWidget):
    """Every page by its name; the view state determines the one in front. `failed` carries (subject, why)."""

    failed = Signal(str, str)

    def __init__(
        self,
        states: States,
        view: ViewState,
        actions: Mapping[str, QAction],
        recents: Recents,
        *,
        offer_models: Callable[[], tuple[str, ...]],
        open_checkpoint: Callable[[str], None],
    ) -> None:
        super().__init__()
        session = states.session
        self._session, self._view = session, view
        head_actions = tuple(actions[name] for name in HEAD_ACTIONS)
        self.explore = ExplorePage(states, view, head_actions)
        self.compare = ComparePage(states.compare, session, view, offer_models=offer_models)
        self.heads = HeadsPage(states.heads)
        self.heads_tabs = HeadsTabs(self.heads, states)
        self.positions = PositionsPage(states.positions)
        self.training = TrainingPage(states.training, states.sweep, recents, open_checkpoint=open_checkpoint)
        self.labs = LabsPage(states.labs)
        self._tints, self._merges = states.tints, states.labs.merges
        self._pages: dict[Page, QWidget] = {}
        self.add("explore", self.explore)
        self.add("compare", self.compare)
        self.add("heads", self.heads_tabs)
        self.add("positions", self.positions)
        self.add("train", self.training)
        self.add("labs", self.labs)
        self._join(actions)
        when(self, self.show_page, view.changed.page)
        when(self, self._show_style, view.changed.style)

    def add(self, name: Page, page: QWidget) -> None:
        """Add a page."""
        self._pages[name] = page
        self.addWidget(page)

    def show_page(self) -> None:
        """Bring the page that the view state names to the front."""
        page = self._pages[self._view.page]
        if page is self.training and page.focusWidget() is None:
            page.upper_tabs.tabs["Curves"].setFocus()  # a key would change the recipe in the field before it
        elif page is self.explore and self._view.is_presenting:
            page.grid_panel.grid.setFocus()  # the keys of a lecture are the grid's
        self.setCurrentWidget(page)

    def splitters(self) -> dict[str, QSplitter]:
        """Every splitter whose position is saved, by a stable name."""
        found = self.explore.splitters()
        for name, splitters in (
            ("train", self.training.splitters()),
            ("positions", self.positions.splitters()),
            ("heads", self.heads.splitters()),
            ("compare", self.compare.splitters()),
        ):
            found |= {f"{name}.{k}": splitter for k, splitter in enumerate(splitters)}
        return found

    def offered_figures(self) -> dict[str, FigureSpec]:
        """Every figure that can be exported now, by its view."""
        pages: dict[Page, SpecOfPage] = {
            "explore": self.explore.ask.figure_spec,
            "compare": self.compare.figure_spec,
            "positions": self.positions.figure_spec,
            "train": self.training.figure_spec,
            "labs": self.labs.figure_spec,
        }
        head = self.explore.head_panel
        is_inside = self._view.view == "inside"
        return offered_figures(
            self._session,
            self._view,
            pages,
            part=head.long_part(),
            long_lines=head.long_lines(),
            inside=head.inside.figure() if is_inside else None,
            gold=head.gold_cells(),
            picture=head.picture.figure(),
        )

    def show_lab(self, name: str) -> None:
        """Switch to a lab; raises KeyError for an unknown one."""
        self.labs.show_lab(name)
        self._view.show_page("labs")

    # Inside

    def _join(self, actions: Mapping[str, QAction]) -> None:
        for page in (self.compare, self.positions, self.training, self.labs):
            page.hover_text.connect(self._view.set_pointer_text)
        for telling in (self.heads, self.heads_tabs, self.training):
            telling.failed.connect(self.failed)
        for heads in (self.heads, self.heads_tabs):
            heads.explore_wanted.connect(actions["page-explore"].trigger)
        self.heads.table.frames_wanted.connect(self._tints.choose_column)
        self.heads_tabs.remove_wanted.connect(actions["remove-heads"].trigger)
        self.labs.export_wanted.connect(actions["export"].trigger)
        self.labs.page_wanted.connect(self._on_page_wanted)
        self.positions.lab_wanted.connect(self.show_lab)
        self.explore.text_bar.merges_wanted.connect(self._on_merges_wanted)

    def _show_style(self) -> None:
        self.training.set_style(map_style(self._view))

    @Slot(str)
    def _on_merges_wanted(self, word: str) -> None:
        self.show_lab("Merges replayed")
        self._merges.show_word(word)

    @Slot(str)
    def _on_page_wanted(self, name: str) -> None:
        self._view.show_page(page_named(name) or self._view.page)


# Remembering where things stand, and bringing it back whatever the settings hold.


DEFAULT_WIDTH_PX, DEFAULT_HEIGHT_PX = 1280, 800
_MIN_WIDTH_PX, _MIN_HEIGHT_PX = 800, 560
_VISIBLE_PX = 64


def restore_geometry(window: QWidget, settings: Settings) -> None:
    """Restore the window's place, or centre it if that place is no longer visible."""
    title_px = window.style().pixelMetric(QStyle.PixelMetric.PM_TitleBarHeight)
    rooms = [screen.availableGeometry().adjusted(0, title_px, 0, 0) for screen in QGuiApplication.screens()]
    window.setGeometry(usable_geometry(settings.geometry, rooms))


def usable_geometry(wish: tuple[int, int, int, int] | None, screens: list[QRect]) -> QRect:
    """The requested rectangle if its top is reachable on a screen; else a centred one.

    What is larger than the screens, or mostly off them, takes the room of the one where its top is.
    """
    first = screens[0] if screens else QRect(0, 0, DEFAULT_WIDTH_PX, DEFAULT_HEIGHT_PX)
    if wish is not None and len(wish) == 4:
        rect = QRect(*wish)
        for screen in screens:
            seen = screen.intersected(QRect(rect.x(), rect.y(), rect.width(), _VISIBLE_PX))
            is_large = rect.width() >= _MIN_WIDTH_PX and rect.height() >= _MIN_HEIGHT_PX
            is_possible = rect.width() <= 2 * screen.width() and rect.height() <= 2 * screen.height()
            if is_large and is_possible and seen.width() >= _VISIBLE_PX and seen.height() >= _VISIBLE_PX // 2:
                whole = functools.reduce(QRect.united, screens)
                is_within = rect.width() <= whole.width() and rect.height() <= whole.height()
                return rect if is_within and _is_mostly_seen(rect, screens) else _inside(rect, screen)
    width, height = min(DEFAULT_WIDTH_PX, first.width()), min(DEFAULT_HEIGHT_PX, first.height())
    x = first.x() + (first.width() - width) // 2
    y = first.y() + (first.height() - height) // 2
    return QRect(x, y, width, height)


def _is_mostly_seen(rect: QRect, screens: list[QRect]) -> bool:
    """Whether at least half of a rectangle is on the screens; one may have been unplugged."""
    seen = (screen.intersected(rect) for screen in screens)
    return 2 * sum(part.width() * part.height() for part in seen) >= rect.width() * rect.height()


def _inside(rect: QRect, screen: QRect) -> QRect:
    """The rectangle shrunk to a screen and moved onto it."""
    width, height = min(rect.width(), screen.width()), min(rect.height(), screen.height())
    x = min(max(rect.x(), screen.x()), screen.x() + screen.width() - width)
    y = min(max(rect.y(), screen.y()), screen.y() + screen.height() - height)
    return QRect(x, y, width, height)


class SizesByType:
    """Splitter positions at each size of type: labels push parts aside, and they come back as they were."""

    def __init__(self, splitters: Mapping[str, QSplitter], settings: Settings) -> None:
        self._splitters = splitters
        self._kept: dict[float, dict[str, list[int]]] = {}
        self._everyday = dict(settings.splitters)

    def leave(self, factor: float) -> None:
        """Type is about to change its size from `factor`."""
        created = Qt.WidgetAttribute.WA_WState_Created
        self._kept[factor] = {n: s.sizes() for n, s in self._splitters.items() if s.testAttribute(created)}

    def enter(self, factor: float) -> bool:
        """Type has the size `factor` again: restore its sizes. Returns whether they are known."""
        everyday = {name: list(sizes) for name, sizes in self._everyday.items()} if factor == 1.0 else {}
        known = self._kept.pop(factor, everyday)
        for name, sizes in known.items():
            splitter = self._splitters.get(name)
            if splitter is not None and len(sizes) == splitter.count():
                splitter.setSizes(sizes)
        return bool(known)

    def to_remember(self, factor: float) -> tuple[tuple[str, tuple[int, ...]], ...]:
        """The sizes for the next start: those at normal type, if type is larger now."""
        now = dict(splitter_sizes(self._splitters, self._everyday.items()))
        if factor > 1.0 or 1.0 in self._kept:  # or where they are about to stand so again
            desk = {name: tuple(sizes) for name, sizes in self._kept.get(1.0, {}).items() if all(sizes)}
            now = {name: desk.get(name, self._everyday.get(name, sizes)) for name, sizes in now.items()}
        return tuple(now.items())


def restore_splitters(splitters: Mapping[str, QSplitter], settings: Settings) -> None:
    """Restore the splitters' positions; sizes that do not fit are ignored."""
    for name, sizes in settings.splitters:
        splitter = splitters.get(name)
        if splitter is None or len(sizes) != splitter.count():
            continue
        if all(0 <= size <= 20_000 for size in sizes) and sum(sizes) > 0:
            splitter.setSizes(list(sizes))


def splitter_sizes(
    splitters: Mapping[str, QSplitter], before: Iterable[tuple[str, tuple[int, ...]]] = ()
) -> tuple[tuple[str, tuple[int, ...]], ...]:
    """Positions of the splitters; `before` if a part of one is folded away now."""
    known, found = dict(before), {}
    for name, splitter in splitters.items():
        sizes = tuple(splitter.sizes())
        if all(sizes) or name in known:
            found[name] = sizes if all(sizes) else known[name]
    return tuple(found.items())


Place = tuple[str, int, int, int, int]
_LEAST_PX, _LARGEST_PX = 160, 12_000
_DEFAULT_PX = (720, 560)
_GAP_PX = (120, 88)
_MOST_PX = 16_777_215
"""No limit, as Qt says it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """One panel: its name, title, and the widget; `make` builds a second view instead of moving one."""

    name: str
    title: str
    widget: QWidget | None = None
    make: Callable[[], QWidget] | None = None


class PanelWindow(QWidget):
    """A window around one panel; `closed` carries the panel's name."""

    closed = Signal(str)

    def __init__(self, panel: Panel, content: QWidget, main: QMainWindow) -> None:
        super().__init__(main, Qt.WindowType.Window)
        self._name = panel.name
        self.setWindowTitle(f"{panel.title} – AttnScope")
        ground(self, "page")
        self.content = content
        column(content, on=self, spacing=-1)
        content.show()
        self.addActions(main.actions())

    def closeEvent(self, event: QCloseEvent) -> None:
        self.closed.emit(self._name)
        super().closeEvent(event)


class Gap(QWidget):
    """Placeholder for a panel that was moved out."""

    def __init__(self, title: str, bring_back: Callable[[], None]) -> None:
        super().__init__()
        ground(self, "panel")
        label = PlainLabel(f"{title} is in its own window", "muted", wraps=True)
        self.button = push_button("Bring back", clicked=bring_back)
        column(label, self.button, None, on=self, margins=8, spacing=-1)

    def take_room(self, orientation: Qt.Orientation, *, has_limit: bool) -> int:
        """Size of this in a splitter, in px; with a limit it takes no more if there is more."""
        if orientation == Qt.Orientation.Horizontal:
            self.setMaximumWidth(_GAP_PX[0] if has_limit else _MOST_PX)
            return _GAP_PX[0]
        self.setMaximumHeight(_GAP_PX[1] if has_limit else _MOST_PX)
        return _GAP_PX[1]


class PanelWindows(QObject):
    """Opens panels in windows of their own and keeps track of these."""

    def __init__(self, main: QMainWindow, panels: Mapping[str, Panel]) -> None:
        super().__init__(main)
        self._main, self._panels = main, dict(panels)
        self._open: dict[str, PanelWindow] = {}
        self._gaps: dict[str, tuple[Gap, QSplitter]] = {}
        self._whole_sizes: dict[QSplitter, list[int]] = {}
        self._left: tuple[Place, ...] = ()
        """Where the windows were when the program ended."""

    @property
    def names(self) -> tuple[str, ...]:
        """The panels that are in windows of their own."""
        return tuple(self._open)

    def window_of(self, name: str) -> PanelWindow | None:
        """The window of a panel, or None if it is in its page."""
        return self._open.get(name)

    def toggle(self, name: str) -> None:
        """Open a panel's window, or return the panel to its page."""
        if name in self._open:
            self._open[name].close()
        else:
            self.open(name)

    def open(self, name: str, place: QRect | None = None) -> None:
        """Show a panel in its own window; an unknown name does nothing."""
        panel = self._panels.get(name)
        if panel is None or name in self._open:
            return
        content = panel.make() if panel.make is not None else panel.widget
        if content is None:
            return
        if panel.make is None:
            self._leave_gap(panel, content)
        window = PanelWindow(panel, content, self._main)
        window.closed.connect(self._on_closed)
        self._open[name] = window
        if place is not None and _is_reachable(place):
            window.setGeometry(place)
        else:
            window.resize(*_DEFAULT_PX)
        window.show()

    def close_all(self) -> None:
        """Return every panel to its page."""
        for window in tuple(self._open.values()):
            window.close()

    def end(self) -> None:
        """The program ends: save the windows' places, then close them."""
        self._left = self.places()
        self.close_all()

    def places(self) -> tuple[Place, ...]:
        """Name, x, y, width and height of each open window."""
        seen = ((name, window.geometry()) for name, window in self._open.items() if window.isVisible())
        return (*self._left, *((name, r.x(), r.y(), r.width(), r.height()) for name, r in seen))

    def restore(self, places: tuple[Place, ...]) -> None:
        """Reopen the windows that were open."""
        for name, *place in places:
            self.open(name, QRect(*place))

    def _leave_gap(self, panel: Panel, content: QWidget) -> None:
        splitter = content.parentWidget()
        if not isinstance(splitter, QSplitter):
            return
        self._whole_sizes.setdefault(splitter, splitter.sizes())
        index = splitter.indexOf(content)
        gap = Gap(panel.title, lambda: self.toggle(panel.name))
        # Not replaceWidget: the binding then takes a moved widget for a child of its last parent still, and
        # forgets the menus in it when that parent goes.
        splitter.insertWidget(index, gap)
        gap.show()
        content.setParent(None)
        self._gaps[panel.name] = (gap, splitter)
        self._share_out(splitter)

    def _share_out(self, splitter: QSplitter) -> None:
        """Small sizes for gaps, the rest in the proportions from before any panel left."""
        sizes = self._whole_sizes[splitter]
        gaps = {splitter.indexOf(gap): gap for gap, at in self._gaps.values() if at is splitter}
        if not gaps:
            del self._whole_sizes[splitter]
            splitter.setSizes(sizes)
            return
        # A splitter of nothing but gaps must not become as small as they are.
        has_limit = len(gaps) < splitter.count()
        rooms = {k: gap.take_room(splitter.orientation(), has_limit=has_limit) for k, gap in gaps.items()}
        others = sum(size for k, size in enumerate(sizes) if k not in rooms)
        rest = max(sum(sizes) - sum(rooms.values()), 1) / max(others, 1)
        splitter.setSizes([rooms.get(k, round(size * rest)) for k, size in enumerate(sizes)])

    def _on_closed(self, name: str) -> None:
        window = self._open.pop(name, None)
        if window is None:
            return
        gap, splitter = self._gaps.pop(name, (None, None))
        if gap is not None and splitter is not None:
            splitter.insertWidget(splitter.indexOf(gap), window.content)
            gap.setParent(
                window
            )  # it may be in a click of its own: without a parent it would be gone at once
            window.content.show()
            self._share_out(splitter)
        window.deleteLater()


def _is_reachable(place: QRect) -> bool:
    """Whether a window there has a sensible size and is visible on a screen."""
    is_sensible = all(_LEAST_PX <= side <= _LARGEST_PX for side in (place.width(), place.height()))
    screens = [screen.availableGeometry() for screen in QGuiApplication.screens()]
    top = QRect(place.x(), place.y(), place.width(), 64)
    return is_sensible and any(
        seen.width() >= 64 and seen.height() >= 16 for seen in (s.intersected(top) for s in screens)
    )
