"""A lab's experiment, done piece by piece between views. No Qt."""

from collections.abc import Generator, Iterator

from attnscope.errors import UserError
from attnscope.models import Model
from attnscope.records.experiments import ExperimentNews, Question, RunExperiment
from attnscope.records.requests import Reply
from attnscope.workers.desk import Desk, running, works
from attnscope.workers.experiments import work_on
from attnscope.workers.mailbox import MAX_PER_S


@works(RunExperiment, max_per_s=MAX_PER_S / 4)
def run_experiment(request: RunExperiment, desk: Desk) -> Generator[Reply, None, None]:
    """One experiment, which asks for the open model when it needs it."""
    yield from work_on(request.question, request.number, lambda: running(desk.model))


def experiment_news(question: Question) -> Iterator[ExperimentNews]:
    """The same where there is no worker; none of a question about an open model."""
    return work_on(question, 0, _no_model)


def _no_model() -> Model:
    raise UserError("This experiment is about the open model.", expected="the window, with a model")
