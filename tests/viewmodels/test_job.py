"""One long pass: begun, followed, stopped, done or failed."""

import pytest

from attnscope.records import Failed, ModelSaved, OpenRun, Progress, Reply, Request, StopWork
from attnscope.viewmodels import Job, Requests

REQUEST = OpenRun(number=0, folder="a")


def made() -> tuple[Job[Progress, ModelSaved], list[Request]]:
    asked: list[Request] = []
    return Job(Progress, ModelSaved, Requests(asked.append)), asked


def test_that_a_pass_is_begun_followed_and_done() -> None:
    job, asked = made()
    assert (job.phase, job.is_running, job.fraction) == ("empty", False, None)
    job.start(REQUEST)
    assert asked == [OpenRun(number=1, folder="a")]
    assert (job.phase, job.is_running, job.fraction) == ("running", True, None)
    news = Progress(number=1, what="x", fraction=0.25)
    assert job.take(news)
    assert (job.news, job.fraction) == (news, 0.25)
    answer = ModelSaved(number=1, folder="a")
    assert job.take(answer)
    assert (job.phase, job.news, job.answer, job.error) == ("done", None, answer, "")


@pytest.mark.parametrize(
    "late",
    [
        Progress(number=1, what="late"),
        ModelSaved(number=1, folder="late"),
        Failed(number=1, request="", message="late"),
        ModelSaved(number=0, folder="of nobody"),
    ],
)
def test_that_a_reply_of_another_pass_changes_nothing(late: Reply) -> None:
    job, _ = made()
    job.start(REQUEST)
    job.start(REQUEST)
    assert not job.owns(late)
    assert not job.take(late)
    assert (job.phase, job.news, job.answer, job.error) == ("running", None, None, "")
    job.stop()
    assert not job.take(ModelSaved(number=2, folder="late"))
    assert (job.phase, job.answer) == ("stopped", None)


def test_that_a_reply_of_an_unknown_kind_is_owned_but_not_taken() -> None:
    job, _ = made()
    job.start(REQUEST)
    assert job.owns(Reply(number=1))
    assert not job.take(Reply(number=1))


def test_that_stopping_tells_the_worker_once_and_keeps_what_was_found() -> None:
    job, asked = made()
    job.start(REQUEST)
    job.take(ModelSaved(number=1, folder="a"))
    assert not job.stop()
    job.start(REQUEST)
    assert job.answer is not None
    job.take(Progress(number=2, what="x"))
    assert job.stop()
    assert not job.stop()
    assert asked[2:] == [StopWork(number=3, work="OpenRun")]
    assert (job.phase, job.news, job.answer) == ("stopped", None, ModelSaved(number=1, folder="a"))


def test_that_a_failure_keeps_what_was_found_and_the_next_pass_forgets_it() -> None:
    job, _ = made()
    job.start(REQUEST)
    job.take(ModelSaved(number=1, folder="a"))
    job.start(REQUEST)
    assert job.take(Failed(number=2, request="", message="no"))
    assert (job.phase, job.error, job.answer) == ("failed", "no", ModelSaved(number=1, folder="a"))
    job.start(REQUEST)
    assert (job.phase, job.error) == ("running", "")


def test_that_a_pass_that_answers_more_than_once_is_done_with_the_last() -> None:
    job = Job(Progress, ModelSaved, Requests([].append), is_last=lambda one: one.folder == "whole")
    job.start(REQUEST)
    assert job.take(ModelSaved(number=1, folder="part"))
    assert (job.phase, job.answer) == ("running", ModelSaved(number=1, folder="part"))
    assert job.take(ModelSaved(number=1, folder="whole"))
    assert (job.phase, job.answer) == ("done", ModelSaved(number=1, folder="whole"))
    assert not job.take(ModelSaved(number=1, folder="after it"))


def test_that_another_model_ends_the_pass_and_nothing_is_known_any_more() -> None:
    job, asked = made()
    job.start(REQUEST)
    job.take(ModelSaved(number=1, folder="a"))
    job.forget()
    assert (job.phase, job.answer, len(asked)) == ("empty", None, 1)
    job.start(REQUEST)
    job.forget()
    assert (job.phase, job.error, asked[-1]) == ("empty", "", StopWork(number=3, work="OpenRun"))
    assert not job.take(ModelSaved(number=2, folder="late"))


def test_that_a_pass_that_is_given_up_is_as_if_it_had_never_begun() -> None:
    job, asked = made()
    assert job.give_up() == 0
    job.start(REQUEST)
    assert job.give_up() == 1
    assert (job.phase, job.give_up(), len(asked)) == ("empty", 0, 1)
    assert not job.take(ModelSaved(number=1, folder="late"))
