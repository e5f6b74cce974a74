"""Heads are those of the trace that is shown, also when a trace was given up after it was made."""

from pathlib import Path

import pytest
from session_samples import Desk, ref
from worker_tools import traced_whole

from attnscope.errors import Stopped
from attnscope.models.huggingface import library_faults
from attnscope.nn import stoppable
from attnscope.paths import resources_folder
from attnscope.records import (
    HeadRef,
    HeadsShown,
    LoadModel,
    ModelLoaded,
    OutputWritten,
    ShowHeads,
    Traced,
    TraceText,
)
from attnscope.workers import N_CHECKPOINTS_KEPT, Engine, TileDesk, TileServer, Views, serve_views

HEAD = HeadRef(stack="decoder", layer=0, head=0)


def write_nothing(_error: BaseException, _what: str) -> Path | None:
    return None


def opened() -> Engine:
    engine = Engine(write_nothing)
    assert isinstance([*engine.handle(LoadModel(number=1, source="stories", device="cpu"))][-1], ModelLoaded)
    return engine


def test_that_heads_of_another_trace_than_the_shown_one_do_not_come() -> None:
    engine = opened()
    shown = traced_whole(engine.handle(TraceText(number=2, text="to be or not")))
    given_up = engine.handle(TraceText(number=3, text="the king"))
    assert isinstance(next(given_up), Traced)  # made, but nobody waits for it any more
    given_up.close()  # type: ignore[attr-defined]
    assert [*engine.handle(ShowHeads(number=4, heads=(HEAD,), trace=2))] == []
    (heads,) = engine.handle(ShowHeads(number=5, heads=(HEAD,), trace=3))
    assert isinstance(heads, HeadsShown)
    assert len(heads.maps[0].queries) != len(shown.source.tokens)
    assert len([*engine.handle(ShowHeads(number=6, heads=(HEAD,)))]) == 1


def test_that_a_trace_given_up_at_its_very_end_takes_no_place(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = opened()
    list(engine.handle(TraceText(number=2, text="to be or not")))
    kept, is_made = list[int](), list[bool]()
    monkeypatch.setattr(Views, "keep", lambda _self, _place, _trace, number=0, **_how: kept.append(number))
    made = serve_views.Traced

    def make(**values: object) -> Traced:
        is_made.append(True)
        return made(**values)  # type: ignore[arg-type]

    monkeypatch.setattr(serve_views, "Traced", make)
    with stoppable(lambda: bool(is_made)):
        assert [*engine.handle(TraceText(number=3, text="the king"))] == []
    assert is_made == [True]
    assert kept == []


def test_that_the_open_model_keeps_its_trace_however_many_checkpoints_are_looked_at() -> None:
    engine = opened()
    list(engine.handle(TraceText(number=2, text="to be or not")))
    list(engine.handle(TraceText(number=3, text="the king", view="A")))
    films = sorted((resources_folder() / "films").glob("induction*/checkpoints/*"))[: N_CHECKPOINTS_KEPT + 1]
    for number, film in enumerate(films, start=4):
        assert traced_whole(engine.handle(TraceText(number=number, text="q w e q w", model=str(film))))
    (open_head,) = engine.handle(ShowHeads(number=90, heads=(HEAD,), trace=2))
    (view_head,) = engine.handle(ShowHeads(number=91, heads=(HEAD,), view="A", trace=3))
    assert isinstance(open_head, HeadsShown)
    assert isinstance(view_head, HeadsShown)
    of_films = {
        str(film): [*engine.handle(ShowHeads(number=92, heads=(), model=str(film), trace=number))]
        for number, film in enumerate(films, start=4)
    }
    assert [bool(replies) for replies in of_films.values()] == [False, *[True] * N_CHECKPOINTS_KEPT]


def test_that_a_session_asks_for_heads_of_the_trace_that_it_shows() -> None:
    desk = Desk().open()
    shown = desk.session.traced
    assert shown is not None
    desk.posted.clear()
    desk.session.select_heads((ref(1, 1),))
    (request,) = [one for one in desk.posted if isinstance(one, ShowHeads)]
    assert request.trace == shown.number > 0


def test_that_giving_up_is_no_fault_of_the_library() -> None:
    with pytest.raises(Stopped), library_faults("It failed", kind="architecture", action="None."):
        raise Stopped


def test_that_another_head_is_shown_while_the_continuation_is_being_written() -> None:
    views = Views()
    engine = Engine(write_nothing, views)
    list(engine.handle(LoadModel(number=1, source="stories", device="cpu")))
    replies = engine.handle(TraceText(number=2, text="to be or not"))
    traced = next(reply for reply in replies if isinstance(reply, Traced))
    assert traced.comparison.is_writing  # and the worker is at it from here on
    desk = TileDesk(TileServer(views))
    desk.take(ShowHeads(number=3, heads=(HEAD,), trace=2))
    (shown,) = desk.step()
    assert isinstance(shown, HeadsShown)
    assert (shown.number, shown.trace, shown.maps[0].head) == (3, 2, HEAD)
    assert isinstance(next(replies), OutputWritten)
