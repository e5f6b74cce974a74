"""A lab's experiment, done piece by piece between views. No Qt."""

from collections.abc import Callable, Generator

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
    WritingQuestion,
)
from attnscope.records.messages import Reply
from attnscope.training.first_gradients import first_gradients
from attnscope.training.reaching import read_past
from attnscope.training.warming import warm_up
from attnscope.training.writing_lengths import compare_writers
from attnscope.workers.background import StepsJob
from attnscope.workers.mailbox import MAX_PER_S

GetModel = Callable[[], Model]


def experiment_job(request: RunExperiment, get_model: GetModel) -> StepsJob:
    """One experiment; `get_model` gives the open model, and raises UserError where there is none."""
    steps = _work(request.question, request.number, get_model)
    return StepsJob(request.number, steps, _is_passing, max_per_s=MAX_PER_S / 4)


def kind_of(question: Question) -> str:
    """What kind of experiment a question asks for: one of each is under way at most."""
    return type(question).__name__


def _is_passing(news: Reply) -> bool:
    return isinstance(news, ExperimentNews) and not news.is_done


def _work(question: Question, number: int, get_model: GetModel) -> Generator[ExperimentNews, None, None]:
    match question:
        case CollapseQuestion():
            yield _collapse(question, number, get_model())
        case GradientQuestion():
            yield from first_gradients(question, number)
        case WarmupQuestion():
            yield from warm_up(question, number)
        case ReachQuestion():
            yield from read_past(question, number)
        case WritingQuestion():
            yield from compare_writers(question, number)


def _collapse(question: CollapseQuestion, number: int, model: Model) -> ExperimentNews:
    curves = rank_collapse(model, question.text, question.target)
    finding = CollapseFinding(question=question, name=model.info.name, stack=curves[0].stack, curves=curves)
    return ExperimentNews(number=number, n_done=1, n_total=1, finding=finding, is_done=True)
