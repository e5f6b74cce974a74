"""The experiments of the labs: a file for each, which says what question it answers. No Qt."""

from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any, TypeVar

from attnscope.models import Model
from attnscope.records.experiments import ExperimentNews, Question
from attnscope.schemes.registry import module_names

Asked = TypeVar("Asked", bound=Question)
GetModel = Callable[[], Model]
OfModel = Callable[[Asked, int, GetModel], Iterator[ExperimentNews]]
Alone = Callable[[Asked, int], Iterator[ExperimentNews]]

_DONE: dict[type[object], OfModel[Any]] = {}


def experiment(kind: type[Asked]) -> Callable[[Alone[Asked]], Alone[Asked]]:
    """Have a generator of news answer questions of a kind, given the number of the request."""

    def note(work: Alone[Asked]) -> Alone[Asked]:
        _DONE[kind] = lambda question, number, _get_model: work(question, number)
        return work

    return note


def experiment_of_model(kind: type[Asked]) -> Callable[[OfModel[Asked]], OfModel[Asked]]:
    """The same for one that also reads the open model."""

    def note(work: OfModel[Asked]) -> OfModel[Asked]:
        _DONE[kind] = work
        return work

    return note


def work_on(question: Question, number: int, get_model: GetModel) -> Iterator[ExperimentNews]:
    """Do what answers a question, piece by piece."""
    return _DONE[type(question)](question, number, get_model)


for _name in module_names(__name__):
    import_module(f"{__name__}.{_name}")
