"""A guided tour in progress: the step, whether the window has reached it, its numbers, and the way back."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Literal, TypeVar

import numpy as np
from psygnal import Signal, SignalGroup

from attnscope.counting import below_text, number_text, short_words, weight_words
from attnscope.errors import LoadError, UserError
from attnscope.labs.lab import LabWords
from attnscope.records.maps import HeadInside, HeadMap, HeadMeasures, PositionTable
from attnscope.records.measures import HeadTable
from attnscope.records.outputs import Candidate, Output
from attnscope.records.sites import Site
from attnscope.records.tokens import Token
from attnscope.schemes.measures import TEXT_MEASURES
from attnscope.viewmodels.session.file import SavedSession
from attnscope.viewmodels.tours.tours import (
    NO_TOUR,
    Read,
    SceneJob,
    Spot,
    Tour,
    TourStates,
    TourStep,
    Weights,
    holds,
    jobs_of,
)
from attnscope.viewmodels.training.recipe_text import recipe_value
from attnscope.viewmodels.training.run_curves import RunCurves

# The numbers that a tour's text may name, read from what is on the screen: of the model and the map, inside a
# head, of what the model says, and of the other pages.
#
# Each has a name that stands in braces in the text. A table says of what its numbers are, and how each is
# said in words; while that is not there, or nothing is to be said, it is None. Definitions:
# `schemes/measures`, `records/maps.py`.

_MAX_ROW, _MAX_OF_LAB = 8, 3
T = TypeVar("T")
AtKey = tuple[HeadInside, int]
"""The inside of a head, and the row of the key that is looked at."""
Outputs = tuple[Output, Output]
"""The model's output with open gates, and with the current ones."""


def _numbers(
    find: Callable[[Spot], T | None], said: Mapping[str, Callable[[T], str | None]]
) -> dict[str, Read]:
    def read(say: Callable[[T], str | None], spot: Spot) -> str | None:
        found = find(spot)
        return None if found is None else say(found)

    return {name: partial(read, say) for name, say in said.items()}


def _plain(token: Token) -> str:
    return token.piece.strip()


# The model and the map


def _query(spot: Spot) -> Token | None:
    return spot.map.queries[spot.row] if spot.map and spot.row is not None else None


def _key(spot: Spot) -> Token | None:
    return spot.map.keys[spot.column] if spot.map and spot.column is not None else None


def _strongest(spot: Spot) -> Token | None:
    return spot.map.keys[spot.strongest] if spot.map and spot.strongest is not None else None


def _sites_beside(spot: Spot) -> tuple[Site, ...] | None:
    """The sites of the stack of the head that is shown."""
    model, head = spot.states.session.model, spot.states.session.primary
    return tuple(s for s in model.sites if s.stack == head.stack) if model and head else None


def _weight(spot: Spot) -> str | None:
    weights, column = spot.weights, spot.column
    if weights is None or column is None:
        return None
    if math.isfinite(weights[column]):
        return weight_words(float(weights[column]))
    return "not allowed" if math.isnan(weights[column]) else "left out"


def _strongest_weight(spot: Spot) -> str | None:
    weights, best = spot.weights, spot.strongest
    return weight_words(float(weights[best])) if weights is not None and best is not None else None


def _row_weights(weights: Weights) -> str:
    shown = [weight_words(float(w)) for w in weights if math.isfinite(w)]
    return " + ".join(shown[:_MAX_ROW]) + (" + …" if len(shown) > _MAX_ROW else "")


def _stripe(shown: HeadMap) -> str | None:
    """Mean weight on the token after the earlier copy of the query's token (Olsson et al. 2022)."""
    pieces, weights = [token.id for token in shown.queries], shown.weights
    pairs = [(i, j + 1) for i, a in enumerate(pieces) for j, b in enumerate(pieces[: i - 1]) if i and a == b]
    found = [float(weights[i, j]) for i, j in pairs if j < weights.shape[1] and math.isfinite(weights[i, j])]
    return weight_words(sum(found) / len(found)) if found else None


def _measure(name: str, measures: HeadMeasures) -> str | None:
    value = getattr(measures, name)
    return f"{value:.2f}" if math.isfinite(value) else None


# Inside the head


def _at_key(spot: Spot) -> AtKey | None:
    row = spot.states.inside.row
    return (spot.inside, row) if spot.inside is not None and row is not None else None


def _exp(score: float) -> str:
    return number_text(math.exp(min(score, 700.0)))


def _largest_terms(at: AtKey) -> str:
    products = at[0].products[at[1]]
    order = np.argsort(-np.abs(products), kind="stable")[:3]
    terms = [short_words(products[d]) for d in order]
    rest = [f"({term})" if term.startswith("−") else term for term in terms[1:]]
    return " + ".join([*terms[:1], *rest, "…"])


def _d_model(spot: Spot) -> str | None:
    n_heads = spot.n_heads
    return str(len(spot.inside.q) * n_heads) if spot.inside is not None and n_heads else None


# What the model says


def _outputs(spot: Spot) -> Outputs | None:
    traced = spot.states.session.tracing.settled
    return (traced.comparison.before, traced.comparison.after) if traced is not None else None


def _at(output: Output, spot: Spot) -> tuple[Candidate, ...]:
    found = output.predictions
    return found[min(spot.states.view.position, len(found) - 1)].candidates if found else ()


def _top(which: int, spot: Spot) -> str | None:
    outputs = _outputs(spot)
    found = _at(outputs[which], spot) if outputs else ()
    return _plain(found[0].token) if found else None


def _probability(which: int, spot: Spot) -> str | None:
    """The probability of the most probable output of the whole model, before and after."""
    outputs = _outputs(spot)
    wanted = _at(outputs[0], spot)[:1] if outputs else ()
    if not outputs or not wanted:
        return None
    listed = _at(outputs[which], spot)
    shown = next((c for c in listed if c.token.id == wanted[0].token.id), None)
    if shown is not None or not listed:
        return weight_words(shown.probability) if shown is not None else None
    return below_text(min(candidate.probability for candidate in listed))


# Passes over texts, training, positions, labs


def _best(measure: str, table: HeadTable, *, is_value: bool = False) -> str | None:
    """The head of the table with the largest value of a measure, or that value."""
    if measure not in table.names or not np.isfinite(table.column(measure)).any():
        return None
    column = table.column(measure)
    best = int(np.nanargmax(column))
    return f"{column[best]:.2f}" if is_value else table.heads[best].label


def _recipe(section: str, key: str, recipe: str) -> str | None:
    value = recipe_value(recipe, section, key)
    return None if value is None else f"{value:,}" if isinstance(value, int) else str(value)


def _last(name: str, curves: RunCurves) -> str | None:
    values = getattr(curves, name).values
    return number_text(float(values[-1])) if len(values) else None


def _cosine(offset: int, tables: tuple[PositionTable, ...]) -> str | None:
    """Mean cosine of all pairs of positions so far apart, of the first encoding shown."""
    if not tables or len(tables[0].by_offset) <= offset:
        return None
    return short_words(float(tables[0].by_offset[offset]))


def _lab(words: LabWords) -> str | None:
    return "\n".join(f"{name}: {value}" for name, value in words.numbers[:_MAX_OF_LAB]) or None


NUMBERS: Mapping[str, Read] = {
    **_numbers(
        lambda spot: spot.states.session.model,
        {
            "model": lambda model: model.name,
            "parameters": lambda model: f"{model.n_parameters:,}",
            "n_all_heads": lambda model: str(sum(site.n_heads for site in model.sites)),
        },
    ),
    **_numbers(lambda spot: spot.states.session.primary, {"head": lambda head: head.label}),
    **_numbers(lambda spot: spot.n_heads or None, {"n_heads": str, "last_head": lambda n: str(n - 1)}),
    **_numbers(_sites_beside, {"n_layers": lambda sites: str(len(sites))}),
    **_numbers(
        lambda spot: spot.map,
        {
            "n_queries": lambda shown: str(len(shown.queries)),
            "n_keys": lambda shown: str(len(shown.keys)),
            "n_weights": lambda shown: f"{shown.weights.size:,}",
            "n_hidden": lambda shown: f"{int(np.isnan(shown.weights).sum()):,}",
            "stripe": _stripe,
        },
    ),
    **_numbers(_query, {"query": _plain, "read": lambda token: (token.read or token.piece).strip()}),
    **_numbers(_key, {"key": _plain}),
    **_numbers(_strongest, {"strongest": _plain}),
    "weight": _weight,
    **_numbers(
        lambda spot: spot.weights,
        {
            "n_seen": lambda weights: str(int(np.isfinite(weights).sum())),
            "row_weights": _row_weights,
            "row_sum": lambda weights: f"{float(weights[np.isfinite(weights)].sum()):.3f}",
        },
    ),
    "strongest_weight": _strongest_weight,
    **_numbers(lambda spot: spot.measures, {name: partial(_measure, name) for name in TEXT_MEASURES}),
    **_numbers(
        lambda spot: spot.inside,
        {
            "d_head": lambda inside: number_text(float(len(inside.q))),
            "scale": lambda inside: number_text(float(inside.scale)),
            "lse": lambda inside: number_text(float(inside.lse)),
            "sum_exp": lambda inside: _exp(inside.lse),
            "output_norm": lambda inside: number_text(float(np.linalg.norm(inside.output))),
            "output_error": lambda inside: f"{inside.output_error:.0e}",
        },
    ),
    "d_model": _d_model,
    **_numbers(
        _at_key,
        {
            "terms": _largest_terms,
            "dot": lambda at: number_text(float(at[0].dot[at[1]])),
            "score": lambda at: number_text(float(at[0].score[at[1]])),
            "exp_score": lambda at: _exp(float(at[0].score[at[1]])),
            "value_norm": lambda at: number_text(float(at[0].value_norms[at[1]])),
        },
    ),
    "top_before": partial(_top, 0),
    "top_after": partial(_top, 1),
    "p_before": partial(_probability, 0),
    "p_after": partial(_probability, 1),
    **_numbers(
        _outputs,
        {
            "said_before": lambda outputs: outputs[0].generated or None,
            "said_after": lambda outputs: outputs[1].generated or None,
        },
    ),
    **_numbers(  # the largest KL(before ‖ after) over the positions, in nats
        lambda spot: spot.states.session.tracing.settled,
        {"kl": lambda traced: number_text(max(kl)) if (kl := traced.comparison.kl_nats) else None},
    ),
    **_numbers(
        lambda spot: spot.states.session if spot.states.session.model else None,
        {"n_off": lambda session: str(len(session.gates.off()))},
    ),
    **_numbers(
        lambda spot: spot.states.heads.table,
        {
            "best_stripe": partial(_best, "stripe"),
            "best_stripe_value": partial(_best, "stripe", is_value=True),
            "best_previous": partial(_best, "previous"),
            "best_previous_value": partial(_best, "previous", is_value=True),
            "n_measured": lambda table: f"{table.n_texts:,}" if table.heads else None,
        },
    ),
    **_numbers(
        lambda spot: spot.states.curves.curves[0].points if spot.states.curves.curves else None,
        {
            "loss_whole": lambda points: number_text(points[0].value),
            "loss_half": lambda points: number_text(points[len(points) // 2].value),
        },
    ),
    **_numbers(
        lambda spot: spot.states.training.recipe.text,
        {
            "recipe_steps": partial(_recipe, "training", "n_steps"),
            "recipe_batch": partial(_recipe, "training", "batch_size"),
            "recipe_rate": partial(_recipe, "optimizer", "learning_rate"),
            "recipe_warmup": partial(_recipe, "schedule", "warmup_steps"),
            "recipe_layers": partial(_recipe, "model", "n_layers"),
            "recipe_heads": partial(_recipe, "model", "n_heads"),
            "recipe_width": partial(_recipe, "model", "d_model"),
        },
    ),
    **_numbers(lambda spot: spot.states.training.run, {"step": lambda run: f"{run.step:,}"}),
    **_numbers(
        lambda spot: spot.states.training.run.curves,
        {
            "loss": partial(_last, "train_loss"),
            "rate": partial(_last, "learning_rate"),
            "gradient_norm": partial(_last, "gradient_norm"),
        },
    ),
    **_numbers(
        lambda spot: spot.states.positions.tables,
        {f"cosine_{offset}": partial(_cosine, offset) for offset in (1, 8, 32)},
    ),
    **_numbers(
        lambda spot: spot.states.places.lab_words(),
        {"lab": _lab, "lab_says": lambda words: words.sentence},
    ),
}
"""Every number that a text may name."""


def number_named(name: str, spot: Spot) -> str | None:
    """A number in words; None if it is missing. Raises KeyError for an unknown name."""
    return NUMBERS[name](spot)


Phase = Literal["off", "moving", "shown", "failed"]
_IGNORED = frozenset({"cell", "pointer", "hovered_head", "highlight", "history", "pace", "folded"})


class TourChanges(SignalGroup):
    """Signals of TourState."""

    tour = Signal()
    """It was begun or left."""
    step = Signal()
    numbers = Signal()
    progress = Signal()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Before:
    """State before a tour, restored afterwards."""

    saved: SavedSession
    recipe: str

    @classmethod
    def of(cls, states: TourStates) -> "_Before":
        session, model = states.session, states.session.model
        saved = SavedSession(
            source=model.source if model else "",
            model=model.name if model else "",
            sha256=model.sha256 if model else "",
            setting=session.setting,
            look=states.view.look,
        )
        return cls(saved=saved, recipe=states.training.recipe.path)

    def restore(self, states: TourStates, bring_back: Callable[[SavedSession], None]) -> None:
        """Restore it, with `bring_back` if its model is gone."""
        training, model, saved = states.training, states.session.model, self.saved
        if self.recipe and not training.run.is_active and training.recipe.path != self.recipe:
            training.open_recipe(self.recipe)
        is_same = model is not None and model.source == saved.source and states.session.opening.busy is None
        if is_same:
            states.session.restore(saved.setting, "leave the tour")
        elif saved.source:
            bring_back(saved)
        states.view.show_saved(saved.look)


class TourState:
    """At most one tour at a time. `bring_back` opens what was open before, if its model is gone.

    Another model than the tour asked for ends it, and stays.
    """

    def __init__(
        self,
        tours: tuple[Tour, ...],
        states: TourStates,
        bring_back: Callable[[SavedSession], None],
        progress: Mapping[str, int] = MappingProxyType({}),
    ) -> None:
        self.tours, self._states, self._bring_back = tours, states, bring_back
        self.changed = TourChanges()
        known = {tour.name: len(tour.steps) for tour in tours}
        self.progress = {name: min(max(n, 0), known[name]) for name, n in progress.items() if name in known}
        self.tour = NO_TOUR
        self.index = 0
        self.phase: Phase = "off"
        self.error = ""
        self.is_task_done = False
        self._before = _Before.of(states)
        self._jobs: list[SceneJob] = []
        self._is_working = False
        self._own_source = ""
        self._is_other_coming = False
        states.session.changed.busy.connect(self._watch_opening, max_args=0)
        states.session.changed.model.connect(self._make_way, max_args=0)
        watched = (states.session, states.view, states.inside, states.heads)
        for state in (*watched, states.curves, states.training, states.positions):
            for name, signal in state.changed.signals.items():
                if name not in _IGNORED:
                    signal.connect(self._on_changed, max_args=0)

    # What can be read

    @property
    def is_on(self) -> bool:
        return self.tour is not NO_TOUR

    @property
    def step(self) -> TourStep | None:
        return next(iter(self.tour.steps[self.index :]), None)

    @property
    def is_last(self) -> bool:
        """Whether it is the last step."""
        return self.index == len(self.tour.steps) - 1

    @property
    def doing(self) -> str:
        """Action under way to bring the window to this step; empty once there."""
        return self._jobs[0].what if self.phase == "moving" and self._jobs else ""

    @property
    def numbers(self) -> Mapping[str, str | None]:
        """The numbers of the step by name; None for missing ones."""
        step, spot = self.step, self._spot()
        if step is None or spot is None:
            return {}
        return {name: number_named(name, spot) for name in step.placeholders}

    @property
    def unmet(self) -> tuple[str, ...]:
        """The step's claims about numbers that do not hold."""
        step, spot = self.step, self._spot()
        claims = step.expect if step is not None and spot is not None else ()
        found = [(claim, number_named(claim.name, spot)) for claim in claims if spot is not None]
        return tuple(f"{c.name} {c.sign} {c.value}: it is {is_}" for c, is_ in found if not c.is_met(is_))

    def _spot(self) -> Spot | None:
        if not self.is_on:
            return None
        scene = self.tour.scene(self.index)
        return Spot(states=self._states, query=scene.query, key=scene.key)

    def find(self, name: str) -> Tour | None:
        return next((tour for tour in self.tours if tour.name == name), None)

    def steps_seen(self, tour: Tour) -> int:
        """Number of a tour's steps seen."""
        return self.progress.get(tour.name, 0)

    # Intents

    def start(self, name: str, at: int | None = None) -> None:
        """Begin or continue a tour, or start `at` a step; no effect if unknown."""
        tour = self.find(name)
        if tour is None:
            return
        if not self.is_on:
            self._own_source = ""
            self._before = _Before.of(self._states)
        seen = self.steps_seen(tour)
        first = max(seen - 1, 0) if seen < len(tour.steps) else 0
        self.tour = tour
        self.changed.tour.emit()
        self._go(min(max(first if at is None else at, 0), len(tour.steps) - 1))

    def next(self) -> None:
        """Go to the next step; after the last one the tour is over."""
        if self.is_last:
            self.leave()
        else:
            self._go(self.index + 1)

    def back(self) -> None:
        """Go to the step before."""
        if self.index > 0:
            self._go(self.index - 1)

    def do_task(self) -> None:
        """Do the user's task for them."""
        step = self.step
        if step is not None and step.ask is not None:
            scene = self.tour.scene(self.index).then(step.ask)
            self._begin(list(jobs_of(scene, self._states, f"tour: {step.title}")))

    def leave(self, *, is_keeping: bool = False) -> None:
        """End the tour; the earlier state is restored, unless the user keeps the current one."""
        if not self.is_on:
            return
        self.tour, self.index, self.phase, self.error, self._jobs = NO_TOUR, 0, "off", "", []
        if not is_keeping:
            self._before.restore(self._states, self._bring_back)
        self.changed.tour.emit()

    # Within

    def _go(self, index: int) -> None:
        if not self.is_on:
            return
        self.index, self.is_task_done = index, False
        if index + 1 > self.progress.get(self.tour.name, 0):
            self.progress[self.tour.name] = index + 1
            self.changed.progress.emit()
        title = self.tour.steps[index].title
        self._begin(list(jobs_of(self.tour.scene(index), self._states, f"tour: {title}")))

    def _begin(self, jobs: list[SceneJob]) -> None:
        self._jobs, self.phase, self.error = jobs, "moving", ""
        self._work()
        self._check_task()
        self.changed.step.emit()

    def _work(self) -> None:
        """Do what can be done now; the rest continues when a state reports a change."""
        if self._is_working or self.phase != "moving":
            return
        self._is_working = True
        jobs = self._jobs
        try:
            while jobs and jobs is self._jobs and jobs[0].run():
                jobs.pop(0)
        except (UserError, KeyError) as error:
            self.phase, self.error = "failed", str(error) if isinstance(error, LoadError | UserError) else ""
            self.error = self.error or f"The window has no part {error}."
        finally:
            self._is_working = False
        if self.phase == "moving" and not self._jobs:
            self.phase = "shown"

    def _check_task(self) -> None:
        step = self.step
        if step is not None and step.ask is not None and self.phase == "shown" and not self.is_task_done:
            self.is_task_done = holds(step.ask, self._states)

    def _make_way(self) -> None:
        """A model opened by someone else is there."""
        if self._is_other_coming and not self._is_working:
            self.leave(is_keeping=True)

    def _on_changed(self) -> None:
        if not self.is_on or self._is_working:
            return
        phase = self.phase
        self._work()
        self._check_task()
        (self.changed.numbers if phase == self.phase else self.changed.step).emit()

    def _watch_opening(self) -> None:
        """Note whether the tour or the user opens a model."""
        busy = self._states.session.opening.busy
        if busy is not None and self._is_working:
            self._own_source = busy.source
        self._is_other_coming = busy is not None and busy.source != self._own_source
