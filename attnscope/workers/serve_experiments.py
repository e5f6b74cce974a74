"""A lab's experiment, done piece by piece between views. No Qt."""

from collections.abc import Callable, Generator, Sequence

import numpy as np

from attnscope.analysis.bleu import bleu_of, count_ngrams
from attnscope.analysis.rank import rank_collapse
from attnscope.errors import UserError
from attnscope.models import Model
from attnscope.records.experiments import (
    CollapseFinding,
    CollapseQuestion,
    ExperimentNews,
    GradientQuestion,
    ModifyQuestion,
    Question,
    ReachQuestion,
    RunExperiment,
    TuneQuestion,
    WarmupQuestion,
    WritingQuestion,
)
from attnscope.records.requests import Reply
from attnscope.training.first_gradients import first_gradients
from attnscope.training.modifying import try_modifications
from attnscope.training.reaching import read_past
from attnscope.training.tuning import fine_tune
from attnscope.training.warming import try_warmups
from attnscope.training.writing_lengths import compare_writers
from attnscope.workers.desk import Desk, running, works
from attnscope.workers.mailbox import MAX_PER_S

GetModel = Callable[[], Model]


@works(RunExperiment, max_per_s=MAX_PER_S / 4)
def run_experiment(request: RunExperiment, desk: Desk) -> Generator[Reply, None, None]:
    """One experiment, which asks for the open model when it needs it."""
    return _work(request.question, request.number, lambda: running(desk.model))


def experiment_news(question: Question) -> Generator[ExperimentNews, None, None]:
    """The same where there is no worker; none of a question about an open model."""
    for reply in _work(question, 0, _no_model):
        if isinstance(reply, ExperimentNews):
            yield reply


def _no_model() -> Model:
    raise UserError("This experiment is about the open model.", expected="the window, with a model")


def _work(question: Question, number: int, get_model: GetModel) -> Generator[Reply, None, None]:
    match question:
        case CollapseQuestion():
            yield _collapse(question, number, get_model())
        case GradientQuestion():
            yield from first_gradients(question, number)
        case WarmupQuestion():
            yield from try_warmups(question, number)
        case ReachQuestion():
            yield from read_past(question, number)
        case WritingQuestion():
            yield from compare_writers(question, number)
        case TuneQuestion():
            yield from fine_tune(question, number)
        case ModifyQuestion():
            yield from try_modifications(question, number, bleu=_bleu)


def _bleu(written: Sequence[str], right: Sequence[str]) -> float:
    """BLEU of texts against one reference each, without its interval."""
    counts = [count_ngrams(text, reference) for text, reference in zip(written, right, strict=True)]
    return float(bleu_of(np.sum(counts, axis=0)))


def _collapse(question: CollapseQuestion, number: int, model: Model) -> ExperimentNews:
    curves = rank_collapse(model, question.text, question.target)
    finding = CollapseFinding(question=question, name=model.info.name, stack=curves[0].stack, curves=curves)
    return ExperimentNews(number=number, n_done=1, n_total=1, finding=finding, is_done=True)
