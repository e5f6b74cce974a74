"""Following a run folder that is being written: what is new, and nothing that is not whole (F42, F43)."""

from pathlib import Path

import pytest

from attnscope.errors import LoadError
from attnscope.records import Evaluated, RunNews, Saved, Started, Step, TrainingEvent
from attnscope.training import RunFollower, RunLock, line_from_event


def _step(step: int) -> Step:
    return Step(step=step, loss=2.0, learning_rate=0.1, gradient_norm=1.0, tokens_per_s=9.0, n_tokens=8)


def _line(event: TrainingEvent, attempt: int = 1) -> bytes:
    return f"{line_from_event(attempt, event)}\n".encode()


def _append(folder: Path, content: bytes) -> None:
    with (folder / "metrics.jsonl").open("ab") as stream:
        stream.write(content)


def _only(follower: RunFollower) -> RunNews:
    (news,) = follower.news()
    return news


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "recipe.toml").write_text("[model]\n")
    return tmp_path


def test_that_news_are_what_was_appended_since(folder: Path) -> None:
    follower = RunFollower(folder)
    first = _only(follower)
    assert (first.events, first.recipe, first.is_restart) == ((), "[model]\n", True)
    _append(folder, _line(_step(1)) + _line(_step(2)))
    assert _only(follower).events == (_step(1), _step(2))
    _append(folder, _line(_step(3)))
    news = _only(follower)
    assert (news.events, news.is_restart, news.recipe) == ((_step(3),), False, "")
    assert _only(follower).events == ()


def test_that_a_line_waits_until_it_is_whole(folder: Path) -> None:
    follower = RunFollower(folder)
    whole = _line(_step(2))
    _append(folder, _line(_step(1)) + whole[:20])
    assert _only(follower).events == (_step(1),)
    assert _only(follower).events == ()
    _append(folder, whole[20:])
    assert _only(follower).events == (_step(2),)


@pytest.mark.parametrize("is_longer", [False, True])
def test_that_a_replaced_file_is_told_from_its_beginning(folder: Path, is_longer: bool) -> None:
    follower = RunFollower(folder)
    _append(folder, b"".join(_line(_step(i)) for i in range(1, 6)))
    assert len(_only(follower).events) == 5
    events = [Evaluated(step=i, loss=1.0, accuracy=0.5) for i in range(9 if is_longer else 2)]
    (folder / "metrics.jsonl").write_bytes(b"".join(map(_line, events)))
    news = _only(follower)
    assert news.is_restart
    assert news.events == tuple(events)


def test_that_a_tail_of_nothing_is_passed_over_and_counted(folder: Path) -> None:
    follower = RunFollower(folder)
    _append(folder, _line(_step(1)) + b"\0" * 512)
    assert _only(follower).events == (_step(1),)
    (folder / "metrics.jsonl").write_bytes(_line(_step(1)))  # as a resumed run mends it
    _append(folder, b"{not json}\n" + _line(_step(2), attempt=2))
    news = _only(follower)
    assert (news.events, news.is_restart, news.n_bad_lines) == ((_step(2),), False, 1)


def test_that_an_attempt_that_was_overtaken_is_passed_over(folder: Path) -> None:
    follower = RunFollower(folder)
    resumed = Started(folder="run", step=1, n_steps=9, n_parameters=5, device="cpu")
    _append(folder, _line(_step(1)) + _line(resumed, 2) + _line(_step(2), 1) + _line(_step(2), 2))
    news = _only(follower)
    assert [type(event) for event in news.events] == [Step, Started, Step]
    _append(folder, _line(_step(3), 1))
    assert _only(follower).events == ()


def test_that_checkpoints_are_named_where_they_are_found(folder: Path) -> None:
    (folder / "checkpoints" / "4").mkdir(parents=True)
    _append(folder, _line(_step(1)))
    follower = RunFollower(folder)
    assert _only(follower).checkpoints == ((4, str(folder / "checkpoints" / "4")),)
    (folder / "checkpoints" / "8").mkdir()
    _append(folder, _line(Saved(step=8, folder="/on/another/computer/8")))
    news = _only(follower)
    here = str(folder / "checkpoints" / "8")
    assert (news.checkpoints, news.events) == (((8, here),), (Saved(step=8, folder=here),))


@pytest.mark.slow
def test_that_long_metrics_come_in_pieces(folder: Path) -> None:
    _append(folder, b"".join(_line(_step(i)) for i in range(1, 5001)))
    news = list(RunFollower(folder).news())
    assert len(news) > 1
    assert [n.has_more for n in news] == [True] * (len(news) - 1) + [False]
    assert [n.is_restart for n in news] == [True] + [False] * (len(news) - 1)
    assert [e.step for n in news for e in n.events] == list(range(1, 5001))


def test_that_news_say_who_writes(folder: Path) -> None:
    lock = RunLock(folder)
    writer = _only(RunFollower(folder)).writer
    assert writer is not None
    assert writer.is_here
    lock.release()
    assert _only(RunFollower(folder)).writer is None


def test_that_a_missing_folder_is_a_load_error(tmp_path: Path) -> None:
    with pytest.raises(LoadError, match="does not exist"):
        list(RunFollower(tmp_path / "none").news())
