"""The mailbox, with a clock that a test moves."""

import pytest

from attnscope.records import (
    TRAINING_MODEL,
    ControlTraining,
    LoadModel,
    MeasureHeads,
    PlanRecipe,
    Request,
    SaveModel,
    ShowHeads,
    ShowPositions,
    StartTraining,
    TraceText,
)
from attnscope.workers import IDLE_S, Mailbox, RateLimit


class Clock:
    """Time in seconds, moved by hand."""

    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def mailbox(clock: Clock) -> Mailbox:
    return Mailbox(clock=clock)


def trace(number: int, model: str = "") -> TraceText:
    return TraceText(number=number, text=f"text {number}", model=model)


def load(number: int) -> LoadModel:
    return LoadModel(number=number, source="any")


def idle(number: int) -> MeasureHeads:
    return MeasureHeads(number=number, is_idle=True)


def take_all(mailbox: Mailbox) -> list[int]:
    numbers = []
    while (request := mailbox.take()) is not None:
        numbers.append(request.number)
    return numbers


def test_that_an_empty_mailbox_gives_nothing(mailbox: Mailbox) -> None:
    assert mailbox.take() is None
    assert mailbox.wait_s() is None
    assert len(mailbox) == 0


def test_that_the_newest_view_of_a_kind_replaces_the_waiting_one(mailbox: Mailbox) -> None:
    for number in (1, 2, 3):
        mailbox.post(trace(number))
    assert take_all(mailbox) == [3]


def test_that_views_of_other_models_and_kinds_are_kept(mailbox: Mailbox) -> None:
    mailbox.post(trace(1))
    mailbox.post(trace(2, TRAINING_MODEL))
    mailbox.post(ShowHeads(number=3, heads=()))
    mailbox.post(ShowPositions(number=4, names=(), n_positions=4, d_model=4))
    mailbox.post(trace(5))
    assert take_all(mailbox) == [2, 3, 4, 5]


def test_that_questions_of_two_pages_about_recipes_are_both_answered(mailbox: Mailbox) -> None:
    for number, place in ((1, ""), (2, "offered"), (3, "")):
        mailbox.post(PlanRecipe(number=number, recipe="", place=place))
    assert take_all(mailbox) == [2, 3]


def test_that_load_train_save_and_control_keep_their_order(mailbox: Mailbox) -> None:
    posted: list[Request] = [
        load(1),
        load(2),
        StartTraining(number=3, recipe="", out="x"),
        ControlTraining(number=4, action="pause"),
        ControlTraining(number=5, action="resume"),
        SaveModel(number=6, folder="x"),
        load(7),
    ]
    for request in posted:
        mailbox.post(request)
    assert take_all(mailbox) == [1, 2, 3, 4, 5, 6, 7]


def test_that_a_view_posted_after_a_load_is_served_after_it(mailbox: Mailbox) -> None:
    mailbox.post(trace(1))
    mailbox.post(load(2))
    mailbox.post(trace(3))
    assert take_all(mailbox) == [2, 3]


def test_that_a_view_is_served_at_most_twenty_times_a_second(mailbox: Mailbox, clock: Clock) -> None:
    n_served = 0
    for number in range(1, 1001):
        mailbox.post(trace(number))
        n_served += len(take_all(mailbox))
        clock.now_s += 0.001
    assert 19 <= n_served <= 21


def test_that_the_first_view_after_silence_is_served_at_once(mailbox: Mailbox, clock: Clock) -> None:
    mailbox.post(trace(1))
    assert mailbox.wait_s() == 0.0
    assert take_all(mailbox) == [1]
    clock.now_s += 0.06
    mailbox.post(trace(2))
    assert mailbox.wait_s() == 0.0


def test_that_a_held_back_view_says_how_long_to_wait_and_is_then_served(
    mailbox: Mailbox, clock: Clock
) -> None:
    mailbox.post(trace(1))
    assert take_all(mailbox) == [1]
    clock.now_s += 0.02
    mailbox.post(trace(2))
    assert mailbox.take() is None
    assert mailbox.wait_s() == pytest.approx(0.03)
    clock.now_s += 0.0301
    assert take_all(mailbox) == [2]


def test_that_a_held_back_view_lets_other_views_pass_but_no_load(mailbox: Mailbox, clock: Clock) -> None:
    mailbox.post(trace(1))
    assert take_all(mailbox) == [1]
    mailbox.post(trace(2))
    mailbox.post(trace(3, TRAINING_MODEL))
    mailbox.post(load(4))
    assert take_all(mailbox) == [3]
    clock.now_s += 0.051
    assert take_all(mailbox) == [2, 4]


def test_that_a_cancelled_request_is_not_served(mailbox: Mailbox) -> None:
    mailbox.post(load(1))
    mailbox.post(load(2))
    mailbox.cancel(1)
    assert take_all(mailbox) == [2]


def test_that_cancelling_a_request_in_service_abandons_it(mailbox: Mailbox) -> None:
    mailbox.post(load(1))
    request = mailbox.take()
    assert request is not None
    assert not mailbox.is_abandoned(request)
    mailbox.cancel(1)
    assert mailbox.is_abandoned(request)
    mailbox.finish(request)
    assert not mailbox.is_abandoned(request)


def test_that_a_newer_view_abandons_the_one_in_service(mailbox: Mailbox) -> None:
    mailbox.post(trace(1))
    request = mailbox.take()
    assert request is not None
    mailbox.post(trace(2, TRAINING_MODEL))
    assert not mailbox.is_abandoned(request)
    mailbox.post(trace(3))
    assert mailbox.is_abandoned(request)


def test_that_a_newer_load_does_not_abandon_the_one_in_service(mailbox: Mailbox) -> None:
    mailbox.post(load(1))
    request = mailbox.take()
    assert request is not None
    mailbox.post(load(2))
    assert not mailbox.is_abandoned(request)


def test_that_clearing_forgets_what_waits(mailbox: Mailbox) -> None:
    mailbox.post(load(1))
    mailbox.clear()
    assert mailbox.take() is None


def test_that_a_rate_limit_counts_only_its_yes(clock: Clock) -> None:
    limit = RateLimit(20.0, clock)
    assert limit.take()
    assert not limit.take()
    clock.now_s += 0.0501
    assert limit.take()
    assert limit.wait_s() == pytest.approx(0.05)


def test_that_an_idle_request_waits_for_quiet_after_the_last_request_was_served(
    mailbox: Mailbox, clock: Clock
) -> None:
    mailbox.post(idle(1))
    mailbox.post(load(2))
    assert mailbox.wait_s() == 0.0
    request = mailbox.take()
    assert request == load(2)
    clock.now_s += 10 * IDLE_S  # a long load is no quiet
    mailbox.finish(load(2))
    assert mailbox.take() is mailbox.take_idle() is None
    assert mailbox.wait_s() == pytest.approx(IDLE_S)
    clock.now_s += IDLE_S + 0.01
    assert mailbox.wait_s() == 0.0
    assert mailbox.take() is None
    quiet = mailbox.take_idle()
    assert quiet == idle(1)
    mailbox.finish(quiet)
    assert mailbox.take_idle() is mailbox.wait_s() is None


def test_that_an_idle_request_gives_way_to_any_other_and_is_served_anew_until_it_is_finished(
    mailbox: Mailbox, clock: Clock
) -> None:
    mailbox.post(idle(1))
    for number in (2, 3):
        clock.now_s += 2 * IDLE_S
        request = mailbox.take_idle()
        assert request is not None
        assert not mailbox.is_abandoned(request)
        mailbox.post(trace(number))
        assert mailbox.is_abandoned(request)
        mailbox.finish(request)
        assert mailbox.take_idle() is None
        assert take_all(mailbox) == [number]
        mailbox.finish(trace(number))
        assert mailbox.take_idle() is None
    clock.now_s += 2 * IDLE_S
    assert mailbox.take_idle() == idle(1)


def test_that_an_idle_request_ends_when_it_is_cancelled_replaced_or_cleared(
    mailbox: Mailbox, clock: Clock
) -> None:
    clock.now_s += 2 * IDLE_S
    for k, end in enumerate((mailbox.cancel, lambda n: mailbox.clear(), lambda n: mailbox.post(idle(n + 1)))):
        request = idle(10 * k)
        mailbox.post(request)
        assert mailbox.take_idle() is request
        end(request.number)
        assert mailbox.is_abandoned(request)
        mailbox.finish(request)
    assert mailbox.take_idle() == idle(21)
