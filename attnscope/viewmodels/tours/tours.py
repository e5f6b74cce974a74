"""Guided tours as data: what a tour holds, and reading it strictly from TOML.

A step says what the window shows (`do`), which part of it is pointed at, and what is read there. What a
step does not say stays as the step before left it, so every step can be gone to from anywhere. Only the
files that come with the program are read.
"""

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Literal, get_args

from attnscope.errors import LoadError, UserError
from attnscope.records.sites import STACKS, Gates, HeadRef
from attnscope.viewmodels.causes.inside import STEPS, Step
from attnscope.viewmodels.view_state import HeadViewKind, Page

Point = Literal[
    "page", "text", "tokens", "grid", "head", "inspector", "gate", "answers", "steps", "query",
    "table", "measure", "card", "curves", "run-curves", "recipe", "start", "watch", "run",
    "schemes", "positions", "offsets", "lab", "lab-side", "lab-list", "page-bar",
]  # fmt: skip
POINTS: tuple[Point, ...] = get_args(Point)
"""The parts of the window that a step can point at."""
PLACEHOLDER = re.compile(r"\{([a-z][a-z_0-9]*)\}")
MAX_BYTES = 100_000
_MAX_STEPS = 24
_MAX_TEXT, _MAX_TITLE = 700, 80
_CLAIM = re.compile(r"([a-z][a-z_0-9]*) ([=<>]) (.+)")
_HEAD = re.compile(r"(encoder|decoder|cross|pool) L(\d{1,3})H(\d{1,3})")


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """What the window shows; None: left as it is.

    `target` empty lets the model write its own. `query` and `key` name a token by its piece, the second of
    the same by `piece#2`. `measures`, `prunes` and `trains` ask for the pass over texts, the pruning curves
    and a training run.
    """

    model: str | None = None
    text: str | None = None
    target: str | None = None
    head: HeadRef | None = None
    gates: Gates | None = None
    page: Page | None = None
    tab: str | None = None
    lab: str | None = None
    view: HeadViewKind | None = None
    inside: Step | None = None
    query: str | None = None
    key: str | None = None
    schemes: tuple[str, ...] | None = None
    recipe: str | None = None
    measures: bool | None = None
    prunes: bool | None = None
    trains: bool | None = None

    def then(self, later: "Scene") -> "Scene":
        """This scene with everything that a later one says; what belonged to what went away goes with it."""
        said = {f.name: getattr(later, f.name) for f in fields(later)}
        said = {name: value for name, value in said.items() if value is not None}
        kept = self
        if "model" in said and said["model"] != self.model:
            kept = replace(kept, text=None, target=None, head=None, gates=None, measures=None, prunes=None)
        is_new_view = "view" in said and said["view"] != self.view
        if is_new_view or said.keys() & {"model", "text", "head"}:
            kept = replace(kept, query=None, key=None)
        if "text" in said:
            kept = replace(kept, target=None)
        if "page" in said and said["page"] != self.page:
            kept = replace(kept, tab=None, lab=None)
        return replace(kept, **said)


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """What a text says of a number: that it is, or is larger or smaller than, a value."""

    name: str
    sign: str
    value: str

    def is_met(self, words: str | None) -> bool:
        """Whether the number in `words` is so; one that is not there never is."""
        if words is None:
            return False
        if self.sign == "=":
            return words == self.value
        number = float(words.replace("−", "-").replace(",", "").lstrip("<"))
        return number > float(self.value) if self.sign == ">" else number < float(self.value)


@dataclass(frozen=True, slots=True, kw_only=True)
class TourStep:
    """One step: what is said, with `{numbers}` of the window in it, and what is shown meanwhile.

    `point` is what is outlined. `ask` is what the person may do here, named by `task`; it may as well be done
    for them. `expect` is what the text claims of its numbers, so that a test can hold it to that.
    """

    title: str
    text: str
    formula: str = ""
    do: Scene = field(default_factory=Scene)
    point: Point = "page"
    task: str = ""
    ask: Scene | None = None
    expect: tuple[Claim, ...] = ()

    @property
    def placeholders(self) -> tuple[str, ...]:
        """The names of all numbers in the texts, each once."""
        found = PLACEHOLDER.findall(f"{self.text} {self.formula} {self.task}")
        return tuple(dict.fromkeys(found))


@dataclass(frozen=True, slots=True, kw_only=True)
class Tour:
    """A tour; `name` is its file's, `entries` are those of the catalogue that it shows."""

    name: str
    title: str
    theme: str
    order: int
    steps: tuple[TourStep, ...]
    entries: tuple[str, ...] = ()

    def scene(self, index: int) -> Scene:
        """What the window shows at a step: all steps up to it, with what was asked before, in their order."""
        scene = Scene()
        for step in self.steps[:index]:
            scene = scene.then(step.do)
            scene = scene.then(step.ask) if step.ask is not None else scene
        return scene.then(self.steps[index].do)


NO_TOUR = Tour(name="", title="", theme="", order=0, steps=())
"""What is on while no tour is."""


def read_tours(folder: Path) -> tuple[Tour, ...]:
    """Every tour of a folder, in its order; raises LoadError naming the file and what is wrong in it."""
    tours = (tour_from_toml(_content(path), name=path.stem) for path in sorted(folder.glob("*.toml")))
    return tuple(sorted(tours, key=lambda tour: (tour.order, tour.name)))


def tour_from_toml(text: str, *, name: str) -> Tour:
    """Read one tour strictly; raises LoadError for unknown keys, wrong types and impossible values."""
    try:
        values = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise _refuse(name, str(error)) from error
    table = _Table(values, name, "the tour")
    table.only({"title", "theme", "order", "entries", "step"})
    steps = values.get("step")
    if not isinstance(steps, list) or not 1 <= len(steps) <= _MAX_STEPS:
        raise _refuse(name, f"it has no list of 1 to {_MAX_STEPS} steps")
    order = values.get("order")
    if type(order) is not int:
        raise _refuse(name, "'order' of the tour is not a whole number")
    return Tour(
        name=name,
        title=table.words("title", _MAX_TITLE),
        theme=table.words("theme", 2 * _MAX_TITLE),
        order=order,
        entries=table.strings("entries") or (),
        steps=tuple(_step(_Table(entry, name, f"step {k}")) for k, entry in enumerate(steps, start=1)),
    )


class _Table:
    """Reads the keys of one TOML table; each fault is refused by name."""

    def __init__(self, values: object, file: str, what: str) -> None:
        self._file, self._what = file, what
        if not isinstance(values, dict):
            raise self.refuse("it is not a table")
        self.values: Mapping[str, object] = values

    def refuse(self, reason: str) -> LoadError:
        return _refuse(self._file, f"in {self._what} {reason}")

    def only(self, known: set[str]) -> None:
        for name in self.values:
            if name not in known:
                raise self.refuse(f"the key '{name}' is not known")

    def words(self, name: str, most: int, *, is_needed: bool = True) -> str:
        value = self.values.get(name, "")
        if not isinstance(value, str) or len(value) > most or (is_needed and not value.strip()):
            raise self.refuse(f"'{name}' is not a text of 1 to {most} characters")
        return value.strip()

    def maybe(self, name: str) -> str | None:
        value = self.values.get(name)
        if value is not None and (not isinstance(value, str) or len(value) > _MAX_TEXT):
            raise self.refuse(f"'{name}' is not a text")
        return value

    def flag(self, name: str) -> bool | None:
        value = self.values.get(name)
        if value is not None and value is not True:
            raise self.refuse(f"'{name}' can only be true")
        return value

    def strings(self, name: str) -> tuple[str, ...] | None:
        value = self.values.get(name)
        if value is None:
            return None
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise self.refuse(f"'{name}' is not a list of texts")
        return tuple(value)

    def table(self, name: str) -> "_Table | None":
        value = self.values.get(name)
        return None if value is None else _Table(value, self._file, f"{self._what}, '{name}',")

    def choice(self, name: str, known: tuple[str, ...]) -> str | None:
        value = self.maybe(name)
        if value is not None and value not in known:
            raise self.refuse(f"'{name}' is '{value[:40]}', not one of {', '.join(known)}")
        return value


def _step(table: _Table) -> TourStep:
    table.only({"title", "text", "formula", "do", "point", "task", "ask", "expect"})
    do, ask = table.table("do"), table.table("ask")
    if (ask is None) != ("task" not in table.values):
        raise table.refuse("'task' and 'ask' go together")
    points: dict[str, Point] = {name: name for name in POINTS}
    return TourStep(
        title=table.words("title", _MAX_TITLE),
        text=table.words("text", _MAX_TEXT),
        formula=table.words("formula", 2 * _MAX_TITLE, is_needed=False),
        do=_scene(do) if do is not None else Scene(),
        point=points[table.choice("point", POINTS) or "page"],
        task=table.words("task", 2 * _MAX_TITLE, is_needed=False),
        ask=_scene(ask) if ask is not None else None,
        expect=tuple(_claim(table, words) for words in table.strings("expect") or ()),
    )


def _claim(table: _Table, words: str) -> Claim:
    found = _CLAIM.fullmatch(words)
    if found is None:
        raise table.refuse(f"'{words[:40]}' is not a claim like 'weight > 0.5'")
    return Claim(name=found[1], sign=found[2], value=found[3])


def _scene(table: _Table) -> Scene:
    table.only({f.name for f in fields(Scene)})
    head, gates = table.maybe("head"), table.strings("gates")
    scene = Scene(
        model=table.maybe("model"),
        text=table.maybe("text"),
        target=table.maybe("target"),
        tab=table.maybe("tab"),
        lab=table.maybe("lab"),
        query=table.maybe("query"),
        key=table.maybe("key"),
        recipe=table.maybe("recipe"),
        measures=table.flag("measures"),
        prunes=table.flag("prunes"),
        trains=table.flag("trains"),
        head=_head(table, head) if head is not None else None,
        gates=_gates(table, gates) if gates is not None else None,
        schemes=table.strings("schemes"),
        page=table.choice("page", get_args(Page)),  # type: ignore[arg-type]
        view=table.choice("view", get_args(HeadViewKind)),  # type: ignore[arg-type]
        inside=table.choice("inside", STEPS),  # type: ignore[arg-type]
    )
    if scene.target is not None and scene.text is None:
        raise table.refuse("'target' is given without 'text'")
    return scene


def _head(table: _Table, words: str) -> HeadRef:
    found = _HEAD.fullmatch(words)
    if found is None:
        raise table.refuse(f"'{words[:40]}' is not a head like 'cross L1H4'")
    stack = next(stack for stack in STACKS if stack == found[1])
    return HeadRef(stack=stack, layer=int(found[2]), head=int(found[3]))


def _gates(table: _Table, entries: tuple[str, ...]) -> Gates:
    gates: dict[HeadRef, float] = {}
    for entry in entries:
        words, _, value = entry.rpartition(" ")
        try:
            gates[_head(table, words)] = float(value)
            Gates.of(gates)
        except (ValueError, UserError) as error:
            if isinstance(error, LoadError):
                raise
            raise table.refuse(f"'{entry[:40]}' is not a gate like 'cross L1H4 0'") from error
    return Gates.of(gates)


def _content(path: Path) -> str:
    try:
        if path.stat().st_size > MAX_BYTES:
            raise _refuse(path.stem, f"it is larger than {MAX_BYTES} bytes")
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise _refuse(path.stem, str(error)) from error


def _refuse(name: str, reason: str) -> LoadError:
    return LoadError(
        f"The tour '{name}' cannot be read: {reason}.",
        kind="tour",
        expected="a tour as it comes with the program",
        action="Install AttnScope again.",
    )
