"""Files for a Linux desktop: icons, menu entry, kinds of files, metainfo."""

import gzip
import shutil
from collections.abc import Mapping
from pathlib import Path

from . import APP_ID, PACKAGING, ROOT

ICON_SIZES_PX = (16, 22, 24, 32, 48, 64, 128, 256, 512)
ICON = ROOT / "resources" / "icons" / "attnscope.svg"


def render_icon(size_px: int, path: Path) -> None:
    """Draw the program's icon as a square PNG; no display is needed."""
    from PySide6.QtCore import Qt
    from PySide6.QtGui import QImage, QPainter
    from PySide6.QtSvg import QSvgRenderer

    image = QImage(size_px, size_px, QImage.Format.Format_ARGB32)
    image.fill(Qt.GlobalColor.transparent)
    with QPainter(image) as painter:
        QSvgRenderer(str(ICON)).render(painter)
    path.parent.mkdir(parents=True, exist_ok=True)
    if not image.save(str(path)):
        raise OSError(f"{path} cannot be written")


def write_share(share: Path) -> None:
    """Write the menu entry, the metainfo, the kinds of files and the icons below a folder `share`."""
    for name, place in (
        (f"{APP_ID}.desktop", "applications"),
        (f"{APP_ID}.metainfo.xml", "metainfo"),
        (f"{APP_ID}.mime.xml", "mime/packages"),
    ):
        target = share / place / name.replace(".mime", "")
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(PACKAGING / name, target)
    icons = share / "icons" / "hicolor"
    for size_px in ICON_SIZES_PX:
        render_icon(size_px, icons / f"{size_px}x{size_px}" / "apps" / f"{APP_ID}.png")
    scalable = icons / "scalable" / "apps" / f"{APP_ID}.svg"
    scalable.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(ICON, scalable)


def write_pages(share: Path, pages: Mapping[str, str]) -> None:
    """Write texts at their places below a folder `share`; manual pages are packed, as `man` has them."""
    for place, text in pages.items():
        target = share / place
        if place.startswith("man/"):
            write_packed(target.with_name(f"{target.name}.gz"), text)
        else:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text, encoding="utf-8")


def write_packed(path: Path, text: str) -> None:
    """Write a text packed by gzip: the same text gives the same bytes."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(text.encode("utf-8"), 9, mtime=0))


def write_own_icons(folder: Path) -> None:
    """Write the icon as Windows and macOS want it: attnscope.ico and attnscope.icns."""
    from PIL import Image

    render_icon(1024, folder / "attnscope.png")
    with Image.open(folder / "attnscope.png") as image:
        image.save(folder / "attnscope.ico", sizes=[(size, size) for size in (16, 24, 32, 48, 64, 128, 256)])
        image.save(folder / "attnscope.icns")
