"""The engine's answer to ShowLens, and its place in the mailbox."""

import pytest
from worker_tools import ask, save_tiny

from attnscope.records import Failed, LensShown, LoadModel, ShowLens
from attnscope.workers import Engine, Mailbox


@pytest.mark.parametrize("form", ["decoder", "encoder", "encoder-decoder"])
def test_that_the_lens_shows_the_last_positions(engine: Engine, tmp_path: object, form: str) -> None:
    ask(engine, LoadModel(number=1, source=save_tiny(tmp_path / form, form), device="cpu"))  # type: ignore[operator]
    (reply,) = ask(engine, ShowLens(number=2, text="the cat sat", max_positions=2))
    assert isinstance(reply, LensShown)
    assert len(reply.table.levels) == 3
    assert len(reply.table.positions) <= 2
    assert reply.table.positions[-1] == reply.table.positions[0] + len(reply.table.positions) - 1


def test_that_without_a_model_the_lens_says_so(engine: Engine) -> None:
    (reply,) = ask(engine, ShowLens(number=5, text="the cat"))
    assert isinstance(reply, Failed)
    assert (reply.number, reply.request) == (5, "ShowLens")


def test_that_only_the_newest_lens_is_served() -> None:
    box = Mailbox()
    box.post(ShowLens(number=1, text="a"))
    box.post(ShowLens(number=2, text="b"))
    assert len(box) == 1
    taken = box.take()
    assert taken is not None
    assert taken.number == 2
