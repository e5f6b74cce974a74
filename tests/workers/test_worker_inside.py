"""The engine's answer to ShowInside, what it keeps, and its place in the mailbox."""

import dataclasses

import pytest
from worker_tools import ask

from attnscope.models import Model
from attnscope.records import Failed, HeadRef, InsideShown, LoadModel, ShowInside
from attnscope.workers import Engine, Mailbox

HEAD = HeadRef(stack="cross", layer=1, head=0)


def test_that_walking_the_queries_of_a_head_takes_one_pass(
    engine: Engine, translator: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask(engine, LoadModel(number=1, source=translator, device="cpu"))
    passes: list[object] = []
    own = Model.trace_site

    def counting(self: Model, *args: object, **names: object) -> object:
        passes.append(args)
        return own(self, *args, **names)  # type: ignore[arg-type]

    monkeypatch.setattr(Model, "trace_site", counting)
    request = ShowInside(number=2, head=HEAD, query=0, text="the cat sat", target="le chat est")
    for query in range(3):
        (reply,) = ask(engine, dataclasses.replace(request, query=query))
        assert isinstance(reply, InsideShown)
        assert (reply.inside.query, reply.inside.is_exact) == (query, True)
    assert len(passes) == 1
    ask(engine, dataclasses.replace(request, text="the dog sat"))
    ask(engine, LoadModel(number=3, source=translator, device="cpu"))
    ask(engine, dataclasses.replace(request, text="the dog sat"))
    assert len(passes) == 3


def test_that_a_query_that_is_not_there_fails_in_words(engine: Engine, translator: str) -> None:
    ask(engine, LoadModel(number=1, source=translator, device="cpu"))
    (reply,) = ask(engine, ShowInside(number=5, head=HEAD, query=99, text="the cat", target="le chat"))
    assert isinstance(reply, Failed)
    assert (reply.number, reply.request) == (5, "ShowInside")
    assert "no query 99" in reply.message


def test_that_only_the_newest_inside_is_served() -> None:
    box = Mailbox()
    for number in (1, 2):
        box.post(ShowInside(number=number, head=HEAD, query=0, text="a"))
    taken = box.take()
    assert taken is not None
    assert (taken.number, len(box)) == (2, 0)
