"""Remembering where things stand, and bringing it back whatever the settings hold."""

from collections.abc import Iterable, Mapping

from PySide6.QtCore import QRect
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
    """The wished rectangle when its title can be reached on a screen; else one in the middle."""
    first = screens[0] if screens else QRect(0, 0, DEFAULT_WIDTH_PX, DEFAULT_HEIGHT_PX)
    if wish is not None and len(wish) == 4:
        rect = QRect(*wish)
        for screen in screens:
            seen = screen.intersected(QRect(rect.x(), rect.y(), rect.width(), _VISIBLE_PX))
            is_large = rect.width() >= _MIN_WIDTH_PX and rect.height() >= _MIN_HEIGHT_PX
            is_possible = rect.width() <= 2 * screen.width() and rect.height() <= 2 * screen.height()
            if is_large and is_possible and seen.width() >= _VISIBLE_PX and seen.height() >= _VISIBLE_PX // 2:
                return rect
    width, height = min(DEFAULT_WIDTH_PX, first.width()), min(DEFAULT_HEIGHT_PX, first.height())
    x = first.x() + (first.width() - width) // 2
    y = first.y() + (first.height() - height) // 2
    return QRect(x, y, width, height)


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
