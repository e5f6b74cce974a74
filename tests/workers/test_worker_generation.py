"""Letting the open model write: news, then the trace and the text; other heads of it; giving up."""

from worker_tools import ask

from attnscope.records import (
    WRITTEN_TRACE,
    Failed,
    Gates,
    HeadRef,
    HeadsShown,
    LoadModel,
    ShowHeads,
    TextWritten,
    Traced,
    WriteSettings,
    WriteText,
    WritingNews,
)
from attnscope.workers import Mailbox

HEAD = HeadRef(stack="decoder", layer=1, head=0)


def request(number: int = 2, **values) -> WriteText:
    settings = values.pop("settings", WriteSettings(max_tokens=6))
    return WriteText(
        number=number, text=values.pop("text", "the cat"), settings=settings, heads=(HEAD,), **values
    )


def test_that_writing_tells_news_then_the_trace_then_the_text(engine, decoder):
    ask(engine, LoadModel(number=1, source=decoder, device="cpu"))
    *news, traced, written = ask(engine, request())
    assert isinstance(traced, Traced)
    assert isinstance(written, TextWritten)
    assert news
    assert all(isinstance(reply, WritingNews) and reply.number == 2 for reply in news)
    assert news[0].whole.startswith("the cat")
    assert traced.model == WRITTEN_TRACE
    assert traced.check.is_good
    assert traced.source == written.written.source
    assert traced.maps[0].weights.shape == (len(traced.source),) * 2
    assert [p.position for p in traced.comparison.after.predictions] == [
        token.position for token in written.written.tokens
    ]


def test_that_another_head_of_the_written_text_can_be_shown(engine, decoder):
    ask(engine, LoadModel(number=1, source=decoder, device="cpu"))
    n_tokens = len(ask(engine, request())[-1].written.source)
    other = HeadRef(stack="decoder", layer=0, head=1)
    (shown,) = ask(engine, ShowHeads(number=3, heads=(other,), model=WRITTEN_TRACE))
    assert isinstance(shown, HeadsShown)
    assert len(shown.maps[0].queries) == n_tokens


def test_that_gates_are_compared_on_the_written_text(engine, translator):
    ask(engine, LoadModel(number=1, source=translator, device="cpu"))
    gates = Gates.of({HeadRef(stack="cross", layer=0, head=0): 0.0})
    settings = WriteSettings(mode="beams", n_beams=2, max_tokens=5)
    *_, traced, written = ask(engine, request(gates=gates, settings=settings))
    assert written.gates == traced.gates == gates
    assert written.written.tree is not None
    comparison = traced.comparison
    assert len(comparison.kl_nats) == len(written.written.tokens)
    assert max(comparison.kl_nats) > 0.0
    assert comparison.before.predictions[0].candidates != comparison.after.predictions[0].candidates


def test_that_writing_is_given_up_at_the_next_token(engine, decoder):
    ask(engine, LoadModel(number=1, source=decoder, device="cpu"))
    replies = engine.handle(request())
    assert len(next(replies).tokens) == 1
    replies.close()
    assert isinstance(ask(engine, request(3))[-1], TextWritten)


def test_that_what_cannot_be_written_is_told(engine, decoder):
    (failed,) = ask(engine, request())
    assert isinstance(failed, Failed)
    assert "No model is open" in failed.message
    ask(engine, LoadModel(number=1, source=decoder, device="cpu"))
    (failed,) = ask(engine, request(settings=WriteSettings(mode="sample", top_p=0.0)))
    assert "top-p is 0.0" in failed.message


def test_that_a_newer_wish_takes_the_place_of_the_one_that_waits():
    box = Mailbox(clock=lambda: 0.0)
    box.post(request(1))
    box.post(request(2))
    assert len(box) == 1
    assert box.is_abandoned(request(1))
