"""The tasks a recipe can name, and the tokenizer of a task."""

import dataclasses
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from attnscope.errors import RecipeError
from attnscope.schemes.tokenizers import SPECIALS
from attnscope.text.causal_tasks import AgreementTask, BracketsTask, InductionTask
from attnscope.text.examples import TOKENIZER_KIND, Example, Task, TaskForm, labels_of
from attnscope.text.grammar_task import EnglishFrenchTask
from attnscope.text.label_tasks import EntailmentTask, ReviewsTask, SentimentTask
from attnscope.text.sequence_tasks import AdditionTask, RowTask
from attnscope.text.tokenizer import Tokenizer, train_tokenizer
from attnscope.text.vocabulary import Vocabulary

__all__ = ["TASKS", "Example", "Task", "TaskForm", "known_words", "labels_of", "make_task", "task_tokenizer"]

_MAKERS: Mapping[str, Callable[..., Any]] = {
    "copy": partial(RowTask, rule="copy"),
    "reverse": partial(RowTask, rule="reverse"),
    "sort": partial(RowTask, rule="sort"),
    "addition": AdditionTask,
    "induction": InductionTask,
    "brackets": BracketsTask,
    "agreement": AgreementTask,
    "english-french": EnglishFrenchTask,
    "sentiment": SentimentTask,
    "reviews": ReviewsTask,
    "entailment": EntailmentTask,
}
TASKS: tuple[str, ...] = tuple(_MAKERS)
MAX_WORDS = 2_000
"""Vocabularies of whole words that have no more are told word by word."""
_RANGES: Mapping[str, tuple[int, int]] = {
    "min_words": (1, 1000),
    "max_words": (1, 1000),
    "n_letters": (2, 26),
    "n_digits": (2, 50),
    "min_pairs": (1, 1000),
    "max_pairs": (1, 1000),
    "min_sentences": (1, 100),
    "max_sentences": (1, 100),
    "max_attractors": (0, 100),
    "max_adjectives": (0, 2),
}
_FIXED = {"rule"}
_FORMS = ("decoder", "encoder-decoder")


def make_task(name: str, **options: object) -> Task:
    """A task by name, with its options; raises RecipeError for an unknown name or an impossible value."""
    if name not in _MAKERS:
        raise RecipeError(
            f"There is no task {name!r}.", expected="one of " + ", ".join(TASKS), action="Change data.task."
        )
    maker = _MAKERS[name]
    known = {field.name for field in dataclasses.fields(maker())} - _FIXED
    for key, value in options.items():
        _check_option(name, key, value, known)
    task: Task = maker(**options)
    _check_order(name, task)
    return task


def task_options(name: str) -> tuple[str, ...]:
    """The names of a task's options."""
    return tuple(field.name for field in dataclasses.fields(_MAKERS[name]()) if field.name not in _FIXED)


def task_tokenizer(task: Task) -> Tokenizer:
    """The tokenizer that has exactly the words of the task."""
    words = task.vocabulary
    return train_tokenizer(TOKENIZER_KIND, [" ".join(words)], vocab_size=len(words) + len(SPECIALS))


def known_words(entries: Vocabulary, task: object) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The words that a text may be written with, and those of its target; none where there are too many.

    `task` is the name of the one that the model learned: some have other words in their targets.
    """
    if entries.kind != "words" or entries.size > MAX_WORDS:
        return (), ()
    ids = range(entries.size)
    words = sorted(entries.token(id).piece for id in ids if id not in entries.specials)
    found = _MAKERS[task]() if isinstance(task, str) and task in _MAKERS else None
    languages = found.languages if isinstance(found, EnglishFrenchTask) else ()
    if not languages:
        return tuple(words), tuple(words)
    source, target = (tuple(word for word in words if word in language) for language in languages)
    return source, target


def _check_option(name: str, key: str, value: object, known: set[str]) -> None:
    if key not in known:
        raise RecipeError(
            f"The task {name} has no option {key}.",
            expected="one of " + ", ".join(sorted(known)) if known else "no options",
            action=f"Remove data.{key} or correct its spelling.",
        )
    if key == "form":
        if value not in _FORMS:
            raise RecipeError(
                f"data.form is {value!r}.", expected="one of " + ", ".join(_FORMS), action="Change data.form."
            )
        return
    least, most = _RANGES[key]
    if type(value) is not int or not least <= value <= most:
        raise RecipeError(
            f"data.{key} is {value!r}.",
            expected=f"a whole number from {least} to {most}",
            action=f"Change data.{key}.",
        )


def _check_order(name: str, task: Task) -> None:
    for what in ("words", "pairs", "sentences"):
        least, most = getattr(task, f"min_{what}", None), getattr(task, f"max_{what}", None)
        if least is not None and most is not None and least > most:
            raise RecipeError(
                f"data.min_{what} is {least}, more than data.max_{what}, which is {most}.",
                action=f"Raise data.max_{what}.",
            )
    if name == "induction" and getattr(task, "max_words", 0) > len(task.vocabulary):
        raise RecipeError(
            f"data.max_words is {getattr(task, 'max_words', 0)}.",
            expected=f"at most {len(task.vocabulary)}, because the words of a row differ",
            action="Change data.max_words.",
        )
