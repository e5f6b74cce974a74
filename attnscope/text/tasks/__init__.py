"""Tasks whose right attention is known, a file each: `TASKS` names them in display order.

A task is a frozen dataclass below `DrawnTask` (`text/examples.py`): its name, its options with their ranges,
its words, and how one example is drawn. Whoever adds one adds a file.
"""

import dataclasses
from typing import get_type_hints

from attnscope.errors import RecipeError
from attnscope.schemes import classes_of
from attnscope.schemes.tokenizers import KINDS, SPECIALS
from attnscope.text.examples import (
    TOKENIZER_KIND,
    Example,
    Range,
    Task,
    TaskForm,
    TaskKind,
    labels_of,
    word_labels_of,
)
from attnscope.text.tokenizer import Tokenizer, train_tokenizer
from attnscope.text.vocabulary import Vocabulary

__all__ = [
    "TASKS",
    "Example",
    "Task",
    "TaskForm",
    "known_words",
    "labels_of",
    "make_task",
    "task_for",
    "task_options",
    "task_tokenizer",
    "word_labels_of",
]

_KINDS: dict[str, type[TaskKind]] = {
    kind.name: kind
    for kind in sorted(classes_of(__name__, TaskKind), key=lambda kind: kind.order)  # type: ignore[type-abstract]
    if kind.name
}
TASKS: tuple[str, ...] = tuple(_KINDS)
MAX_WORDS = 2_000
"""Vocabularies with at most this many whole words are listed word by word."""


def make_task(name: str, **options: object) -> Task:
    """A task by name, with its options; raises RecipeError for an unknown name or an impossible value."""
    kind = _kind(name)
    for key, value in options.items():
        _check_option(kind, key, value)
    task = kind(**options)
    for what in ("words", "pairs", "sentences"):
        least, most = getattr(task, f"min_{what}", 0), getattr(task, f"max_{what}", 0)
        if least > most:
            raise RecipeError(
                f"data.min_{what} is {least}, more than data.max_{what}, which is {most}.",
                action=f"Raise data.max_{what}.",
            )
    fault = task.fault()
    if fault is not None:
        raise fault
    found: Task = task  # type: ignore[assignment]
    return found


def task_for(form: str, name: str, /, **options: object) -> Task:
    """A task as models of a form learn it, where several forms can."""
    own = {"form": form} if "form" in task_options(name) else {}
    return make_task(name, **{**own, **options})


def task_options(name: str) -> tuple[str, ...]:
    return tuple(field.name for field in dataclasses.fields(_kind(name)))  # type: ignore[arg-type]


def _kind(name: str) -> type[TaskKind]:
    if name not in _KINDS:
        raise RecipeError(
            f"There is no task {name!r}.", expected="one of " + ", ".join(TASKS), action="Change data.task."
        )
    return _KINDS[name]


def task_tokenizer(task: Task) -> Tokenizer:
    words = task.vocabulary
    return train_tokenizer(TOKENIZER_KIND, [" ".join(words)], vocab_size=len(words) + len(SPECIALS))


def known_words(entries: Vocabulary, task: object) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The words for a text, and those for its target; none if there are too many.

    `task` is the name of the one that the model learned: some have other words in their targets.
    """
    if not KINDS[entries.kind].is_of_words or entries.size > MAX_WORDS:
        return (), ()
    ids = range(entries.size)
    words = sorted(entries.token(id).piece for id in ids if id not in entries.specials)
    found = _KINDS[task]() if isinstance(task, str) and task in _KINDS else None
    languages: tuple[frozenset[str], ...] = getattr(found, "languages", ())
    if not languages:
        return tuple(words), tuple(words)
    source, target = (tuple(word for word in words if word in language) for language in languages)
    return source, target


def written_words(task: object, objective: str) -> str:
    """Name of the text that such a model generates: given by its task, else a translation or hidden spans."""
    found = _KINDS[task].writes if isinstance(task, str) and task in _KINDS else ""
    return found or ("translation" if objective == "translation" else "written text")


def _check_option(kind: type[TaskKind], key: str, value: object) -> None:
    known = set(task_options(kind.name))
    if key not in known:
        raise RecipeError(
            f"The task {kind.name} has no option {key}.",
            expected="one of " + ", ".join(sorted(known)) if known else "no options",
            action=f"Remove data.{key} or correct its spelling.",
        )
    if key == "form":
        if value not in kind.forms:
            raise RecipeError(
                f"data.form is {value!r}.",
                expected="one of " + ", ".join(kind.forms),
                action="Change data.form.",
            )
        return
    range: Range = get_type_hints(kind, include_extras=True)[key].__metadata__[0]
    if type(value) is not int or not range.least <= value <= range.most:
        raise RecipeError(
            f"data.{key} is {value!r}.",
            expected=f"a whole number from {range.least} to {range.most}",
            action=f"Change data.{key}.",
        )
