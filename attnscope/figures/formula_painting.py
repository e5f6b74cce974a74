"""Formulas typed in one line, parsed, and typeset as in a textbook."""

import re
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from PySide6.QtCore import QLineF, QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QFont, QFontMetricsF, QPainter, QPainterPath, QPen, QPolygonF

from attnscope.figures.style import type_px

Kind = Literal["variable", "upright", "operator", "large"]


@dataclass(frozen=True, slots=True)
class Symbol:
    """Some letters of one kind."""

    text: str
    kind: Kind


@dataclass(frozen=True, slots=True)
class Space:
    """A space at which a line may end."""


@dataclass(frozen=True, slots=True)
class Scripted:
    """A base with a subscript and a superscript."""

    base: "Node"
    sub: "Row | None" = None
    sup: "Row | None" = None


@dataclass(frozen=True, slots=True)
class Fraction:
    """One row over another."""

    top: "Row"
    bottom: "Row"


@dataclass(frozen=True, slots=True)
class Root:
    """A square root."""

    inside: "Row"


@dataclass(frozen=True, slots=True)
class Fence:
    """A row between brackets or bars."""

    left: str
    right: str
    inside: "Row"


@dataclass(frozen=True, slots=True)
class Row:
    """Parts side by side."""

    parts: tuple["Node", ...]


Node = Symbol | Space | Scripted | Fraction | Root | Fence | Row

_CLOSING = {"(": ")", "[": "]", "‖": "‖", "|": "|"}
_BETWEEN = frozenset("+−-=≈≤≥<>→←∼,;:±")
"""Ends a numerator or a denominator."""
_AFTER_UNIT = _BETWEEN | frozenset(" )]‖|/")
_SUPER = dict(zip("⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁼⁽⁾ⁿⁱᵀ′", "0123456789+−=()niT′", strict=True))
_SUB = dict(zip("₀₁₂₃₄₅₆₇₈₉₊₋₌₍₎ₐₑᵢⱼₖₗₘₙₒₚᵣₛₜᵤᵥₓ", "0123456789+−=()aeijklmnoprstuvx", strict=True))
_NUMBER = re.compile(r"\d+(?:[.,]\d+)*(?:e[-+−]?\d+)?")
_ISOLATE = "\u2068"
_SUM = re.compile(r"[(<−-]*[\d.]+\)?(?: \+ (?:[(<−-]*[\d.]+\)?|…))+")
_ISOLATED = re.compile("\u2068([^\u2069]*)\u2069")
_NAMED = re.compile(r"[A-Za-z]+\d[A-Za-z\d]*")
_LARGE = frozenset("ΣΠ")
_COMMAND = re.compile(r"attnscope\s")


@lru_cache(maxsize=256)
def parse_formula(text: str) -> Row:
    """The parts of a formula of one line; anything that cannot be parsed stays as typed."""
    if _COMMAND.match(text):
        return Row(tuple(_words(text)))
    return _Parser(text).row("")


def _words(text: str) -> list[Node]:
    parts: list[Node] = []
    for word in text.split(" "):
        parts += [Space(), Symbol(word, "upright")] if parts else [Symbol(word, "upright")]
    return parts


class _Parser:
    """Reads from `at` on; `depth` counts scripts, in which slashes stay slashes."""

    def __init__(self, text: str) -> None:
        self._text, self._at, self._depth = text, 0, 0

    def row(self, closer: str) -> Row:
        """Everything up to `closer`, which is not consumed; up to the end if there is none."""
        parts: list[Node] = []
        while self._at < len(self._text) and self._peek() != closer:
            if self._peek() == "/" and self._is_fraction(parts):
                parts = self._fraction(parts)
            else:
                self._append(parts)
        return Row(tuple(parts))

    def _peek(self, ahead: int = 0) -> str:
        return self._text[self._at + ahead : self._at + ahead + 1]

    def _append(self, parts: list[Node]) -> None:
        """Read one part, or attach a script to the last one."""
        letter = self._peek()
        if letter in _SUPER or letter in _SUB:
            table = _SUPER if letter in _SUPER else _SUB
            begin = self._at
            while self._peek() and self._peek() in table:
                self._at += 1
            letters = (table[c] for c in self._text[begin : self._at])
            script = Row(tuple(Symbol(c, "variable" if c.islower() else "upright") for c in letters))
            _hang(parts, script, is_sub=table is _SUB)
        elif letter in ("_", "^") and parts and not isinstance(parts[-1], Space):
            self._at += 1
            _hang(parts, self._script(), is_sub=letter == "_")
        elif letter == _ISOLATE:
            parts += self._filled_in()
        elif letter == " ":
            self._at += 1
            if not parts or not isinstance(parts[-1], Space):
                parts.append(Space())
        else:
            parts.append(self._atom())

    def _atom(self) -> Node:
        """One letter, word, number, root, bracket or operator."""
        letter = self._peek()
        if letter == _ISOLATE:
            return Row(tuple(self._filled_in()))
        found = _NUMBER.match(self._text, self._at)
        if found is not None:
            self._at = found.end()
            return Symbol(found[0], "upright")
        if letter == "√":
            self._at += 1
            return Root(self._bare(self._peek() == "("))
        if letter in _CLOSING and self._closes(letter):
            self._at += 1
            inside = self.row(_CLOSING[letter])
            self._at += 1
            return Fence(letter, _CLOSING[letter], inside)
        if letter.isalpha():
            return self._word()
        self._at += 1
        return Symbol(letter, "operator")

    def _filled_in(self) -> list[Node]:
        """A value filled in, not parsed as a formula; a line may break at the terms of a sum."""
        found = _ISOLATED.match(self._text, self._at)
        if found is None:
            self._at += 1
            return [Symbol(_ISOLATE, "operator")]
        self._at = found.end()
        if not _SUM.fullmatch(found[1]):
            return [Symbol(found[0], "upright")]
        parts: list[Node] = []
        for k, term in enumerate(found[1].split(" + ")):
            parts += [Space(), Symbol("+", "operator"), Space()] if k else []
            parts.append(Symbol(term, "upright"))
        return parts

    def _closes(self, opener: str) -> bool:
        """Whether the bracket that opens here is closed before an enclosing one."""
        depth, closer = 0, _CLOSING[opener]
        for letter in self._text[self._at + 1 :]:
            if depth == 0 and letter == closer:
                return True
            depth += (letter in "([") - (letter in ")]")
            if depth < 0:
                return False
        return False

    def _word(self) -> Symbol:
        """A run of letters; a Greek letter stands for itself, as does a single one. T5 is a name."""
        named = _NAMED.match(self._text, self._at)
        if named is not None:
            self._at = named.end()
            return Symbol(named[0], "upright")
        begin = self._at
        self._at += 1
        if not _is_greek(self._text[begin]):
            while self._peek().isalpha() and not _is_greek(self._peek()) and not _is_script(self._peek()):
                self._at += 1
        while self._peek() and unicodedata.combining(self._peek()):
            self._at += 1
        text = self._text[begin : self._at]
        if text in _LARGE:
            return Symbol(text, "large")
        is_single = len(unicodedata.normalize("NFC", text).rstrip("\u0304\u0302")) == 1
        is_article = text in ("a", "I") and bool(re.match(r" [a-z]{2}", self._text[self._at :]))
        is_upright = not is_single or is_article or (_is_greek(text[0]) and text.isupper())
        return Symbol(text, "upright" if is_upright else "variable")

    def _script(self) -> Row:
        self._depth += 1
        sign = ""
        if self._peek() in ("−", "-", "+"):
            sign, self._at = self._peek(), self._at + 1
        found = self._bare(self._peek() == "(")
        self._depth -= 1
        return Row((Symbol("−" if sign == "-" else sign, "operator"), *found.parts)) if sign else found

    def _bare(self, is_bracketed: bool) -> Row:
        """Content of a script or root: a bracket without its brackets, or one part."""
        if is_bracketed and self._closes("("):
            self._at += 1
            inside = self.row(")")
            self._at += 1
            return inside
        parts: list[Node] = [self._atom()] if self._peek().strip() else []
        while (
            parts and self._peek() and (_is_script(self._peek()) or (not self._depth and self._peek() == "_"))
        ):
            self._append(parts)
        return Row(tuple(parts))

    def _is_fraction(self, parts: list[Node]) -> bool:
        if self._depth or not parts:
            return False
        if isinstance(parts[-1], Space):
            return len(parts) > 1 and self._peek(1) == " " and self._peek(2) not in ("", " ")
        return self._peek(1) == "∂"

    def _fraction(self, parts: list[Node]) -> list[Node]:
        is_spaced = isinstance(parts[-1], Space)
        self._at += 2 if is_spaced else 1
        parts = parts[:-1] if is_spaced else parts
        cut = len(parts)
        while cut and not _ends_product(parts[cut - 1], is_spaced=is_spaced):
            cut -= 1
        while cut < len(parts) and isinstance(parts[cut], Space):
            cut += 1
        above, below = parts[cut:], self._unit()
        return [*parts[:cut], Fraction(_without_brackets(above), _without_brackets(below))]

    def _unit(self) -> list[Node]:
        """Consecutive factors without a space between them."""
        parts: list[Node] = []
        while self._peek() and self._peek() not in _AFTER_UNIT:
            self._append(parts)
            if self._peek() == " " and self._peek(1) not in _BETWEEN and _wants_more(parts[-1]):
                self._append(parts)
        if not parts and self._peek() in _CLOSING and self._closes(self._peek()):
            self._append(parts)
        return parts


def _hang(parts: list[Node], script: Row, *, is_sub: bool) -> None:
    base: Node = parts.pop() if parts and not isinstance(parts[-1], Space) else Symbol("", "upright")
    held = base if isinstance(base, Scripted) else Scripted(base)
    if is_sub and held.sub is None:
        parts.append(Scripted(held.base, script, held.sup))
    elif not is_sub and held.sup is None:
        parts.append(Scripted(held.base, held.sub, script))
    else:
        parts.append(Scripted(held, script if is_sub else None, None if is_sub else script))


def _ends_product(part: Node, *, is_spaced: bool) -> bool:
    if isinstance(part, Space):
        return not is_spaced
    return isinstance(part, Symbol) and part.kind == "operator" and part.text in _BETWEEN


def _wants_more(part: Node) -> bool:
    """Whether the following part belongs to it, as to the ∂ of ∂ gate and the sum of Σ w."""
    return isinstance(part, Symbol) and (part.kind == "large" or part.text == "∂")


def _without_brackets(parts: list[Node]) -> Row:
    if len(parts) == 1 and isinstance(parts[0], Fence) and parts[0].left == "(":
        return parts[0].inside
    return Row(tuple(parts))


def _is_greek(letter: str) -> bool:
    return "Α" <= letter <= "ω" or letter == "ϕ"


def _is_script(letter: str) -> bool:
    return letter in _SUPER or letter in _SUB


FACES = (
    "STIX Two Text",
    "Latin Modern Roman",
    "Libertinus Serif",
    "TeX Gyre Termes",
    "Cambria",
    "Times New Roman",
    "Liberation Serif",
    "Nimbus Roman",
    "DejaVu Serif",
)
"""The serif of formulas, the first that there is; letters it lacks come from others."""
LARGER = 1.24
"""A serif looks smaller than the letters around it: by so much its size in pixels is more than theirs."""
_SCRIPT, _LARGE_EM, _FRACTION = 0.72, 1.4, 0.94
_LINE_GAP, _HANGING = 0.3, 1.2
_PRODUCTS = frozenset("·×∘")
_SIGNS = _PRODUCTS | frozenset("+−=≈≤≥<>→:")
Paint = Callable[[QPainter, float, float], None]


@dataclass(frozen=True, slots=True)
class Box:
    """A typeset part: its size around its baseline, and how to paint it from its left end there."""

    width: float
    ascent: float
    descent: float
    paint: Paint


@dataclass(frozen=True, slots=True, kw_only=True)
class SetFormula:
    """A typeset formula. `baseline` is that of the first line, from the top; sizes in px."""

    lines: tuple[tuple[float, float, Box], ...]
    width: float
    height: float
    baseline: float

    def paint(self, painter: QPainter, left: float, top: float, colour: str) -> None:
        """Draw it with its upper left corner there."""
        painter.save()
        painter.setRenderHint(QPainter.RenderHint.Antialiasing, True)
        painter.setPen(QColor(colour))
        for x, baseline, box in self.lines:
            box.paint(painter, left + x, top + baseline)
        painter.restore()


def set_formula(texts: Sequence[str], size_px: int, room: float = 0.0) -> SetFormula:
    """Typeset formulas below each other, each broken at spaces where it exceeds `room` (0: never).

    `size_px` is that of the letters around it, as in `style.font`.
    """
    return _laid_out(tuple(texts), type_px(size_px) * LARGER, room, tuple(QFont().families()))


@lru_cache(maxsize=1024)
def _laid_out(texts: tuple[str, ...], em: float, room: float, _families: tuple[str, ...]) -> SetFormula:
    """Cached: a layout asks for the height of each formula repeatedly, at a few widths."""
    metrics = QFontMetricsF(_face(em))
    top, lines, width = 0.0, [], 0.0
    least_up, least_down = 0.78 * metrics.ascent(), 0.7 * metrics.descent()
    for text in texts:
        for k, box in enumerate(_broken(parse_formula(text).parts, em, room)):
            left = _HANGING * em if k else 0.0
            top += max(box.ascent, least_up)
            lines.append((left, top, box))
            width = max(width, left + box.width)
            top += max(box.descent, least_down) + _LINE_GAP * em
    height = max(top - _LINE_GAP * em, 0.0)
    return SetFormula(lines=tuple(lines), width=width, height=height, baseline=lines[0][1] if lines else 0.0)


def _broken(parts: tuple[Node, ...], em: float, room: float) -> list[Box]:
    """The lines of one formula: filled greedily, never broken inside brackets or fractions, complete.

    Whole terms stay together: a line ends before a sign, never after one and never beside a product's dot.
    What is wider than the room all the same is made smaller.
    """
    whole = _row(parts, em)
    if room <= 0.0 or whole.width <= room:
        return [whole]
    lines: list[Box] = []
    terms = _terms(parts)
    while terms:
        left = _HANGING * em if lines else 0.0
        n_taken = 1
        while n_taken < len(terms) and _row(_joined(terms[: n_taken + 1]), em).width + left <= room:
            n_taken += 1
        lines.append(_within(_row(_joined(terms[:n_taken]), em), room - left))
        terms = terms[n_taken:]
    return lines


def _terms(parts: tuple[Node, ...]) -> list[tuple[Node, ...]]:
    """Unbreakable parts, between the spaces at which a line may end."""
    terms: list[tuple[Node, ...]] = []
    begin = 0
    for k, part in enumerate(parts):
        before, after = parts[k - 1 : k], parts[k + 1 : k + 2]
        if isinstance(part, Space) and not _is_sign(before, _SIGNS) and not _is_sign(after, _PRODUCTS):
            terms.append(parts[begin:k])
            begin = k + 1
    return [term for term in (*terms, parts[begin:]) if term]


def _is_sign(parts: tuple[Node, ...], signs: frozenset[str]) -> bool:
    return any(isinstance(part, Symbol) and part.text in signs for part in parts)


def _joined(terms: Sequence[tuple[Node, ...]]) -> tuple[Node, ...]:
    parts: list[Node] = []
    for term in terms:
        parts += [Space(), *term] if parts else term
    return tuple(parts)


def _within(box: Box, room: float) -> Box:
    """The same, scaled down if it exceeds the room."""
    if box.width <= room or room <= 0.0:
        return box
    scale = room / box.width

    def paint(painter: QPainter, x: float, y: float) -> None:
        painter.save()
        painter.translate(x, y)
        painter.scale(scale, scale)
        box.paint(painter, 0.0, 0.0)
        painter.restore()

    return Box(room, box.ascent * scale, box.descent * scale, paint)


def _face(em: float, *, is_italic: bool = False) -> QFont:
    face = QFont()
    face.setFamilies([*FACES, *QFont().families()])
    face.setStyleHint(QFont.StyleHint.Serif)
    face.setPixelSize(max(round(em), 1))
    face.setItalic(is_italic)
    face.setHintingPreference(QFont.HintingPreference.PreferNoHinting)
    return face


def _axis(em: float) -> float:
    """Height of a minus sign's middle, on which the lines of fractions lie."""
    return -float(QFontMetricsF(_face(em)).tightBoundingRect("−").center().y())


def _set(node: Node, em: float) -> Box:
    match node:
        case Symbol():
            return _symbol(node, em)
        case Space():
            return Box(0.24 * em, 0.0, 0.0, _nothing)
        case Scripted():
            return _scripts(node, em)
        case Fraction():
            return _fraction(node, em)
        case Root():
            return _root(node, em)
        case Fence():
            return _fence(node, em)
        case Row():
            return _row(node.parts, em)


def _nothing(_painter: QPainter, _x: float, _y: float) -> None:
    """A space shows nothing."""


def _row(parts: tuple[Node, ...], em: float) -> Box:
    boxes = [_set(part, em) for part in parts]

    def paint(painter: QPainter, x: float, y: float) -> None:
        for box in boxes:
            box.paint(painter, x, y)
            x += box.width

    ascent = max((box.ascent for box in boxes), default=0.0)
    descent = max((box.descent for box in boxes), default=0.0)
    return Box(sum(box.width for box in boxes), ascent, descent, paint)


def _symbol(symbol: Symbol, em: float) -> Box:
    is_large = symbol.kind == "large"
    face = _face(em * _LARGE_EM if is_large else em, is_italic=symbol.kind == "variable")
    metrics = QFontMetricsF(face)
    tight = metrics.tightBoundingRect(symbol.text)
    ascent, descent = -float(tight.top()), float(tight.bottom())
    lower = (ascent - descent) / 2 - _axis(em) if is_large else 0.0
    overhang = max(float(tight.right()) - metrics.horizontalAdvance(symbol.text), 0.0)
    width = metrics.horizontalAdvance(symbol.text) + overhang

    def paint(painter: QPainter, x: float, y: float) -> None:
        painter.setFont(face)
        painter.drawText(QPointF(x, y + lower), symbol.text)

    return Box(width, ascent - lower, descent + lower, paint)


def _scripts(node: Scripted, em: float) -> Box:
    base = _set(node.base, em)
    small = em * _SCRIPT
    above = _row(node.sup.parts, small) if node.sup is not None else None
    below = _row(node.sub.parts, small) if node.sub is not None else None
    raised = max(0.4 * em, base.ascent - 0.32 * em)
    lowered = max(0.17 * em, base.descent + 0.02 * em)
    if below is not None and above is not None:
        lowered += max(above.descent - raised + below.ascent - lowered + 0.06 * em, 0.0)
    width = base.width + 0.04 * em + max(box.width for box in (above, below) if box is not None)

    def paint(painter: QPainter, x: float, y: float) -> None:
        base.paint(painter, x, y)
        if above is not None:
            above.paint(painter, x + base.width + 0.05 * em, y - raised)
        if below is not None:
            below.paint(painter, x + base.width + 0.01 * em, y + lowered)

    ascent = max(base.ascent, raised + above.ascent if above is not None else 0.0)
    descent = max(base.descent, lowered + below.descent if below is not None else 0.0)
    return Box(width, ascent, descent, paint)


def _fraction(node: Fraction, em: float) -> Box:
    top, bottom = _row(node.top.parts, em * _FRACTION), _row(node.bottom.parts, em * _FRACTION)
    axis, gap, side, thin = _axis(em), 0.16 * em, 0.1 * em, _thin(em)
    width = max(top.width, bottom.width) + 4 * side

    def paint(painter: QPainter, x: float, y: float) -> None:
        top.paint(painter, x + (width - top.width) / 2, y - axis - gap - top.descent)
        bottom.paint(painter, x + (width - bottom.width) / 2, y - axis + gap + bottom.ascent)
        _line(painter, QLineF(x + side, y - axis, x + width - side, y - axis), thin)

    ascent = axis + gap + top.descent + top.ascent
    return Box(width, ascent, bottom.ascent + bottom.descent + gap - axis, paint)


def _root(node: Root, em: float) -> Box:
    inside = _row(node.inside.parts, em)
    ascent = max(inside.ascent, 0.45 * em) + 0.16 * em
    descent, sign, thin = max(inside.descent, 0.02 * em), 0.58 * em, _thin(em)

    def paint(painter: QPainter, x: float, y: float) -> None:
        foot, top = y + descent, y - ascent
        height = ascent + descent
        points = [
            QPointF(x + 0.06 * em, foot - 0.42 * height),
            QPointF(x + 0.18 * em, foot - 0.48 * height),
            QPointF(x + 0.34 * em, foot),
            QPointF(x + sign - 0.03 * em, top),
            QPointF(x + sign + inside.width + 0.08 * em, top),
        ]
        painter.save()
        painter.setPen(QPen(painter.pen().color(), thin))
        painter.setBrush(Qt.BrushStyle.NoBrush)
        painter.drawPolyline(QPolygonF(points))
        painter.setPen(QPen(painter.pen().color(), 1.9 * thin))
        painter.drawLine(QLineF(points[1], points[2]))
        painter.restore()
        inside.paint(painter, x + sign, y)

    return Box(sign + inside.width + 0.12 * em, ascent + thin, descent, paint)


def _fence(node: Fence, em: float) -> Box:
    inside = _row(node.inside.parts, em)
    axis = _axis(em)
    half = max(inside.ascent - axis, inside.descent + axis)
    half = half + 0.04 * em if half > 0.66 * em else 0.56 * em  # letters are no reason to grow
    left, right = _bracket(node.left, half, em), _bracket(node.right, half, em)

    def paint(painter: QPainter, x: float, y: float) -> None:
        left.paint(painter, x, y - axis)
        inside.paint(painter, x + left.width, y)
        right.paint(painter, x + left.width + inside.width, y - axis)

    width = left.width + inside.width + right.width
    return Box(width, max(inside.ascent, axis + half), max(inside.descent, half - axis), paint)


def _bracket(sign: str, half: float, em: float) -> Box:
    """A bracket or bar around the axis, `half` to each side; painted with the axis as its baseline."""
    thin = _thin(em)
    if sign in "|‖":
        places = (0.14,) if sign == "|" else (0.1, 0.26)

        def paint_bars(painter: QPainter, x: float, y: float) -> None:
            for place in places:
                at = x + place * em
                _line(painter, QLineF(at, y - half, at, y + half), thin)

        return Box((0.28 if sign == "|" else 0.38) * em, half, half, paint_bars)
    path = QPainterPath()
    path.addText(QPointF(0.0, 0.0), _face(em), sign)
    bounds = path.boundingRect()
    stretch = 2 * half / max(bounds.height(), 1e-6)

    def paint(painter: QPainter, x: float, y: float) -> None:
        painter.save()
        painter.translate(x + 0.05 * em - bounds.left(), y - half - bounds.top() * stretch)
        painter.scale(1.0, stretch)
        painter.fillPath(path, painter.pen().color())
        painter.restore()

    return Box(bounds.width() + 0.1 * em, half, half, paint)


def _line(painter: QPainter, line: QLineF, width: float) -> None:
    """A line of one width, aligned to whole pixels if horizontal."""
    at = round(line.y1() - width / 2) if line.y1() == line.y2() else line.y1()
    if line.y1() == line.y2():
        painter.fillRect(QRectF(line.x1(), at, line.length(), width), painter.pen().color())
    else:
        painter.fillRect(
            QRectF(line.x1() - width / 2, line.y1(), width, line.length()), painter.pen().color()
        )


def _thin(em: float) -> float:
    return max(1.0, 0.055 * em)
