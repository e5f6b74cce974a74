"""Sentences worth looking at, from resources/samples: for an objective, a task, or one model."""

import tomllib
from collections.abc import Mapping
from functools import cache

from attnscope.errors import LoadError, RecipeError
from attnscope.paths import resources_folder
from attnscope.records.models import Sample
from attnscope.schemes.objectives import OBJECTIVES
from attnscope.text.examples import picture_shape_of
from attnscope.text.tasks import TASKS, task_for

_OBJECTIVES = ("causal", "masked", "translation", "span-corruption", "representations")
_BY_FORM = {"decoder": "causal", "encoder": "masked", "encoder-decoder": "translation"}
_N_FROM_TASK = 4
_OF_TASKS = {"english-french": "grammar"}
"""The file of a task whose samples are chosen for what they show, not drawn."""
KNOWN_LANGUAGES = ("english-french",)
"""Models whose languages are known, so that samples have translations; other translators write their own."""


def samples_for(
    form: str, objective: str = "", name: str = "", options: Mapping[str, object] | None = None
) -> tuple[Sample, ...]:
    """Samples for a model of a form, with an objective such as `causal` or `masked`, or a task's name.

    For a task they are sentences its training never saw. An objective that is neither gives what suits
    the form. `name` is the model's own, `options` are those of the task.
    """
    if objective in _OF_TASKS:
        return _read_samples(_OF_TASKS[objective])
    if objective in TASKS:
        return _task_samples(form, objective, _plain(options or {}))
    kind = objective if objective in _OBJECTIVES else _BY_FORM.get(form, "causal")
    if objective in OBJECTIVES and OBJECTIVES[objective].labels in ("token", "place"):
        kind = "representations"  # plain sentences, of which nothing is hidden
    return _read_samples(name if kind == "translation" and name in KNOWN_LANGUAGES else kind)


@cache
def _read_samples(name: str) -> tuple[Sample, ...]:
    path = resources_folder() / "samples" / f"{name}.toml"
    try:
        entries = tomllib.loads(path.read_text(encoding="utf-8"))["sample"]
        return tuple(Sample(**entry) for entry in entries)
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise LoadError(
            f"The sample sentences {path} cannot be read: {error}.",
            kind="samples",
            expected="[[sample]] tables with text, target, language and hint",
            action="Install AttnScope again.",
        ) from error


def _plain(options: Mapping[str, object]) -> tuple[tuple[str, object], ...]:
    return tuple((key, value) for key, value in options.items() if isinstance(value, str | int))


@cache
def _task_samples(form: str, name: str, given: tuple[tuple[str, object], ...]) -> tuple[Sample, ...]:
    try:
        task = task_for(form, name, **dict(given))
    except RecipeError:  # a stranger's file may name options that there are none of
        task = task_for(form, name)
    hint = f"A text of the task {name} that training never saw; its correct attention is known."
    if picture_shape_of(task) is not None:
        hint = f"A picture of the task {name} that training never saw. Change a number: what is drawn moves."
    return tuple(
        Sample(text=example.source, target=example.target, hint=hint)
        for example in task.examples(_N_FROM_TASK, seed=0, held_out=True)
    )
