"""The desk of the download thread: requests in order, a download step by step, and the thread itself."""

import threading

import pytest
from hub_server import Hub, drop_after, slowly, status

from attnscope.hub import fetching
from attnscope.hub.shelf import part_paths, whole_snapshot
from attnscope.records import (
    AskModel,
    Failed,
    FetchEnded,
    FetchModel,
    FetchNews,
    ModelOffered,
    ShelfShown,
    ShowShelf,
    StopFetching,
)
from attnscope.workers import NEWS_EVERY_S, FetchDesk, fetch_thread

NAME, WEIGHTS = "someone/tiny", "model.safetensors"


class Clock:
    """Goes on a little whenever it is looked at."""

    def __init__(self) -> None:
        self.now, self.step = 0.0, NEWS_EVERY_S

    def __call__(self) -> float:
        self.now += self.step
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def desk(clock: Clock) -> FetchDesk:
    return FetchDesk(clock)


def answers(desk: FetchDesk) -> list[object]:
    """Everything until there is nothing to do."""
    found: list[object] = []
    while desk.wait_s is not None:
        found.extend(desk.step())
    return found


def offered(desk: FetchDesk) -> FetchModel:
    desk.take(AskModel(number=1, name=NAME))
    (reply,) = answers(desk)
    assert isinstance(reply, ModelOffered)
    return FetchModel(number=2, offer=reply.offer)


def test_that_the_shelf_is_listed_and_names_the_host(desk: FetchDesk, hub: Hub) -> None:
    assert desk.wait_s is None
    desk.take(ShowShelf(number=7))
    assert desk.wait_s == 0.0
    (reply,) = answers(desk)
    assert isinstance(reply, ShelfShown)
    assert (reply.number, reply.host) == (7, hub.host)
    assert hub.asked == []


def test_that_a_download_tells_how_far_it_is_and_that_it_is_whole(desk: FetchDesk, hub: Hub) -> None:
    request = offered(desk)
    desk.take(request)
    *news, last = answers(desk)
    assert all(isinstance(one, FetchNews) and one.number == 2 and one.name == NAME for one in news)
    done = [one.step.n_done for one in news]
    assert done == sorted(done)
    assert len(done) > 3
    assert last == FetchEnded(number=2, name=NAME, is_whole=True)
    assert whole_snapshot(NAME) is not None


def test_that_news_come_no_oftener_than_they_can_be_read(desk: FetchDesk, clock: Clock, hub: Hub) -> None:
    request = offered(desk)
    clock.step = 0.0
    desk.take(request)
    desk.step()
    assert [type(reply) for reply in desk.step()] == [FetchEnded]


@pytest.mark.parametrize("keeps", [True, False])
def test_that_a_stop_ends_the_download_and_says_what_is_here(desk: FetchDesk, hub: Hub, keeps: bool) -> None:
    request = offered(desk)
    desk.take(request)
    while sum(path.stat().st_size for path in part_paths(NAME)) < 1000:
        assert desk.wait_s is not None
        desk.step()
    desk.take(StopFetching(number=3, name=NAME, keeps=keeps))
    (reply,) = answers(desk)
    n_kept = sum(path.stat().st_size for path in part_paths(NAME))
    assert isinstance(reply, FetchEnded)
    assert (reply.number, reply.is_whole) == (2, False)
    assert reply.offer.n_here == n_kept
    assert (n_kept > 0) == keeps
    assert whole_snapshot(NAME) is None
    desk.take(FetchModel(number=4, offer=reply.offer))
    assert answers(desk)[-1] == FetchEnded(number=4, name=NAME, is_whole=True)


def test_that_what_an_earlier_start_left_can_be_removed(desk: FetchDesk, hub: Hub, clock: Clock) -> None:
    desk.take(offered(desk))
    for _ in range(8):
        desk.step()
    desk.take(StopFetching(number=3, name=NAME, keeps=True))
    answers(desk)
    later = FetchDesk(clock)
    later.take(StopFetching(number=4, name=NAME, keeps=False))
    assert answers(later) == [FetchEnded(number=4, name=NAME)]
    assert part_paths(NAME) == []


def test_that_there_is_one_download_at_a_time(desk: FetchDesk, hub: Hub) -> None:
    request = offered(desk)
    desk.take(request)
    desk.take(FetchModel(number=9, offer=request.offer))
    desk.step()
    (reply,) = desk.step()
    assert isinstance(reply, Failed)
    assert reply.number == 9
    assert "someone/tiny is being downloaded" in reply.message
    assert answers(desk)[-1] == FetchEnded(number=2, name=NAME, is_whole=True)


def test_that_a_refusal_is_told_with_what_is_here(desk: FetchDesk, hub: Hub) -> None:
    hub.faults[WEIGHTS] = [drop_after(1000), status(403)]
    desk.take(offered(desk))
    *_, failed, ended = answers(desk)
    assert isinstance(failed, Failed)
    assert (failed.number, failed.request) == (2, "FetchModel")
    assert "accepted its terms" in failed.message
    assert isinstance(ended, FetchEnded)
    assert not ended.is_whole
    assert ended.offer.n_here == sum(path.stat().st_size for path in part_paths(NAME)) > 1000
    hub.faults["/api/"] = [status(404)]
    desk.take(AskModel(number=5, name=NAME))
    (reply,) = answers(desk)
    assert isinstance(reply, Failed)
    assert (reply.number, reply.request) == (5, "AskModel")


def test_that_a_pause_of_the_server_is_waited_for_without_holding_up_requests(
    desk: FetchDesk, clock: Clock, hub: Hub
) -> None:
    hub.faults[WEIGHTS] = [status(429, **{"Retry-After": "50"})]
    desk.take(offered(desk))
    news = None
    while news is None or not news.step.wait_s:
        (news,) = desk.step() or (news,)
    clock.step = 0.0
    assert desk.wait_s == pytest.approx(50.0)
    assert desk.step() == ()
    desk.take(ShowShelf(number=8))
    assert desk.wait_s == 0.0
    assert [type(reply) for reply in desk.step()] == [ShelfShown]
    clock.now += 50.0
    assert answers(desk)[-1] == FetchEnded(number=2, name=NAME, is_whole=True)


def test_that_a_fault_of_the_program_ends_the_download_alone(
    desk: FetchDesk, hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> int:
        raise ZeroDivisionError

    desk.take(offered(desk))
    desk.step()
    monkeypatch.setattr(fetching, "write_bytes", fail)
    with pytest.raises(ZeroDivisionError):
        answers(desk)
    assert desk.wait_s is None


@pytest.mark.qt
def test_that_the_thread_downloads_and_ends(qtbot, hub: Hub) -> None:
    thread = fetch_thread(lambda error, what: None)
    replies: list[object] = []
    try:
        with qtbot.waitSignal(thread.replied, check_params_cb=lambda r: isinstance(r, ModelOffered)) as offer:
            thread.post(AskModel(number=1, name=NAME))
        is_end = lambda reply: replies.append(reply) or isinstance(reply, FetchEnded)  # noqa: E731
        with qtbot.waitSignal(thread.replied, check_params_cb=is_end):
            thread.post(FetchModel(number=2, offer=offer.args[0].offer))
    finally:
        assert thread.stop()
    assert replies[-1] == FetchEnded(number=2, name=NAME, is_whole=True)
    assert whole_snapshot(NAME) is not None


@pytest.mark.qt
def test_that_closing_ends_a_download_and_keeps_what_came(qtbot, hub: Hub) -> None:
    closed = threading.Event()
    hub.models[NAME][WEIGHTS] = bytes(40_000_000)
    hub.faults[WEIGHTS] = [slowly(closed)]
    thread = fetch_thread(lambda error, what: None)
    try:
        with qtbot.waitSignal(thread.replied, check_params_cb=lambda r: isinstance(r, ModelOffered)) as offer:
            thread.post(AskModel(number=1, name=NAME))
        with qtbot.waitSignal(thread.replied, check_params_cb=lambda r: isinstance(r, FetchNews)):
            thread.post(FetchModel(number=2, offer=offer.args[0].offer))
    finally:
        assert thread.stop()
        closed.set()
    assert whole_snapshot(NAME) is None
    assert part_paths(NAME)


@pytest.mark.qt
def test_that_a_fault_of_the_program_is_written_down_and_told(
    qtbot, hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("attnscope.workers.fetch_desk.shelf_rows", lambda: 1 // 0)
    written: list[str] = []
    thread = fetch_thread(lambda error, what: written.append(f"{type(error).__name__} {what}"))
    try:
        with qtbot.waitSignal(thread.replied) as told:
            thread.post(ShowShelf(number=1))
    finally:
        assert thread.stop()
    assert written == ["ZeroDivisionError serving the shelf of models"]
    assert "a fault in AttnScope (ZeroDivisionError)" in told.args[0].message
