"""Guided tours as data, read strictly from TOML, and what a step needs from the window: scene and numbers."""

import re
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, fields, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Literal, Protocol, get_args

import numpy as np
from numpy.typing import NDArray

from attnscope.codec import At, AtMost, Caps, Codec, Fault, Through
from attnscope.errors import LoadError, UserError
from attnscope.labs.lab import LabWords
from attnscope.records.maps import HeadInside, HeadMap, HeadMeasures
from attnscope.records.models import Sample
from attnscope.records.sites import NO_GATES, STACKS, Gates, HeadRef
from attnscope.records.tokens import Token
from attnscope.viewmodels.causes.inside import InsideState, Step
from attnscope.viewmodels.heads.pruning import CurvesState
from attnscope.viewmodels.heads.state import HeadsState
from attnscope.viewmodels.maps.aspect import PLAIN
from attnscope.viewmodels.positions import SCHEMES, PositionsState
from attnscope.viewmodels.session.changes import Setting
from attnscope.viewmodels.session.state import Session
from attnscope.viewmodels.training.recipe_text import offered_recipes
from attnscope.viewmodels.training.state import TrainingState
from attnscope.viewmodels.view_state import HeadViewKind, Highlight, Page, ViewState

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
_Title = Annotated[str, "title"]
_Theme = Annotated[str, "theme"]
_Text = Annotated[str, "text"]
_Line = Annotated[str, AtMost(160)]
_CLAIM = re.compile(r"([a-z][a-z_0-9]*) ([=<>]) (.+)")
_HEAD = re.compile(r"(encoder|decoder|cross|pool) L(\d{1,3})H(\d{1,3})")


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """State of the window; None: left as it is.

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
    measures: Literal[True] | None = None
    prunes: Literal[True] | None = None
    trains: Literal[True] | None = None

    def __post_init__(self) -> None:
        """Raise a Fault for a target without a text."""
        if self.target is not None and self.text is None:
            raise Fault("'target' is given without 'text'")

    def then(self, later: "Scene") -> "Scene":
        """This scene followed by a later one; what belongs to a replaced part goes with it."""
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
    """A text's claim about a number: equal to, larger or smaller than a value."""

    name: str
    sign: str
    value: str

    def is_met(self, words: str | None) -> bool:
        """Whether the claim about the number in `words` holds; a missing number never does."""
        if words is None:
            return False
        if self.sign == "=":
            return words == self.value
        number = float(words.replace("−", "-").replace(",", "").lstrip("<"))
        return number > float(self.value) if self.sign == ">" else number < float(self.value)


@dataclass(frozen=True, slots=True, kw_only=True)
class TourStep:
    """One step: its text, with `{numbers}` of the window, and the scene.

    `point` is what is outlined. `ask` is what the user may do here, named by `task`; it may as well be done
    for them. `expect` is what the text claims of its numbers, so that a test can hold it to that.
    """

    title: _Title
    text: _Text
    formula: _Line = ""
    do: Scene = field(default_factory=Scene)
    point: Point = "page"
    task: _Line = ""
    ask: Scene | None = None
    expect: tuple[Claim, ...] = ()

    def __post_init__(self) -> None:
        """Raise a Fault for a task without words, or the reverse."""
        if (self.ask is None) != (not self.task):
            raise Fault("'task' and 'ask' go together")

    @property
    def placeholders(self) -> tuple[str, ...]:
        """The names of all numbers in the texts, each once."""
        found = PLACEHOLDER.findall(f"{self.text} {self.formula} {self.task}")
        return tuple(dict.fromkeys(found))


@dataclass(frozen=True, slots=True, kw_only=True)
class Tour:
    """A tour; `name` is its file's, `entries` are the catalogue entries that it shows."""

    title: _Title
    theme: _Theme
    order: int
    entries: tuple[str, ...] = ()
    name: Annotated[str, At(None)] = ""
    steps: Annotated[tuple[TourStep, ...], At(None)] = ()

    def scene(self, index: int) -> Scene:
        """State of the window at a step: the scenes of all steps so far, in order."""
        scene = Scene()
        for step in self.steps[:index]:
            scene = scene.then(step.do)
            scene = scene.then(step.ask) if step.ask is not None else scene
        return scene.then(self.steps[index].do)


NO_TOUR = Tour(title="", theme="", order=0)
"""State when no tour is running."""


def read_tours(folder: Path) -> tuple[Tour, ...]:
    """Every tour of a folder, in order; raises LoadError naming the file and its fault."""
    tours = (tour_from_toml(_content(path), name=path.stem) for path in sorted(folder.glob("*.toml")))
    return tuple(sorted(tours, key=lambda tour: (tour.order, tour.name)))


def tour_from_toml(text: str, *, name: str) -> Tour:
    """Read one tour strictly; raises LoadError for unknown keys, wrong types and impossible values."""
    try:
        values = tomllib.loads(text)
        steps = values.pop("step", None)
        if not isinstance(steps, list) or not 1 <= len(steps) <= _MAX_STEPS:
            raise Fault(f"it has no list of 1 to {_MAX_STEPS} steps")
        tour = replace(_TOURS.read(Tour, values), name=name)
        return replace(tour, steps=tuple(_step(k, entry) for k, entry in enumerate(steps, start=1)))
    except (tomllib.TOMLDecodeError, Fault) as error:
        raise _refuse(name, str(error)) from error


def _step(number: int, value: object) -> TourStep:
    try:
        return _TOURS.read(TourStep, value)
    except Fault as fault:
        raise fault.within(f"step {number}") from fault


def _said(most: int, text: str) -> str:
    if not (text.strip() and len(text) <= most):
        raise Fault(f"it is not a text of 1 to {most} characters")
    return text.strip()


def _claim(words: str) -> Claim:
    found = _CLAIM.fullmatch(words)
    if found is None:
        raise Fault(f"'{words[:40]}' is not a claim like 'weight > 0.5'")
    return Claim(name=found[1], sign=found[2], value=found[3])


def _head(words: str) -> HeadRef:
    found = _HEAD.fullmatch(words)
    if found is None:
        raise Fault(f"'{words[:40]}' is not a head like 'cross L1H4'")
    stack = next(stack for stack in STACKS if stack == found[1])
    return HeadRef(stack=stack, layer=int(found[2]), head=int(found[3]))


def _gate(words: str) -> tuple[HeadRef, float]:
    head, _, value = words.rpartition(" ")
    try:
        return _head(head), float(value)
    except ValueError as error:
        raise Fault(f"'{words[:40]}' is not a gate like 'cross L1H4 0'") from error


_TOURS = Codec(
    forms={  # tours are read alone, so nothing here has to be written
        _Title: Through(str, str, partial(_said, 80)),
        _Theme: Through(str, str, partial(_said, 160)),
        _Text: Through(str, str, partial(_said, 700)),
        Claim: Through(str, str, _claim),
        HeadRef: Through(str, str, _head),
        Gates: Through(tuple[str, ...], str, lambda entries: Gates.of(map(_gate, entries))),
    },
    is_strict=True,
    caps=Caps(text=700),
)


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


class TourPlaces(Protocol):
    """The parts of the window unknown to any state."""

    def show_tab(self, page: str, tab: str) -> None:
        """Bring a tab of a page to the front; raises KeyError for an unknown one."""

    def shown_tab(self, page: str) -> str:
        """The tab in front, empty for a page without tabs."""

    def show_lab(self, name: str) -> None:
        """Switch to a lab; raises KeyError for an unknown one."""

    def lab_words(self) -> LabWords | None:
        """Words of the lab shown; None if it has none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TourStates:
    """Everything a tour reads or changes."""

    session: Session
    view: ViewState
    inside: InsideState
    heads: HeadsState
    curves: CurvesState
    training: TrainingState
    positions: PositionsState
    places: TourPlaces

    @property
    def shown_map(self) -> HeadMap | None:
        """The map of the head shown large, if exact."""
        session = self.session
        return None if session.tracing.is_stale else session.maps.of(session.primary)


def token_place(tokens: tuple[Token, ...], name: str | None) -> int | None:
    """Position of the token named `piece`, or `piece#2`, the second of the same; None if absent."""
    if not name:
        return None
    piece, _, number = name.rpartition("#") if "#" in name[1:] else (name, "", "1")
    places = [k for k, token in enumerate(tokens) if token.piece.strip() == piece]
    wanted = int(number) - 1 if number.isdigit() else -1
    return places[wanted] if 0 <= wanted < len(places) else None


Weights = NDArray[np.float32]


@dataclass(frozen=True, slots=True, kw_only=True)
class Spot:
    """The states, and the tokens that the step names."""

    states: TourStates
    query: str | None = None
    key: str | None = None

    @property
    def map(self) -> HeadMap | None:
        """The head shown large."""
        return self.states.shown_map

    @property
    def inside(self) -> HeadInside | None:
        """The numbers inside the head, while they are shown and belong to the selected head."""
        state = self.states.inside
        found = state.inside
        is_of_head = found is not None and found.head == self.states.session.primary
        return (
            found if is_of_head and not state.asking.is_busy and self.states.view.view == "inside" else None
        )

    @property
    def n_heads(self) -> int:
        """The number of heads at the site of the one shown large; 0 if there is none."""
        session, head = self.states.session, self.states.session.primary
        return next((site.n_heads for site in session.sites if head and site.key == head.site_key), 0)

    @property
    def row(self) -> int | None:
        """The query: the one inspected, or the one the step names."""
        inside = self.inside
        if inside is not None:
            return inside.query
        return token_place(self.map.queries, self.query) if self.map else None

    @property
    def column(self) -> int | None:
        """The key: the one pointed at inside the head, the one the step names, or the strongest."""
        inside = self.inside
        if inside is not None:
            row = self.states.inside.row
            return inside.keys[row] if row is not None else None
        if self.map is None:
            return None
        return token_place(self.map.keys, self.key) if self.key else self.strongest

    @property
    def weights(self) -> Weights | None:
        """The weights of the query, NaN where the mask forbids."""
        return None if self.map is None or self.row is None else self.map.weights[self.row]

    @property
    def strongest(self) -> int | None:
        """The key with the largest weight of the query, among those shown."""
        weights = self.weights
        seen = np.where(np.isfinite(weights), weights, -1.0) if weights is not None else np.empty(0)
        return int(seen.argmax()) if seen.size else None

    @property
    def measures(self) -> HeadMeasures | None:
        """Measures of the enlarged head on this text."""
        session = self.states.session
        found = (m for m in session.measures if m.head == session.primary)
        return None if session.tracing.is_stale else next(found, None)


Read = Callable[[Spot], str | None]
"""Gives a number in words; None while it is not there."""


PRUNE_TEXTS, PRUNE_ORDERS = 8, 1
"""How much the pruning curves of a tour measure: enough to see their shape, in a few seconds."""


@dataclass(slots=True)
class SceneJob:
    """`begin` is called once; `is_done` says if the window is ready, or raises UserError if never."""

    what: str
    begin: Callable[[], None]
    is_done: Callable[[], bool]
    has_begun: bool = False

    def run(self) -> bool:
        """Begin if that has not been done; returns whether the task is done."""
        if not self.has_begun:
            self.has_begun = True
            self.begin()
        return self.is_done()


def jobs_of(scene: Scene, states: TourStates, label: str) -> Iterator[SceneJob]:
    """The tasks that make a scene, each to be run when those before it are done."""
    if scene.model is not None:
        yield SceneJob("Opening the model", lambda: _open(scene, states), lambda: _is_open(scene, states))
    if scene.text is not None:
        yield SceneJob(
            "Reading the text", lambda: _set(scene, states, label), lambda: _is_shown(scene, states)
        )
    yield SceneJob("Changing the page", lambda: _turn(scene, states), lambda: True)
    if scene.text is not None:
        yield SceneJob(
            "Computing the steps", lambda: _look(scene, states), lambda: _is_looked_at(scene, states)
        )
    if scene.schemes is not None:
        yield SceneJob("Computing positions", lambda: _choose(scene, states), lambda: _has_tables(states))
    if scene.measures:
        yield SceneJob("Measuring the heads", lambda: _measure(states), lambda: _is_measured(states))
    if scene.prunes:
        yield SceneJob("Measuring curves", lambda: _prune(states), lambda: _has_curves(states))
    if scene.trains:
        yield SceneJob("Starting the run", lambda: _train(states), lambda: _has_run(states))


def holds(scene: Scene, states: TourStates) -> bool:
    """Whether a scene fully matches the window."""
    session, view = states.session, states.view
    facts = (
        scene.head is None or session.primary == scene.head,
        scene.gates is None
        or (session.gates == scene.gates and not session.tracing.is_stale and not session.tracing.is_writing),
        scene.text is None or session.text == scene.text,
        scene.page is None or view.page == scene.page,
        scene.tab is None or states.places.shown_tab(view.page) == scene.tab,
        scene.view is None or view.view == scene.view,
        scene.inside is None or states.inside.step == scene.inside,
        not scene.measures or _is_measured(states),
        not scene.prunes or _has_curves(states),
        not scene.trains or _has_run(states),
    )
    return all(facts)


def _open(scene: Scene, states: TourStates) -> None:
    model = states.session.model
    if model is None or model.name != scene.model:
        sample = Sample(text=scene.text, target=scene.target or None) if scene.text else None
        states.session.opening.load(str(scene.model), sample=sample)


def _is_open(scene: Scene, states: TourStates) -> bool:
    session = states.session
    is_open = session.model is not None and session.model.name == scene.model
    if not is_open and session.opening.busy is None:
        raise UserError(
            f"The model {scene.model} could not be opened.", action="Leave the tour and try again."
        )
    return is_open and session.opening.busy is None


def _set(scene: Scene, states: TourStates, label: str) -> None:
    session = states.session
    head = scene.head or session.primary
    takes_target = session.model is not None and session.model.takes_target
    session.texts.samples.take(Sample(text=scene.text or "", target=scene.target or None))
    session.change(
        label,
        Setting(
            gates=scene.gates or NO_GATES,
            selection=(head,) if head is not None else (),
            aspect=PLAIN,
            text=scene.text or "",
            target=(scene.target or None) if takes_target else None,
        ),
    )


def _is_shown(scene: Scene, states: TourStates) -> bool:
    traced, session = states.session.traced, states.session
    is_new = traced is not None and traced.text == scene.text and traced.gates == (scene.gates or NO_GATES)
    notice = session.notices.shown
    if notice is not None and notice.is_error and notice.request == "TraceText":
        raise UserError(notice.message)
    return is_new and states.shown_map is not None and not session.tracing.is_writing


def _turn(scene: Scene, states: TourStates) -> None:
    view, places = states.view, states.places
    if scene.recipe is not None:
        found = [recipe.path for recipe in offered_recipes() if _stem(recipe.path) == scene.recipe]
        if not found:
            raise UserError(f"There is no recipe {scene.recipe}.", action="Leave the tour.")
        if states.training.recipe.path != found[0] and not states.training.run.is_active:
            states.training.open_recipe(found[0])
    if scene.page is not None:
        view.show_page(scene.page)
        if scene.tab is not None:
            places.show_tab(scene.page, scene.tab)
    if scene.lab is not None:
        places.show_lab(scene.lab)
    if scene.view is not None:
        view.enlarge(False)
        view.show_view(scene.view)


def _look(scene: Scene, states: TourStates) -> None:
    shown = states.shown_map
    if shown is None:
        return
    query, key = token_place(shown.queries, scene.query), token_place(shown.keys, scene.key)
    if states.view.view == "inside":
        if query is not None:
            states.inside.choose_query(query)
        states.inside.choose_step(scene.inside or "product")
    states.view.set_highlight(Highlight(query=query, key=key))


def _is_looked_at(scene: Scene, states: TourStates) -> bool:
    if scene.view != "inside" or scene.page != "explore":
        return True
    inside, state, shown = states.inside.inside, states.inside, states.shown_map
    if state.asking.error:
        raise UserError(state.asking.error)
    is_there = inside is not None and not state.asking.is_busy and inside.head == states.session.primary
    if is_there and inside is not None and inside.query == state.query and shown is not None:
        key = token_place(shown.keys, scene.key)
        if key is not None:
            state.point_at_key(key)
        return True
    return False


def _choose(scene: Scene, states: TourStates) -> None:
    positions = states.positions
    for name in SCHEMES:
        positions.choose(name, name in (scene.schemes or ()))


def _has_tables(states: TourStates) -> bool:
    return bool(states.positions.tables) and not states.positions.is_stale


def _measure(states: TourStates) -> None:
    if not _is_measured(states):
        states.heads.run()


def _is_measured(states: TourStates) -> bool:
    if states.heads.phase == "failed":
        raise UserError(states.heads.error)
    return states.heads.phase == "done" and bool(states.heads.table.heads)


def _prune(states: TourStates) -> None:
    if not _has_curves(states):
        states.curves.choose_texts("samples")
        states.curves.choose_amounts(PRUNE_TEXTS, PRUNE_ORDERS)
        states.curves.run()


def _has_curves(states: TourStates) -> bool:
    if states.curves.job.phase == "failed":
        raise UserError(states.curves.job.error)
    return states.curves.job.phase == "done" and bool(states.curves.curves)


def _train(states: TourStates) -> None:
    training = states.training
    if not _has_run(states) and not training.run.is_active:
        training.place.take_fresh()
        training.start()


def _has_run(states: TourStates) -> bool:
    training = states.training
    phase = training.run.status.phase
    return len(training.run.curves.train_loss) > 0 and phase not in ("starting", "idle", "opened", "failed")


def _stem(path: str) -> str:
    return path.replace("\\", "/").rpartition("/")[2].removesuffix(".toml")
