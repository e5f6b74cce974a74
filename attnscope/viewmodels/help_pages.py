"""The help pages: reading them, searching them, and the page for the current view.

A page is a Markdown file whose first line is its title. Its links go to other pages (`help:name#heading`),
tours (`tour:name`), pages of the program (`page:train`), labs (`lab:name`), questions (`ask:name`), recipes
(`recipe:name`) and models that come with the program (`model:name`), nowhere else.
"""

import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from inspect import cleandoc
from pathlib import Path
from typing import ClassVar, Protocol

from attnscope import labs
from attnscope.errors import LoadError
from attnscope.fields import help_rows
from attnscope.questions import QUESTIONS, Question
from attnscope.schemes import module_names
from attnscope.schemes.masks import MASKS
from attnscope.schemes.measures import MEASURES
from attnscope.schemes.mixers import MIXERS
from attnscope.schemes.norms import NORMS
from attnscope.schemes.objectives import OBJECTIVES
from attnscope.schemes.optimizers import OPTIMIZERS
from attnscope.schemes.positions import POSITIONS
from attnscope.schemes.residuals import RESIDUALS
from attnscope.schemes.scores import SCORES
from attnscope.schemes.tokenizers import KINDS as TOKENIZERS

LINK = re.compile(r"\[([^\]]+)\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^(#{1,3}) +(.+?)\s*$", re.MULTILINE)
_MARKS = re.compile(r"[*`#|$]|\[([^\]]*)\]\([^)]*\)|^- ", re.MULTILINE)
_EXCERPT = 90
MAX_BYTES = 100_000

TOPICS = "topics"
"""The page whose headings are what a lecture is about; the command palette knows them."""
STUDENTS = "students"
"""The page whose headings are what students ask; so does the palette."""

HELP_OF_VIEWS: Mapping[str, str] = {
    "explore": "explore",
    "explore/inside": "inside",
    "compare": "compare",
    "heads": "heads",
    "heads/Pruning": "pruning",
    "heads/Alike": "alike",
    "heads/Weights": "weights",
    "positions": "positions",
    "train": "train",
    "labs": "labs",
    "learn": "learn",
}
"""The help of each page, and of those of its tabs and views that have their own."""
HELP_OF_DIALOGS: Mapping[str, str] = {
    "ExportDialog": "export",
    "FolderDialog": "models",
    "CostDialog": "cost",
    "LongerDialog": "train",
    "MaskDialog": "masks",
    "PruneDialog": "remove-heads",
    "ShelfDialog": "models",
    "ShortcutsSheet": "keys",
    "SweepDialog": "train",
}
"""The help of each dialog, by its class."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HelpPage:
    """One page; `group` is its group in the list, `text` the Markdown with its title."""

    name: str
    title: str
    group: str
    text: str

    @property
    def headings(self) -> tuple[str, ...]:
        """Every heading below the title."""
        return tuple(words for marks, words in _HEADING.findall(self.text) if len(marks) > 1)

    @property
    def parts(self) -> tuple[tuple[str, str], ...]:
        """Heading and plain text of each part; the heading of the first is empty."""
        return tuple((heading, _plain(text)) for heading, text in _sections(self))

    @property
    def links(self) -> tuple[str, ...]:
        """Targets of its links."""
        return tuple(target for _words, target in LINK.findall(self.text))


@dataclass(frozen=True, slots=True, kw_only=True)
class HelpFound:
    """A search result; `heading` empty: before the first one."""

    page: HelpPage
    heading: str
    excerpt: str


def read_help(folder: Path) -> tuple[HelpPage, ...]:
    """Every page of `contents.toml`, in order; raises LoadError naming what is missing or wrong."""
    try:
        groups = tomllib.loads((folder / "contents.toml").read_text(encoding="utf-8"))["group"]
        names = [(str(group["title"]), str(name)) for group in groups for name in group["pages"]]
        return tuple(_read(folder / f"{name}.md", group) for group, name in names)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise LoadError(
            f"The help in {folder} cannot be read: {error}.",
            kind="help",
            expected="contents.toml and one Markdown file for each page it names",
            action="Install AttnScope again.",
        ) from error


def heading_slug(heading: str) -> str:
    """A heading as written in a link: letters and digits, joined by hyphens."""
    return "-".join(re.findall(r"[^\W_]+", heading.lower()))


def find_in_help(pages: tuple[HelpPage, ...], query: str) -> tuple[HelpFound, ...]:
    """Sections that contain every word of the query: titles, then headings, then text.

    Of texts those come first that have them as whole words: "knock" rather than "knocked".
    """
    words = query.lower().split()
    if not words:
        return ()
    ranked: list[tuple[int, int, HelpFound]] = []
    for number, page in enumerate(pages):
        for heading, text in _sections(page):
            whole = f"{page.title} {heading} {text}".lower()
            if all(word in whole for word in words):
                in_title = all(word in page.title.lower() for word in words)
                in_heading = all(word in heading.lower() for word in words)
                is_own = any(word in f"{heading} {text}".lower() for word in words) or not heading
                if not is_own or (in_title and heading and not in_heading):
                    continue
                are_whole = set(words) <= set(re.findall(r"\w+", whole))
                rank = 0 if in_title else 1 if in_heading else 2 if are_whole else 3
                found = HelpFound(page=page, heading=heading, excerpt=_excerpt(text, words))
                ranked.append((rank, number, found))
    return tuple(found for _rank, _number, found in sorted(ranked, key=lambda entry: entry[:2]))


def help_name(page: str, tab: str = "", view: str = "") -> str:
    """The help page for the current view: of the tab or view if it has one, else of the page."""
    for place in (f"{page}/{tab}", f"{page}/{view}", page):
        if place in HELP_OF_VIEWS:
            return HELP_OF_VIEWS[place]
    return "learn"


def _read(path: Path, group: str) -> HelpPage:
    if path.stat().st_size > MAX_BYTES:
        raise ValueError(f"{path.name} is larger than {MAX_BYTES} bytes")
    text = path.read_text(encoding="utf-8").strip() + "\n"
    for name, written in _LISTS.items():
        text = text.replace(f"{{{{{name}}}}}", written()) if f"{{{{{name}}}}}" in text else text
    first = text.partition("\n")[0]
    if not first.startswith("# "):
        raise ValueError(f"{path.name} does not begin with a title")
    return HelpPage(name=path.stem, title=first[2:].strip(), group=group, text=text)


def _scores() -> str:
    return "\n".join(
        _choice(score.name, score.formula, score.source, score.choices) for score in SCORES.values()
    )


def _measures() -> str:
    rows = ((one.title, one.unit, one.definition.replace("|", "∣")) for one in MEASURES.values())
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _labs() -> str:
    parts = []
    for lab in labs.LABS.values():
        about = cleandoc(lab.help)
        words = "\n\n".join(" ".join(one.split()) for one in about.split("\n\n"))
        parts.append(f"## {lab.name}\n\n{words}")
        if isinstance(lab, labs.Lab):
            rows = help_rows(lab.example)
            parts.append("\n".join(f"- `{name}`: {tip}: {expected}" for name, tip, expected, _ in rows))
    return "\n\n".join(parts)


def _choice(name: str, words: str, source: str, keys: tuple[str, ...]) -> str:
    return f"- `{name}`: {words}" + (f" ({source})" if source else "") + "".join(f", `{key}`" for key in keys)


def _positions() -> str:
    """The recipe values for positions, as a list with formulas."""
    told = (
        (one, f"{one.words}, `{one.formula}`" if one.formula else one.words) for one in POSITIONS.values()
    )
    return "\n".join(_choice(one.name, words, one.source, one.choices) for one, words in told)


def _position_formulas() -> str:
    """Every position scheme as a row of a table: name, formulas, source."""
    rows = (
        (one.title, ", ".join(f"${part}$" for part in one.formula.split(",   ")), one.source)
        for one in POSITIONS.values()
        if one.formula
    )
    return "\n".join(f"| {' | '.join(cell.replace('|', '∣') for cell in row)} |" for row in rows)


def _worded(schemes: Mapping[str, "_Worded"]) -> str:
    return "\n".join(_choice(one.name, one.words, one.source, one.choices) for one in schemes.values())


class _Worded(Protocol):
    name: ClassVar[str]
    words: ClassVar[str]
    source: ClassVar[str]
    choices: ClassVar[tuple[str, ...]]


def _questions() -> str:
    """Every question under a heading of its own, with its source, needs and options."""
    return "\n".join(line for question in QUESTIONS.values() for line in _lines_about(question))


def _lines_about(question: Question) -> Iterator[str]:
    words = f"{question.words[:1].upper()}{question.words[1:]}"
    source = f" ({question.source})" if question.source else ""
    yield from (f"## {question.title}", "", f"{words}{source}. Needs {question.needs}.", "")
    if question.formula:
        yield from (f"`{question.formula}`", "")
    yield f"- `attnscope ask {question.name} MODEL --text TEXT`"
    for name, tip, expected, default in help_rows(question.options):
        yield f"- `{name}`: {tip} ({expected}; at first {default})."
    yield ""


_LISTS: Mapping[str, Callable[[], str]] = {
    "scores": _scores,
    "measures": _measures,
    "positions": _positions,
    "position formulas": _position_formulas,
    "masks": lambda: _worded(MASKS),
    "mixers": lambda: _worded(MIXERS),
    "norms": lambda: _worded(NORMS),
    "residuals": lambda: _worded(RESIDUALS),
    "labs": _labs,
    "questions": _questions,
    "objectives": lambda: _worded(OBJECTIVES),
    "optimizers": lambda: _worded(OPTIMIZERS),
    "tokenizers": lambda: _worded(TOKENIZERS),
    "views": lambda: ", ".join(f"`{name}`" for name in module_names("attnscope.figures.views")),
}
"""Parts that a page can include by name in double braces."""


def _sections(page: HelpPage) -> list[tuple[str, str]]:
    parts = re.split(r"^#{1,3} +(.+?)\s*$", page.text, flags=re.MULTILINE)
    pairs = list(zip(parts[1::2], parts[2::2], strict=True))
    return [("" if k == 0 else heading, text) for k, (heading, text) in enumerate(pairs)]


def _plain(text: str) -> str:
    return " ".join(_MARKS.sub(lambda found: found[1] or "", text).split())


def _excerpt(text: str, words: list[str]) -> str:
    plain = _plain(text)
    places = [plain.lower().find(word) for word in words]
    first = min((place for place in places if place >= 0), default=0)
    begin = plain.rfind(" ", 0, max(first - _EXCERPT // 3, 0)) + 1
    shown = plain[begin : begin + _EXCERPT]
    return f"{'…' if begin else ''}{shown}{'…' if begin + _EXCERPT < len(plain) else ''}"
