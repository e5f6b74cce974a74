"""Figures to SVG, PDF and PNG: rendered into memory, checked, then written in one step.

Qt reports success on a full disk and gives a null image when one is too large; here nothing reaches
the disk that was not complete and readable in memory.
"""

import html
import re
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

from PySide6.QtCore import QBuffer, QIODevice, QMarginsF, QPointF, QRectF, QSize, QSizeF
from PySide6.QtGui import (
    QColor,
    QFont,
    QFontInfo,
    QFontMetricsF,
    QImage,
    QPageLayout,
    QPageSize,
    QPainter,
    QPdfWriter,
)
from PySide6.QtSvg import QSvgGenerator

from attnscope.errors import UserError
from attnscope.figures.colours import LIGHT
from attnscope.figures.figure_file import figure_file_bytes, what_to_keep
from attnscope.figures.file_names import ENDINGS, Format, checked_target, slug_of, unknown_format
from attnscope.figures.html_page import html_bytes
from attnscope.figures.page import check_font, check_width, paint_figure
from attnscope.figures.spec import LAYOUT_DPI, MM_PER_INCH, FigureSpec, as_drawn, check_dots, check_spec
from attnscope.figures.style import LARGE_PX, NORMAL_PX, SMALL_PX, font, paper_type, plain_text, wrapped
from attnscope.figures.words_and_numbers import csv_bytes, npz_bytes, program_version
from attnscope.files import replace_file

# Texts of an SVG as other programs need them: a family that each has, and the direction of each run.

_TEXT = re.compile(r"<text ([^>]*)>([^<]*)</text>")
_FAMILY = re.compile(r'font-family="([^"]*)"')
_X = re.compile(r'(?<![\w-])x="[^"]*"')
_BOLD = 600
_ALIASES = ("Sans Serif", "Sans", "Serif", "Monospace", ".AppleSystemUIFont", "MS Shell Dlg 2")
"""A system's alias for its default font, unknown to other systems."""
_GENERIC = ("sans-serif", "serif", "monospace")
_SANS = ("Helvetica", "Arial", "Liberation Sans", "sans-serif")
_SERIF, _MONO = ("Times", "Times New Roman", "serif"), ("Courier", "Courier New", "monospace")
_ALIKE = (
    (_MONO, ("mono", "courier", "consol", "typewriter", "code")),
    (_SANS, ("sans", "gothic")),
    (_SERIF, ("serif", "times", "roman", "garamond", "georgia", "palat", "minion", "libertine", "cambria")),
)
"""Which families stand in for one that is called like this."""
_RIGHT_TO_LEFT, _LEFT_TO_RIGHT = ("R", "AL"), "L"


def mended_texts(svg: str) -> str:
    """The same SVG, each text with a fallback font family, and its direction if right to left."""
    return _TEXT.sub(_mended, svg)


def is_right_to_left(text: str) -> bool:
    """Whether the first letter with a direction is right to left (Unicode annex 9, rule P2)."""
    directions = map(unicodedata.bidirectional, text)
    first = next((d for d in directions if d in (*_RIGHT_TO_LEFT, _LEFT_TO_RIGHT)), _LEFT_TO_RIGHT)
    return first in _RIGHT_TO_LEFT


def _begins_and_ends_with_letters(text: str) -> bool:
    return all(unicodedata.bidirectional(letter) in _RIGHT_TO_LEFT for letter in (text[0], text[-1]))


def _mended(found: re.Match[str]) -> str:
    attributes, text = found.groups()
    plain = html.unescape(text)
    if is_right_to_left(plain):
        n_after = len(plain) - len(plain.rstrip(" "))
        place = float(_named("x", attributes)) + _width(" " * n_after, attributes)
        attributes = _X.sub(f'x="{place:g}"', attributes)
        if not _begins_and_ends_with_letters(plain.strip(" ")):  # or every program knows its order
            attributes = f'direction="rtl" text-anchor="end" {attributes}'  # its end is its left edge
        text = text.strip(" ")
    return f"<text {_FAMILY.sub(_with_fallback, attributes)}>{text}</text>"


def _width(text: str, attributes: str) -> float:
    return float(QFontMetricsF(_face(attributes)).horizontalAdvance(text))


def _face(attributes: str) -> QFont:
    face = QFont(_named("font-family", attributes))
    face.setPixelSize(round(float(_named("font-size", attributes))))
    face.setBold(int(_named("font-weight", attributes)) >= _BOLD)
    return face


def _named(name: str, attributes: str) -> str:
    found = re.search(rf'(?<![\w-]){name}="([^"]*)"', attributes)
    if found is None:
        raise ValueError(f"a text without {name}: {attributes}")
    return found.group(1)


def _with_fallback(found: re.Match[str]) -> str:
    """The font family used, by its own name and not by this system's name for it, then similar ones."""
    families = [name.strip().strip("'") for name in found.group(1).split(",")]
    named = [name for name in families if name not in _GENERIC]
    own = [QFontInfo(QFont(name)).family() if name in _ALIASES else name for name in named]
    others = next((rest for rest, words in _ALIKE if any(w in own[0].lower() for w in words)), _SANS)
    quoted = [name if name.isalnum() else f"'{name}'" for name in dict.fromkeys((*own, *others[:-1]))]
    return f'font-family="{", ".join([*quoted, others[-1]])}"'


_PDF_DPI = 1200


def render(spec: FigureSpec, format: Format, *, folder: Path | None = None) -> bytes:
    """Render the figure as the bytes of a file; raises UserError if it cannot be made.

    `folder` is where a figure file will be: a model under it is named by its path from there.
    """
    check_spec(spec)
    match format:
        case "svg" | "pdf" | "png":
            check_width(spec)
            check_font(spec.style.font)
            return {"svg": _svg, "pdf": _pdf, "png": _png}[format](as_drawn(spec))
        case "csv":
            return csv_bytes(as_drawn(spec))
        case "npz":
            return npz_bytes(as_drawn(spec))
        case "html":
            return html_bytes(as_drawn(spec))
        case "figure":
            return figure_file_bytes(what_to_keep(spec), folder=folder)
        case _:
            raise unknown_format(str(format))


def save(spec: FigureSpec, path: Path | str) -> Path:
    """Write the figure in the format of the path's extension; returns the path written.

    Without an extension `.svg` is added. Raises UserError for an unknown one, SaveError when the file
    cannot be written; an older file is then untouched.
    """
    target, format = checked_target(path)
    replace_file(target, render(spec, format, folder=target.parent))
    return target


def suggested_name(spec: FigureSpec, format: Format = "svg") -> str:
    """A safe file name for the figure: short, in plain letters, the same for the same figure."""
    parts = [spec.caption.model if spec.caption else "", spec.view, *spec.name_parts()]
    words = "-".join(part for part in parts if part)
    return f"{slug_of(words)}{ENDINGS[format]}"


def image(spec: FigureSpec) -> QImage:
    """The figure as pixels at its own resolution; raises UserError if there are too many."""
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
        paint_figure(painter, as_drawn(spec))
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
    content = _exact_size(_numbered_patterns(mended_texts(content.decode())), spec).encode()
    try:
        ElementTree.fromstring(content)
    except ElementTree.ParseError as error:
        raise _broken("SVG") from error
    return content


def _exact_size(svg: str, spec: FigureSpec) -> str:
    """The size as requested, where Qt rounds it to whole pixels; without empty groups.

    Groups name a font too, which is that of no text: every text names its own.
    """
    size = f'width="{spec.width_mm:g}mm" height="{spec.height_mm:g}mm"'
    svg = re.sub(r'width="[\d.]+mm" height="[\d.]+mm"', size, svg, count=1)
    svg = re.sub(r"<g [^>]*>\s*</g>\s*", "", svg)
    return re.sub(r'(<g [^>]*?)\s*font-family="[^>]*?font-style="[^"]*"', r"\1", svg)


def _numbered_patterns(svg: str) -> str:
    """Number the hatches from 1: Qt names them by their address in memory, which changes each time."""
    numbers: dict[str, str] = {}
    return re.sub(
        r"(?<=texpattern_)[0-9a-f]+", lambda m: numbers.setdefault(m[0], str(len(numbers) + 1)), svg
    )


def _pdf(spec: FigureSpec) -> bytes:
    size_mm = spec.width_mm, spec.height_mm
    content = _pdf_of(_xml_title(spec), size_mm, lambda painter, _new_page: paint_figure(painter, spec))
    return _exact_page(content, spec)


def _pdf_of(
    title: str, size_mm: tuple[float, float], paint: Callable[[QPainter, Callable[[], object]], None]
) -> bytes:
    """A PDF of pages of one size; `paint` gets a painter in layout pixels, and a function that begins another
    page.
    """
    buffer = _open_buffer()
    writer = QPdfWriter(buffer)
    writer.setCreator(f"AttnScope {program_version()}")
    writer.setTitle(title)
    writer.setResolution(_PDF_DPI)
    match = QPageSize.SizeMatchPolicy.ExactMatch
    size = QPageSize(QSizeF(*size_mm), QPageSize.Unit.Millimeter, "", match)
    writer.setPageLayout(QPageLayout(size, QPageLayout.Orientation.Portrait, QMarginsF(0, 0, 0, 0)))
    with QPainter(writer) as painter:
        painter.setRenderHint(QPainter.RenderHint.LosslessImageRendering, True)
        painter.scale(_PDF_DPI / LAYOUT_DPI, _PDF_DPI / LAYOUT_DPI)
        paint(painter, writer.newPage)
    content = _spaces_as_spaces(bytes(buffer.data().data()))
    if not content.startswith(b"%PDF") or b"%%EOF" not in content[-64:]:
        raise _broken("PDF")
    return content


_A4_MM = (210.0, 297.0)
_EDGE_PX, _NOTE_LINE_PX, _NAME_LINE_PX = 68.0, 19.0, 24.0
_MOST_OF_PAGE, _MOST_GROWN = 0.68, 1.5


@dataclass(frozen=True, slots=True, kw_only=True)
class HandoutPage:
    """A name, what is `shown` below it (a figure, a picture, or nothing), and a note below that."""

    name: str
    shown: FigureSpec | QImage | None
    note: str = ""


def handout_bytes(pages: Sequence[HandoutPage], title: str) -> bytes:
    """A PDF on A4, one page for each of the pages; a long note continues on the next."""

    def paint(painter: QPainter, new_page: Callable[[], object]) -> None:
        with paper_type():
            for k, page in enumerate(pages):
                if k:
                    new_page()
                _paint_handout_page(painter, page, f"{k + 1} of {len(pages)}", new_page)

    return _pdf_of(plain_text(title), _A4_MM, paint)


def _paint_handout_page(
    painter: QPainter, page: HandoutPage, number: str, new_page: Callable[[], object]
) -> None:
    width, height = (mm / MM_PER_INCH * LAYOUT_DPI for mm in _A4_MM)
    sheet = QRectF(0, 0, width, height)
    room = sheet.adjusted(_EDGE_PX, _EDGE_PX, -_EDGE_PX, -_EDGE_PX)
    y = room.top()
    name, plain = font(LARGE_PX, is_bold=True), font(NORMAL_PX)
    _paint_footer(painter, room, number)
    for line in wrapped((plain_text(page.name),), room.width(), name):
        y += _NAME_LINE_PX
        _write_line(painter, QPointF(room.left(), y - 6), line, name)
    y += 12
    y += _paint_shown(
        painter, page.shown, QRectF(room.left(), y, room.width(), _MOST_OF_PAGE * room.height())
    )
    y += 12
    for line in wrapped(map(plain_text, page.note.split("\n")), room.width(), plain) if page.note else ():
        if y + _NOTE_LINE_PX > room.bottom() - _NOTE_LINE_PX:
            new_page()
            _paint_footer(painter, room, number)
            y = room.top()
        y += _NOTE_LINE_PX
        _write_line(painter, QPointF(room.left(), y), line, plain)


def _paint_shown(painter: QPainter, shown: FigureSpec | QImage | None, room: QRectF) -> float:
    """Draw it as large as fits, at most half as large again; returns its height."""
    if shown is None:
        return 0.0
    if isinstance(shown, QImage):
        wide, high = float(shown.width()), float(shown.height())
    else:
        wide, high = shown.width_px, shown.height_px
    scale = min(room.width() / wide, room.height() / high, _MOST_GROWN)
    painter.save()
    painter.translate(room.left() + (room.width() - wide * scale) / 2, room.top())
    painter.scale(scale, scale)
    if isinstance(shown, QImage):
        painter.drawImage(QRectF(0, 0, wide, high), shown)
    else:
        paint_figure(painter, as_drawn(shown))
    painter.restore()
    return float(high * scale)


def _paint_footer(painter: QPainter, room: QRectF, number: str) -> None:
    _write_line(painter, QPointF(room.left(), room.bottom()), number, font(SMALL_PX), LIGHT.muted)


def _write_line(painter: QPainter, at: QPointF, text: str, face: QFont, colour: str = LIGHT.text) -> None:
    painter.setFont(face)
    painter.setPen(QColor(colour))
    painter.drawText(at, text)


def _exact_page(pdf: bytes, spec: FigureSpec) -> bytes:
    """The page in the requested size, from its upper left corner: Qt rounds it to whole points."""
    width, height = (mm / MM_PER_INCH * 72 for mm in (spec.width_mm, spec.height_mm))

    def exact(found: re.Match[bytes]) -> bytes:
        top = float(found[2].split()[3])
        box = f"0 {top - height:.4g} {width:.6g} {top:g}".encode().ljust(len(found[2]))
        return found[0] if len(box) > len(found[2]) else found[1] + box + found[3]

    return re.sub(rb"((?:Media|Trim)Box \[)([^\]]*)(\])", exact, pdf, count=2)


def _spaces_as_spaces(pdf: bytes) -> bytes:
    """Make spaces searchable and copyable: Qt names their glyph a tabulator, which some fonts share."""

    def renamed(found: re.Match[bytes]) -> bytes:
        return re.sub(rb"\[[^\]]*\]", lambda names: names[0].replace(b"<0009>", b"<0020>"), found[0])

    return re.sub(rb"beginbfrange.*?endbfrange", renamed, pdf, flags=re.DOTALL)


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
