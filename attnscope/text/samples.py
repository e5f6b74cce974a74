"""Sentences worth looking at, from resources/samples, one file for each objective."""

import tomllib
from functools import cache

from attnscope.errors import LoadError
from attnscope.paths import resources_folder
from attnscope.records.models import Sample
from attnscope.text.tasks import TASKS, make_task

_OBJECTIVES = ("causal", "masked", "translation", "span-corruption", "representations")
_BY_FORM = {"decoder": "causal", "encoder": "masked", "encoder-decoder": "translation"}
_N_FROM_TASK = 4
_CHOSEN = "english-french"
"""The task whose samples are chosen for what they show, not drawn."""


def samples_for(form: str, objective: str = "") -> tuple[Sample, ...]:
    """Samples for a model of a form, with an objective such as `causal` or `masked`, or a task's name.

    For a task they are sentences its training never saw. An objective that is neither gives what suits
    the form.
    """
    if objective == _CHOSEN:
        return _read_samples(objective)
    if objective in TASKS:
        return _task_samples(form, objective)
    name = objective if objective in _OBJECTIVES else _BY_FORM.get(form, "causal")
    return _read_samples(name)


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


@cache
def _task_samples(form: str, name: str) -> tuple[Sample, ...]:
    options = {"form": form} if name in ("copy", "reverse", "sort", "addition") else {}
    task = make_task(name, **options)
    hint = f"A text of the task {name} that training never saw; its right attention is known."
    return tuple(
        Sample(text=example.source, target=example.target, hint=hint)
        for example in task.examples(_N_FROM_TASK, seed=0, held_out=True)
    )
