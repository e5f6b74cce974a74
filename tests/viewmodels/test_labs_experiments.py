"""The experiments of labs as the window keeps them: asked once, newest wins, told when known."""

from typing import Any

from session_samples import Desk, state_of
from told import names_told

from attnscope.records import (
    CollapseFinding,
    CollapseQuestion,
    ExperimentNews,
    Failed,
    GradientFinding,
    GradientQuestion,
    ModelLoaded,
    Request,
    RunExperiment,
    StopWork,
    WarmupQuestion,
)
from attnscope.viewmodels.labs.controls import MAX_KEPT


def make() -> tuple[Any, list[Request], list[str]]:
    posted: list[Request] = []
    state = state_of("labs.experiments", posted.append, session=Desk().open().session)
    return state, posted, names_told(state.changed)


def done(number: int, question: GradientQuestion) -> ExperimentNews:
    finding = GradientFinding(question=question, curves=())
    return ExperimentNews(number=number, n_done=1, n_total=1, finding=finding, is_done=True)


def test_that_a_question_is_asked_once_and_its_answer_kept() -> None:
    state, posted, told = make()
    first, second = GradientQuestion(seed=1), GradientQuestion(seed=2)
    state.ask(first)
    state.ask(first)
    assert [type(p) for p in posted] == [RunExperiment]
    assert state.answer(first).is_asked
    state.handle(done(posted[0].number, first))
    assert state.answer(first).is_exact
    state.ask(first)
    assert len(posted) == 1
    state.ask(second)
    stale = state.answer(second)
    assert (stale.is_exact, stale.finding) == (False, state.answer(first).finding)
    assert told.count("answers") == 3


def test_that_news_of_an_earlier_question_are_dropped() -> None:
    state, posted, _ = make()
    first, second = GradientQuestion(seed=1), GradientQuestion(seed=2)
    state.ask(first)
    state.ask(second)
    state.ask(WarmupQuestion())
    state.handle(done(posted[0].number, first))
    assert not state.answer(first).is_exact
    assert state.answer(WarmupQuestion()).is_asked
    state.handle(done(posted[1].number, second))
    assert state.answer(second).is_exact


def test_that_a_failure_is_told_and_a_stop_forgets() -> None:
    state, posted, _ = make()
    question = GradientQuestion()
    state.ask(question)
    state.handle(Failed(number=posted[0].number, request="x", message="There is not enough memory."))
    assert state.answer(question).progress == "There is not enough memory."
    state.ask(question)
    assert len(posted) == 1
    state.ask(WarmupQuestion())
    state.stop(WarmupQuestion)
    assert isinstance(posted[-1], StopWork)
    assert posted[-1].work == "WarmupQuestion"
    assert not state.answer(WarmupQuestion()).is_asked


def test_that_another_model_is_another_question_and_begins_again_what_it_ended() -> None:
    state, posted, told = make()
    opened = state.open_model()
    assert opened is not None
    own = CollapseQuestion(model=opened.key, text=opened.text, target=opened.target)
    assert own.text
    state.ask(own)
    finding = CollapseFinding(question=own, name="tiny", stack="encoder", curves=())
    state.handle(ExperimentNews(number=posted[0].number, n_done=1, n_total=1, finding=finding, is_done=True))
    assert state.answer(own).finding == finding
    other = CollapseQuestion(model="other", text=own.text)
    assert state.answer(other).finding is None
    question = GradientQuestion()
    state.ask(question)
    desk = Desk().open()
    assert desk.session.model is not None
    state.handle(ModelLoaded(number=99, info=desk.session.model))
    assert isinstance(posted[-1], RunExperiment)
    assert posted[-1].number > posted[-2].number
    assert "model" in told


def test_that_only_so_many_answers_are_kept() -> None:
    state, posted, _ = make()
    questions = [GradientQuestion(seed=seed) for seed in range(MAX_KEPT + 1)]
    for question in questions:
        state.ask(question)
        state.handle(done(posted[-1].number, question))
    assert not state.answer(questions[0]).is_exact
    assert state.answer(questions[1]).is_exact
