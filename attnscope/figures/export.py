"""Figures to SVG, PDF and PNG: rendered into memory, checked, then written in one step.

Qt reports success on a full disk and gives a null image when one is too large; here nothing reaches
the disk that was not complete and readable in memory.
"""

import hashlib
import re
import unicodedata
from pathlib import Path
from typing import Literal
from xml.etree import ElementTree

from PySide6.QtCore import QBuffer, QIODevice, QMarginsF, QRectF, QSize, QSizeF
from PySide6.QtGui import QColor, QImage, QPageLayout, QPageSize, QPainter, QPdfWriter
from PySide6.QtSvg import QSvgGenerator

from attnscope.errors import SaveError, UserError
from attnscope.figures.caption import program_version
from attnscope.figures.figure_file import ENDING, figure_file_bytes, what_to_keep
from attnscope.figures.html_page import html_bytes
from attnscope.figures.numbers import csv_bytes, npz_bytes
from attnscope.figures.paint_figure import paint_figure
from attnscope.figures.panels import shown_maps
from attnscope.figures.plain import plain_text
from attnscope.figures.room import check_width
from attnscope.figures.spec import LAYOUT_DPI, MM_PER_INCH, FigureSpec, check_dots, check_spec
from attnscope.figures.svg_text import mended_texts
from attnscope.files import replace_file

Format = Literal["svg", "pdf", "png", "csv", "npz", "html", "figure"]
FORMATS: tuple[Format, ...] = ("svg", "pdf", "png", "csv", "npz", "html", "figure")
ENDINGS: dict[Format, str] = {name: f".{name}" for name in FORMATS} | {"figure": ENDING}
_PDF_DPI = 1200
_RESERVED = {"con", "prn", "aux", "nul", *(f"com{i}" for i in range(10)), *(f"lpt{i}" for i in range(10))}


def render(spec: FigureSpec, format: Format, *, folder: Path | None = None) -> bytes:
    """The figure as the bytes of a file; raises UserError when it cannot be made.

    `folder` is where a figure file will be: a model under it is named by its path from there.
    """
    check_spec(spec)
    match format:
        case "svg" | "pdf" | "png":
            check_width(spec)
            return {"svg": _svg, "pdf": _pdf, "png": _png}[format](spec)
        case "csv":
            return csv_bytes(spec)
        case "npz":
            return npz_bytes(spec)
        case "html":
            return html_bytes(spec)
        case "figure":
            return figure_file_bytes(what_to_keep(spec), folder=folder)
        case _:
            raise _unknown_format(str(format))


def save(spec: FigureSpec, path: Path | str) -> Path:
    """Write the figure in the format of the path's extension; returns the path written.

    Without an extension `.svg` is added. Raises UserError for an unknown one, SaveError when the file
    cannot be written; an older file is then untouched.
    """
    target, format = target_of(path)
    if not target.parent.is_dir():
        raise SaveError(
            f"The folder {target.parent} does not exist.",
            expected="a folder to write the figure into",
            action="Choose another folder; nothing was written.",
        )
    replace_file(target, render(spec, format, folder=target.parent))
    return target


def target_of(path: Path | str) -> tuple[Path, Format]:
    """The path that `save` will write and its format: `.svg` is added where there is no extension."""
    target = Path(path)
    if not target.name or "\0" in str(path):
        raise UserError(f"'{path}' is not a file name.", expected="a name such as figure.svg")
    if not target.suffix:
        return _without_extension(target), "svg"
    name = target.name.lower()
    for format, ending in ENDINGS.items():
        if name.endswith(ending):
            return target, format
    raise _unknown_format(target.suffix[1:].lower())


def _without_extension(path: Path) -> Path:
    """Where a figure goes whose name tells no format: a pipe or a device is written into as it is."""
    if path.is_dir():
        raise SaveError(
            f"{path} is a folder.",
            expected="the name of a file, such as figure.svg",
            action=f"Write {path / 'figure.svg'}, say; nothing was written.",
        )
    is_stream = path.parent == Path("/dev") or (path.exists() and not path.is_file())
    return path if is_stream else path.with_name(path.name + ".svg")


def suggested_name(spec: FigureSpec, format: Format = "svg") -> str:
    """A safe file name for the figure: short, in plain letters, the same for the same figure."""
    parts = [spec.caption.model if spec.caption else "", spec.view]
    if spec.view in ("head", "lines", "panels", "picture"):
        maps = shown_maps(spec)
        stacks = dict.fromkeys(m.head.stack for m in maps)
        parts += [*stacks, *(m.head.label for m in maps[: 4 if spec.view == "panels" else 3])]
        if spec.part is not None:
            parts += [spec.part.tile.head.stack, spec.part.tile.head.label]
    elif spec.view == "grid":
        parts += dict.fromkeys(grid.site.stack for grid in spec.grids)
    elif spec.inside is not None:
        shown = spec.inside.inside
        parts += [shown.head.stack, shown.head.label, f"query {shown.query}"]
    elif spec.compared is not None:
        parts += [spec.compared.head.stack, spec.compared.head.label]
    words = "-".join(part for part in parts if part)
    return f"{slug_of(words)}{ENDINGS[format]}"


def slug_of(words: str) -> str:
    """A safe part of a file name in plain letters; a hash tells apart what lost letters on the way."""
    letters = unicodedata.normalize("NFKD", words).encode("ascii", "ignore").decode()
    slug = re.sub(r"[^A-Za-z0-9]+", "-", letters).strip("-")[:80].lower() or "figure"
    if slug in _RESERVED or slug != re.sub(r"[^a-z0-9]+", "-", words.lower()).strip("-"):
        slug = f"{slug[:70].strip('-')}-{hashlib.sha256(words.encode('utf-8', 'replace')).hexdigest()[:6]}"
    return slug


def image(spec: FigureSpec) -> QImage:
    """The figure as pixels at its own resolution; raises UserError when there are too many."""
    check_spec(spec)
    check_dots(spec)
    width, height = spec.size_in_dots
    picture = QImage(width, height, QImage.Format.Format_RGB32)
    if picture.isNull():
        raise UserError(
            f"There is not enough memory for an image of {width:,} × {height:,} pixels.",
            action="Choose fewer dots per inch, or SVG or PDF.",
        )
    dots_per_m = round(spec.dpi / MM_PER_INCH * 1000)
    picture.setDotsPerMeterX(dots_per_m)
    picture.setDotsPerMeterY(dots_per_m)
    picture.fill(QColor("#ffffff"))
    with QPainter(picture) as painter:
        painter.scale(width / spec.width_px, height / spec.height_px)
        paint_figure(painter, spec)
    return picture


def _png(spec: FigureSpec) -> bytes:
    picture = image(spec)
    picture.setText("Software", f"AttnScope {program_version()}")
    buffer = _open_buffer()
    is_written = picture.save(buffer, "PNG")  # type: ignore[call-overload]
    content = bytes(buffer.data().data())
    if not is_written or QImage.fromData(content).size() != picture.size():
        raise _broken("PNG")
    return content


def _svg(spec: FigureSpec) -> bytes:
    buffer = _open_buffer()
    generator = QSvgGenerator()
    generator.setOutputDevice(buffer)
    generator.setResolution(round(LAYOUT_DPI))
    generator.setSize(QSize(round(spec.width_px), round(spec.height_px)))
    generator.setViewBox(QRectF(0, 0, spec.width_px, spec.height_px))
    generator.setTitle(_xml_title(spec))
    generator.setDescription(f"AttnScope {program_version()}")
    with QPainter(generator) as painter:
        paint_figure(painter, spec)
    content = bytes(buffer.data().data())
    content = content.replace(b"<image ", b'<image style="image-rendering:pixelated" ')
    content = _numbered_patterns(mended_texts(content.decode())).encode()
    try:
        ElementTree.fromstring(content)
    except ElementTree.ParseError as error:
        raise _broken("SVG") from error
    return content


def _numbered_patterns(svg: str) -> str:
    """The hatches numbered from 1: Qt names them by their place in memory, another one each time."""
    numbers: dict[str, str] = {}
    return re.sub(
        r"(?<=texpattern_)[0-9a-f]+", lambda m: numbers.setdefault(m[0], str(len(numbers) + 1)), svg
    )


def _pdf(spec: FigureSpec) -> bytes:
    buffer = _open_buffer()
    writer = QPdfWriter(buffer)
    writer.setCreator(f"AttnScope {program_version()}")
    writer.setTitle(_xml_title(spec))
    writer.setResolution(_PDF_DPI)
    size = QPageSize(
        QSizeF(spec.width_mm, spec.height_mm),
        QPageSize.Unit.Millimeter,
        "",
        QPageSize.SizeMatchPolicy.ExactMatch,
    )
    writer.setPageLayout(QPageLayout(size, QPageLayout.Orientation.Portrait, QMarginsF(0, 0, 0, 0)))
    with QPainter(writer) as painter:
        painter.setRenderHint(QPainter.RenderHint.LosslessImageRendering, True)
        painter.scale(_PDF_DPI / LAYOUT_DPI, _PDF_DPI / LAYOUT_DPI)
        paint_figure(painter, spec)
    content = bytes(buffer.data().data())
    if not content.startswith(b"%PDF") or b"%%EOF" not in content[-64:]:
        raise _broken("PDF")
    return content


def _xml_title(spec: FigureSpec) -> str:
    return plain_text(spec.title or f"Attention: {spec.view}")


def _open_buffer() -> QBuffer:
    buffer = QBuffer()
    buffer.open(QIODevice.OpenModeFlag.ReadWrite)
    return buffer


def _broken(format: str) -> UserError:
    return UserError(
        f"The {format} came out incomplete; nothing was written.",
        action="Try a smaller size or another format.",
    )


def _unknown_format(extension: str) -> UserError:
    return UserError(
        f"'.{extension}' is not a format for figures.",
        expected=", ".join(ENDINGS.values()),
        action="Change the extension, or leave it out for .svg.",
    )
