"""Remembering where things stand, and bringing it back whatever the settings hold."""

import functools
from collections.abc import Iterable, Mapping

from PySide6.QtCore import QRect, Qt
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QSplitter, QWidget

from attnscope.settings import Settings

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
