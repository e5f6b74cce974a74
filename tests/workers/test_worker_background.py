"""Long passes between views: what they tell, how often, and how they end."""

from collections.abc import Generator

import pytest

from attnscope.records import Progress, Ready, Reply
from attnscope.workers import BackgroundJobs, StepsJob

RESULT = Ready(devices=("cpu",), demo_models=())


def counted(n: int) -> Generator[Reply, None, None]:
    for k in range(n):
        yield Progress(number=1, what=str(k))
    yield RESULT


def test_that_progress_is_told_seldom_and_a_result_always() -> None:
    job = StepsJob(1, counted(1000), max_per_s=0.001)
    told = []
    while job.is_active:
        told.append(job.advance())
    assert [news for news in told if news is not None] == [Progress(number=1, what="0"), RESULT]
    assert len(told) == 1002
    assert job.advance() is None


def test_that_a_pass_that_fails_is_over_and_others_go_on() -> None:
    def failing() -> Generator[Reply, None, None]:
        yield RESULT
        raise ValueError("no more")

    jobs = BackgroundJobs()
    jobs.start("bad", StepsJob(1, failing()))
    jobs.start("good", StepsJob(2, counted(0)))
    failed: list[tuple[int, str, str]] = []

    def note(number: int, kind: str, error: BaseException) -> Reply:
        failed.append((number, kind, str(error)))
        return RESULT

    told = [list(jobs.advance(note)) for _ in range(4)]
    assert told == [[RESULT], [RESULT], [RESULT], []]
    assert failed == [(1, "bad", "no more")]
    assert not jobs.is_active


def test_that_a_pass_given_up_runs_its_clean_up() -> None:
    ended = []

    def steps() -> Generator[Reply, None, None]:
        try:
            yield from counted(9)
        finally:
            ended.append("closed")

    job = StepsJob(1, steps())
    job.advance()
    job.stop()
    assert ended == ["closed"]
    assert not job.is_active
    with pytest.raises(RuntimeError, match="lost"):
        StepsJob(2, (_ for _ in _lost())).advance()


def _lost() -> Generator[Reply, None, None]:
    raise RuntimeError("lost")
    yield RESULT
