"""A reply goes to the part of the window that asked, and to who hears of such replies."""

import pytest

from attnscope.records import Failed, ModelSaved, Ready, Reply
from attnscope.viewmodels import MOST_PARTS, Replies, Requests

READY = Ready(devices=("cpu",), demo_models=())


class Noting:
    def __init__(self, requests: Requests) -> None:
        self.numbers = requests
        self.taken: list[Reply] = []

    def handle(self, reply: Reply) -> None:
        self.taken.append(reply)


def test_that_numbers_of_all_parts_differ_and_none_is_zero() -> None:
    replies = Replies()
    parts = [replies.join(Noting) for _ in range(MOST_PARTS)]
    numbers = [part.numbers.next() for _ in range(20) for part in parts]
    assert len(set(numbers)) == len(numbers)
    assert min(numbers) == 1
    with pytest.raises(RuntimeError, match="at most"):
        replies.join(Noting)


def test_that_a_reply_goes_to_who_asked_alone() -> None:
    replies = Replies()
    parts = [replies.join(Noting) for _ in range(3)]
    for asker in (1, 0, 2, 1, 0):
        reply = Failed(number=parts[asker].numbers.next(), request="", message="no")
        replies.deliver(reply)
        assert parts[asker].taken.pop() is reply
        assert [part.taken for part in parts] == [[], [], []]
    replies.deliver(ModelSaved(number=MOST_PARTS - 1, folder=""))  # of a part that there is not
    assert [part.taken for part in parts] == [[], [], []]


def test_that_who_hears_of_a_kind_gets_it_once() -> None:
    replies = Replies()
    first, second, third = replies.join(Noting, Ready), replies.join(Noting, Ready), replies.join(Noting)
    replies.deliver(READY)  # number 0: nobody's, so the first part's
    assert (first.taken, second.taken, third.taken) == ([READY], [READY], [])
