"""Formulas as they are typed in one line, taken apart: scripts, fractions, roots, brackets, variables.

    typed                          becomes
    d_head, a^(2i), T², rₗ₊₁       scripts
    q·k / √d   with spaces         a fraction; what is between operators stands above the line
    ∂h_T/∂h_t                      a fraction; any other slash without spaces stays a slash
    √d, √(ln d)                    a root, without the brackets
    one letter                     a variable, in italics; words and numbers are upright

Must not import Qt; `figures/paint_formula.py` draws what comes out.
"""

import re
import unicodedata
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

Kind = Literal["variable", "upright", "operator", "large"]


@dataclass(frozen=True, slots=True)
class Symbol:
    """Some letters of one kind."""

    text: str
    kind: Kind


@dataclass(frozen=True, slots=True)
class Space:
    """A place where a line may end."""


@dataclass(frozen=True, slots=True)
class Scripted:
    """A base with what stands below and above at its right."""

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
    """Parts beside each other."""

    parts: tuple["Node", ...]


Node = Symbol | Space | Scripted | Fraction | Root | Fence | Row

_CLOSING = {"(": ")", "[": "]", "‖": "‖", "|": "|"}
_BETWEEN = frozenset("+−-=≈≤≥<>→←∼,;:±")
"""What ends a numerator or a denominator."""
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
    """The parts of a formula of one line; whatever cannot be taken apart stays as it is typed."""
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
        """Everything up to `closer`, which is left standing; up to the end when there is none."""
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
        """Read one part, or hang a script on the last one."""
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
        """What was filled in, not read as a formula; a sum of numbers in its terms, to be broken there."""
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
        """Whether the bracket that opens here is closed before one around it is."""
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
        """What a script or a root holds: a bracket without its brackets, or one part."""
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
        """The factors that follow without a space."""
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
    """Whether what follows belongs to it, as to the ∂ of ∂ gate and the sum of Σ w."""
    return isinstance(part, Symbol) and (part.kind == "large" or part.text == "∂")


def _without_brackets(parts: list[Node]) -> Row:
    if len(parts) == 1 and isinstance(parts[0], Fence) and parts[0].left == "(":
        return parts[0].inside
    return Row(tuple(parts))


def _is_greek(letter: str) -> bool:
    return "Α" <= letter <= "ω" or letter == "ϕ"


def _is_script(letter: str) -> bool:
    return letter in _SUPER or letter in _SUB
