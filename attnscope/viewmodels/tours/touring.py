"""A guided tour in progress: which step, whether the window is there yet, the numbers, and the way back."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

import numpy as np
from psygnal import Signal, SignalGroup

from attnscope.counting import below_text, number_text, short_words, weight_words
from attnscope.errors import LoadError, UserError
from attnscope.records.maps import HeadInside
from attnscope.records.outputs import Candidate, Output
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
    holds,
    jobs_of,
)
from attnscope.viewmodels.training.recipe_text import recipe_value

# The numbers that a tour's text may name, read from what is on the screen: inside a head, of what the model
# says, and of the other pages.
#
# Each has a name that stands in braces in the text, and a function that gives it as words, or None while it
# is not there. Definitions: `schemes/measures`, `records/maps.py`.

_MAX_OF_LAB = 3


# Inside the head


def _inside(read: Callable[[HeadInside], float | int | None]) -> Read:
    def words(spot: Spot) -> str | None:
        value = read(spot.inside) if spot.inside is not None else None
        return None if value is None else number_text(float(value))

    return words


def _at_key(field: str) -> Read:
    def words(spot: Spot) -> str | None:
        row = spot.states.inside.row
        values = getattr(spot.inside, field) if spot.inside is not None else None
        return number_text(float(values[row])) if values is not None and row is not None else None

    return words


def _exp_score(spot: Spot) -> str | None:
    row = spot.states.inside.row
    if spot.inside is None or row is None:
        return None
    return number_text(math.exp(min(float(spot.inside.score[row]), 700.0)))


def _sum_exp(spot: Spot) -> str | None:
    return number_text(math.exp(min(spot.inside.lse, 700.0))) if spot.inside is not None else None


def _largest_terms(spot: Spot) -> str | None:
    row = spot.states.inside.row
    if spot.inside is None or row is None:
        return None
    products = spot.inside.products[row]
    order = np.argsort(-np.abs(products), kind="stable")[:3]
    terms = [short_words(products[d]) for d in order]
    rest = [f"({term})" if term.startswith("−") else term for term in terms[1:]]
    return " + ".join([*terms[:1], *rest, "…"])


def _output_error(spot: Spot) -> str | None:
    return f"{spot.inside.output_error:.0e}" if spot.inside is not None else None


def _d_model(spot: Spot) -> str | None:
    n_heads = spot.n_heads
    return str(len(spot.inside.q) * n_heads) if spot.inside is not None and n_heads else None


# What the model says


def _outputs(spot: Spot) -> tuple[Output, Output] | None:
    traced = spot.states.session.tracing.settled
    return (traced.comparison.before, traced.comparison.after) if traced is not None else None


def _at(output: Output, spot: Spot) -> tuple[Candidate, ...]:
    found = output.predictions
    return found[min(spot.states.view.position, len(found) - 1)].candidates if found else ()


def _top(which: int) -> Read:
    def words(spot: Spot) -> str | None:
        outputs = _outputs(spot)
        found = _at(outputs[which], spot) if outputs else ()
        return found[0].token.piece.strip() if found else None

    return words


def _probability(which: int) -> Read:
    """The probability of what the whole model found most probable, before and after."""

    def words(spot: Spot) -> str | None:
        outputs = _outputs(spot)
        wanted = _at(outputs[0], spot)[:1] if outputs else ()
        if not outputs or not wanted:
            return None
        listed = _at(outputs[which], spot)
        shown = next((c for c in listed if c.token.id == wanted[0].token.id), None)
        if shown is not None or not listed:
            return weight_words(shown.probability) if shown is not None else None
        return below_text(min(candidate.probability for candidate in listed))

    return words


def _said(which: int) -> Read:
    def words(spot: Spot) -> str | None:
        outputs = _outputs(spot)
        return (outputs[which].generated or None) if outputs else None

    return words


def _kl(spot: Spot) -> str | None:
    """The largest KL(before ‖ after) over the positions, in nats."""
    traced = spot.states.session.tracing.settled
    if traced is None or not traced.comparison.kl_nats:
        return None
    return number_text(max(traced.comparison.kl_nats))


def _n_off(spot: Spot) -> str | None:
    return str(len(spot.states.session.gates.off())) if spot.states.session.model else None


# Passes over texts, training, positions, labs


def _best(measure: str, *, is_value: bool) -> Read:
    """The head of the table in which a measure is largest, or that value."""

    def words(spot: Spot) -> str | None:
        table = spot.states.heads.table
        if measure not in table.names or not np.isfinite(table.column(measure)).any():
            return None
        column = table.column(measure)
        best = int(np.nanargmax(column))
        return f"{column[best]:.2f}" if is_value else table.heads[best].label

    return words


def _n_measured(spot: Spot) -> str | None:
    table = spot.states.heads.table
    return f"{table.n_texts:,}" if table.heads else None


def _curve(read: Callable[[TourStates], float]) -> Read:
    def words(spot: Spot) -> str | None:
        return number_text(read(spot.states)) if spot.states.curves.curves else None

    return words


def _whole(states: TourStates) -> float:
    return states.curves.curves[0].points[0].value


def _half(states: TourStates) -> float:
    points = states.curves.curves[0].points
    return points[len(points) // 2].value


def _recipe(section: str, key: str) -> Read:
    def words(spot: Spot) -> str | None:
        value = recipe_value(spot.states.training.recipe.text, section, key)
        return None if value is None else f"{value:,}" if isinstance(value, int) else str(value)

    return words


def _last(name: str) -> Read:
    def words(spot: Spot) -> str | None:
        values = getattr(spot.states.training.run.curves, name).values
        return number_text(float(values[-1])) if len(values) else None

    return words


def _step(spot: Spot) -> str | None:
    return f"{spot.states.training.run.step:,}"


def _cosine(offset: int) -> Read:
    """Mean cosine of all pairs of positions so far apart, of the first encoding shown."""

    def words(spot: Spot) -> str | None:
        tables = spot.states.positions.tables
        if not tables or len(tables[0].by_offset) <= offset:
            return None
        return short_words(float(tables[0].by_offset[offset]))

    return words


def _lab(spot: Spot) -> str | None:
    words = spot.states.places.lab_words()
    numbers = words.numbers[:_MAX_OF_LAB] if words else ()
    return "\n".join(f"{name}: {value}" for name, value in numbers) or None


def _lab_says(spot: Spot) -> str | None:
    words = spot.states.places.lab_words()
    return words.sentence if words else None


INSIDE_NUMBERS: Mapping[str, Read] = {
    "d_head": _inside(lambda inside: len(inside.q)),
    "d_model": _d_model,
    "terms": _largest_terms,
    "dot": _at_key("dot"),
    "scale": _inside(lambda inside: inside.scale),
    "score": _at_key("score"),
    "exp_score": _exp_score,
    "sum_exp": _sum_exp,
    "lse": _inside(lambda inside: inside.lse),
    "value_norm": _at_key("value_norms"),
    "output_norm": _inside(lambda inside: float(np.linalg.norm(inside.output))),
    "output_error": _output_error,
    "top_before": _top(0),
    "top_after": _top(1),
    "p_before": _probability(0),
    "p_after": _probability(1),
    "said_before": _said(0),
    "said_after": _said(1),
    "kl": _kl,
    "n_off": _n_off,
    "best_stripe": _best("stripe", is_value=False),
    "best_stripe_value": _best("stripe", is_value=True),
    "best_previous": _best("previous", is_value=False),
    "best_previous_value": _best("previous", is_value=True),
    "n_measured": _n_measured,
    "loss_whole": _curve(_whole),
    "loss_half": _curve(_half),
    "recipe_steps": _recipe("training", "n_steps"),
    "recipe_batch": _recipe("training", "batch_size"),
    "recipe_rate": _recipe("optimizer", "learning_rate"),
    "recipe_warmup": _recipe("schedule", "warmup_steps"),
    "recipe_layers": _recipe("model", "n_layers"),
    "recipe_heads": _recipe("model", "n_heads"),
    "recipe_width": _recipe("model", "d_model"),
    "step": _step,
    "loss": _last("train_loss"),
    "rate": _last("learning_rate"),
    "gradient_norm": _last("gradient_norm"),
    "cosine_1": _cosine(1),
    "cosine_8": _cosine(8),
    "cosine_32": _cosine(32),
    "lab": _lab,
    "lab_says": _lab_says,
}


_MAX_ROW = 8


def number_named(name: str, spot: Spot) -> str | None:
    """A number in words; None while it is not there. Raises KeyError for a name there is not."""
    return NUMBERS[name](spot)


# The model and the map


def _model(spot: Spot) -> str | None:
    return spot.states.session.model.name if spot.states.session.model else None


def _parameters(spot: Spot) -> str | None:
    return f"{spot.states.session.model.n_parameters:,}" if spot.states.session.model else None


def _head(spot: Spot) -> str | None:
    return spot.states.session.primary.label if spot.states.session.primary else None


def _n_heads(spot: Spot) -> str | None:
    return str(spot.n_heads) if spot.n_heads else None


def _last_head(spot: Spot) -> str | None:
    return str(spot.n_heads - 1) if spot.n_heads else None


def _n_layers(spot: Spot) -> str | None:
    model, head = spot.states.session.model, spot.states.session.primary
    return str(sum(s.stack == head.stack for s in model.sites)) if model and head else None


def _n_all_heads(spot: Spot) -> str | None:
    model = spot.states.session.model
    return str(sum(site.n_heads for site in model.sites)) if model else None


def _n_queries(spot: Spot) -> str | None:
    return str(len(spot.map.queries)) if spot.map else None


def _n_keys(spot: Spot) -> str | None:
    return str(len(spot.map.keys)) if spot.map else None


def _n_weights(spot: Spot) -> str | None:
    return f"{spot.map.weights.size:,}" if spot.map else None


def _n_hidden(spot: Spot) -> str | None:
    return f"{int(np.isnan(spot.map.weights).sum()):,}" if spot.map else None


def _query(spot: Spot) -> str | None:
    return spot.map.queries[spot.row].piece.strip() if spot.map and spot.row is not None else None


def _read(spot: Spot) -> str | None:
    """The token that was read: the query itself."""
    row = spot.map.queries[spot.row] if spot.map and spot.row is not None else None
    return (row.read or row.piece).strip() if row is not None else None


def _key(spot: Spot) -> str | None:
    return spot.map.keys[spot.column].piece.strip() if spot.map and spot.column is not None else None


def _weight(spot: Spot) -> str | None:
    weights, column = spot.weights, spot.column
    if weights is None or column is None:
        return None
    if math.isfinite(weights[column]):
        return weight_words(float(weights[column]))
    return "not allowed" if math.isnan(weights[column]) else "left out"


def _strongest(spot: Spot) -> str | None:
    return spot.map.keys[spot.strongest].piece.strip() if spot.map and spot.strongest is not None else None


def _strongest_weight(spot: Spot) -> str | None:
    weights, best = spot.weights, spot.strongest
    return weight_words(float(weights[best])) if weights is not None and best is not None else None


def _row_weights(spot: Spot) -> str | None:
    if spot.weights is None:
        return None
    shown = [weight_words(float(w)) for w in spot.weights if math.isfinite(w)]
    return " + ".join(shown[:_MAX_ROW]) + (" + …" if len(shown) > _MAX_ROW else "")


def _row_sum(spot: Spot) -> str | None:
    weights = spot.weights
    return f"{float(weights[np.isfinite(weights)].sum()):.3f}" if weights is not None else None


def _n_seen(spot: Spot) -> str | None:
    return str(int(np.isfinite(spot.weights).sum())) if spot.weights is not None else None


def _stripe(spot: Spot) -> str | None:
    """Mean weight on the token after the earlier copy of the query's token (Olsson et al. 2022)."""
    if spot.map is None:
        return None
    pieces, weights = [token.id for token in spot.map.queries], spot.map.weights
    pairs = [(i, j + 1) for i, a in enumerate(pieces) for j, b in enumerate(pieces[: i - 1]) if i and a == b]
    found = [float(weights[i, j]) for i, j in pairs if j < weights.shape[1] and math.isfinite(weights[i, j])]
    return weight_words(sum(found) / len(found)) if found else None


def _measure(name: str) -> Read:
    def read(spot: Spot) -> str | None:
        value = getattr(spot.measures, name) if spot.measures is not None else math.nan
        return f"{value:.2f}" if math.isfinite(value) else None

    return read


NUMBERS: Mapping[str, Read] = {
    "model": _model,
    "parameters": _parameters,
    "head": _head,
    "n_heads": _n_heads,
    "last_head": _last_head,
    "n_layers": _n_layers,
    "n_all_heads": _n_all_heads,
    "n_queries": _n_queries,
    "n_keys": _n_keys,
    "n_weights": _n_weights,
    "n_hidden": _n_hidden,
    "n_seen": _n_seen,
    "query": _query,
    "read": _read,
    "key": _key,
    "weight": _weight,
    "strongest": _strongest,
    "strongest_weight": _strongest_weight,
    "row_weights": _row_weights,
    "row_sum": _row_sum,
    "stripe": _stripe,
    **{name: _measure(name) for name in TEXT_MEASURES},
    **INSIDE_NUMBERS,
}
"""Every number that a text may name."""


Phase = Literal["off", "moving", "shown", "failed"]
_IGNORED = frozenset({"cell", "pointer", "hovered_head", "highlight", "history", "pace", "folded"})


class TourChanges(SignalGroup):
    """What of a tour can change."""

    tour = Signal()
    """It was begun or left."""
    step = Signal()
    numbers = Signal()
    progress = Signal()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Before:
    """What was open before a tour, to come back to."""

    saved: SavedSession
    recipe: str

    @classmethod
    def of(cls, states: TourStates) -> "_Before":
        """What is open now."""
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
        """Open it again, with `bring_back` where its model has gone."""
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
    """At most one tour at a time. `bring_back` opens what was open before, when its model has gone.

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
        """Whether no step follows."""
        return self.index == len(self.tour.steps) - 1

    @property
    def doing(self) -> str:
        """What the window is being brought to do; empty when it is there."""
        return self._jobs[0].what if self.phase == "moving" and self._jobs else ""

    @property
    def numbers(self) -> Mapping[str, str | None]:
        """The numbers of the step by name; None for what is not there."""
        step, spot = self.step, self._spot()
        if step is None or spot is None:
            return {}
        return {name: number_named(name, spot) for name in step.placeholders}

    @property
    def unmet(self) -> tuple[str, ...]:
        """What the step claims of its numbers and is not so."""
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
        """How many steps of a tour have been looked at."""
        return self.progress.get(tour.name, 0)

    # Intents

    def start(self, name: str, at: int | None = None) -> None:
        """Begin a tour where it was left, or `at` a step; a finished one begins anew. Unknown: nothing."""
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
        """Do what the person is asked to do."""
        step = self.step
        if step is not None and step.ask is not None:
            scene = self.tour.scene(self.index).then(step.ask)
            self._begin(list(jobs_of(scene, self._states, f"tour: {step.title}")))

    def leave(self, *, is_keeping: bool = False) -> None:
        """End the tour; what was there before comes back, unless the person keeps what there is."""
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
        """Do what can be done now; what must be waited for goes on when a state tells that it changed."""
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
        """The model that another opened is there."""
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
        """Who has a model opened: the tour while it works, a person at any other time."""
        busy = self._states.session.opening.busy
        if busy is not None and self._is_working:
            self._own_source = busy.source
        self._is_other_coming = busy is not None and busy.source != self._own_source
