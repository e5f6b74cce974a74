"""A lab's experiment, done piece by piece between views. No Qt."""

import time
from collections.abc import Callable, Generator, Iterator

from attnscope.analysis.rank import rank_collapse
from attnscope.models import Model
from attnscope.records.experiments import (
    CollapseFinding,
    CollapseQuestion,
    ExperimentNews,
    GradientQuestion,
    Question,
    ReachQuestion,
    RunExperiment,
    WarmupQuestion,
)
from attnscope.training.first_gradients import first_gradients
from attnscope.training.reaching import read_past
from attnscope.training.warming import warm_up
from attnscope.workers.mailbox import MAX_PER_S, RateLimit

GetModel = Callable[[], Model]


class ExperimentJob:
    """One experiment; `get_model` gives the open model, and raises UserError where there is none."""

    def __init__(
        self, request: RunExperiment, get_model: GetModel, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.number = request.number
        self.is_active = True
        self._limit = RateLimit(MAX_PER_S / 4, clock)
        self._steps = self._run(request.question, get_model)

    def advance(self) -> ExperimentNews | None:
        """Do one piece of work; returns what is to be told now. What it raises ends the job."""
        try:
            news = next(self._steps, None)
        except BaseException:
            self.is_active = False
            raise
        if news is None or news.is_done:
            self.is_active = False
            return news
        return news if self._limit.take() else None

    def stop(self) -> None:
        """Give the experiment up."""
        self._steps.close()
        self.is_active = False

    def _run(self, question: Question, get_model: GetModel) -> Generator[ExperimentNews, None, None]:
        yield from _work(question, self.number, get_model)


def kind_of(question: Question) -> str:
    """What kind of experiment a question asks for: one of each is under way at most."""
    return type(question).__name__


def _work(question: Question, number: int, get_model: GetModel) -> Iterator[ExperimentNews]:
    match question:
        case CollapseQuestion():
            yield _collapse(question, number, get_model())
        case GradientQuestion():
            yield from first_gradients(question, number)
        case WarmupQuestion():
            yield from warm_up(question, number)
        case ReachQuestion():
            yield from read_past(question, number)


def _collapse(question: CollapseQuestion, number: int, model: Model) -> ExperimentNews:
    curves = rank_collapse(model, question.text, question.target)
    finding = CollapseFinding(question=question, name=model.info.name, stack=curves[0].stack, curves=curves)
    return ExperimentNews(number=number, n_done=1, n_total=1, finding=finding, is_done=True)
