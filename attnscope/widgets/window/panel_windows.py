"""Panels in windows of their own: taken out of the page, put back when the window closes."""

import functools
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from PySide6.QtCore import QObject, QRect, Qt, Signal
from PySide6.QtGui import QCloseEvent, QGuiApplication
from PySide6.QtWidgets import QMainWindow, QSplitter, QWidget

from attnscope.settings import Settings
from attnscope.widgets.form_parts import column
from attnscope.widgets.labels import PlainLabel, ground, push_button

# Remembering where things stand, and bringing it back whatever the settings hold.


DEFAULT_WIDTH_PX, DEFAULT_HEIGHT_PX = 1280, 800
_MIN_WIDTH_PX, _MIN_HEIGHT_PX = 800, 560
_VISIBLE_PX = 64


def restore_geometry(window: QWidget, settings: Settings) -> None:
    """Put the window where it was, or in the middle when that place cannot be seen any more."""
    screens = [screen.availableGeometry() for screen in QGuiApplication.screens()]
    window.setGeometry(usable_geometry(settings.geometry, screens))


def usable_geometry(wish: tuple[int, int, int, int] | None, screens: list[QRect]) -> QRect:
    """The wished rectangle when its title can be reached on a screen; else one in the middle.

    What is larger than the screens takes the room of the one where its title is.
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
                return rect if is_within else _inside(rect, screen)
    width, height = min(DEFAULT_WIDTH_PX, first.width()), min(DEFAULT_HEIGHT_PX, first.height())
    x = first.x() + (first.width() - width) // 2
    y = first.y() + (first.height() - height) // 2
    return QRect(x, y, width, height)


def _inside(rect: QRect, screen: QRect) -> QRect:
    """As much of the rectangle as a screen has room for, moved onto it."""
    width, height = min(rect.width(), screen.width()), min(rect.height(), screen.height())
    x = min(max(rect.x(), screen.x()), screen.x() + screen.width() - width)
    y = min(max(rect.y(), screen.y()), screen.y() + screen.height() - height)
    return QRect(x, y, width, height)


class SizesByType:
    """Where splitters stood at each size of type: labels push them aside, and they come back as they were."""

    def __init__(self, splitters: Mapping[str, QSplitter], settings: Settings) -> None:
        self._splitters = splitters
        self._kept: dict[float, dict[str, list[int]]] = {}
        self._everyday = dict(settings.splitters)

    def leave(self, factor: float) -> None:
        """Type is about to have another size than `factor`."""
        created = Qt.WidgetAttribute.WA_WState_Created
        self._kept[factor] = {n: s.sizes() for n, s in self._splitters.items() if s.testAttribute(created)}

    def enter(self, factor: float) -> bool:
        """Type has the size `factor` again: stand as then. Whether that is known."""
        everyday = {name: list(sizes) for name, sizes in self._everyday.items()} if factor == 1.0 else {}
        known = self._kept.pop(factor, everyday)
        for name, sizes in known.items():
            splitter = self._splitters.get(name)
            if splitter is not None and len(sizes) == splitter.count():
                splitter.setSizes(sizes)
        return bool(known)

    def to_remember(self, factor: float) -> tuple[tuple[str, tuple[int, ...]], ...]:
        """The sizes for the next start: those of type at a desk, where type is larger than that now."""
        now = dict(splitter_sizes(self._splitters, self._everyday.items()))
        if factor > 1.0:
            desk = {name: tuple(sizes) for name, sizes in self._kept.get(1.0, {}).items() if all(sizes)}
            now = {name: desk.get(name, self._everyday.get(name, sizes)) for name, sizes in now.items()}
        return tuple(now.items())


def restore_splitters(splitters: Mapping[str, QSplitter], settings: Settings) -> None:
    """Move the splitters where they were; sizes that do not fit are left out."""
    for name, sizes in settings.splitters:
        splitter = splitters.get(name)
        if splitter is None or len(sizes) != splitter.count():
            continue
        if all(0 <= size <= 20_000 for size in sizes) and sum(sizes) > 0:
            splitter.setSizes(list(sizes))


def splitter_sizes(
    splitters: Mapping[str, QSplitter], before: Iterable[tuple[str, tuple[int, ...]]] = ()
) -> tuple[tuple[str, tuple[int, ...]], ...]:
    """Where the splitters stand; where `before`, when a part of one is folded away now."""
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
    """What stands where a panel was."""

    def __init__(self, title: str, bring_back: Callable[[], None]) -> None:
        super().__init__()
        ground(self, "panel")
        label = PlainLabel(f"{title} is in its own window", "muted", wraps=True)
        self.button = push_button("Bring back", clicked=bring_back)
        column(label, self.button, None, on=self, margins=8, spacing=-1)

    def take_room(self, orientation: Qt.Orientation, *, has_limit: bool) -> int:
        """How much of a splitter this needs, in px; with a limit it takes no more when there is more."""
        if orientation == Qt.Orientation.Horizontal:
            self.setMaximumWidth(_GAP_PX[0] if has_limit else _MOST_PX)
            return _GAP_PX[0]
        self.setMaximumHeight(_GAP_PX[1] if has_limit else _MOST_PX)
        return _GAP_PX[1]


class PanelWindows(QObject):
    """Opens panels in windows of their own and knows where these are."""

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
        """The window of a panel, or None while it is in its page."""
        return self._open.get(name)

    def toggle(self, name: str) -> None:
        """Open a panel's window, or bring the panel back."""
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
        """Bring every panel back."""
        for window in tuple(self._open.values()):
            window.close()

    def end(self) -> None:
        """The program ends: remember where the windows are, then close them."""
        self._left = self.places()
        self.close_all()

    def places(self) -> tuple[Place, ...]:
        """Name, x, y, width and height of each open window."""
        seen = ((name, window.geometry()) for name, window in self._open.items() if window.isVisible())
        return (*self._left, *((name, r.x(), r.y(), r.width(), r.height()) for name, r in seen))

    def restore(self, places: tuple[Place, ...]) -> None:
        """Open the windows that were open."""
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
        """Small rooms for gaps, the rest in the proportions from before any panel left."""
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
            gap.setParent(None)
            window.content.show()
            self._share_out(splitter)
            gap.deleteLater()
        window.deleteLater()


def _is_reachable(place: QRect) -> bool:
    """Whether a window there has a sensible size and can be seen on a screen."""
    is_sensible = all(_LEAST_PX <= side <= _LARGEST_PX for side in (place.width(), place.height()))
    screens = [screen.availableGeometry() for screen in QGuiApplication.screens()]
    top = QRect(place.x(), place.y(), place.width(), 64)
    return is_sensible and any(
        seen.width() >= 64 and seen.height() >= 16 for seen in (s.intersected(top) for s in screens)
    )
