"""The maps of a text come with the pass; what the model writes comes after them, unless it is known."""

from dataclasses import replace

import pytest
from worker_tools import ask

from attnscope.models import load, network
from attnscope.nn import stop_if_unwanted, stoppable
from attnscope.records import NO_GATES, Failed, Gates, HeadRef, LoadModel, OutputWritten, Traced, TraceText
from attnscope.workers import Engine

TEXT = "the cat sat on the mat"
OFF = Gates.of({HeadRef(stack="decoder", layer=0, head=1): 0.0})


def replies_of(engine: Engine, source: str, **more: object) -> list[object]:
    ask(engine, LoadModel(number=1, source=source, device="cpu"))
    return list(ask(engine, TraceText(number=2, text=TEXT, **more)))  # type: ignore[arg-type]


@pytest.mark.parametrize("gates", [NO_GATES, OFF], ids=["whole", "pruned"])
def test_that_maps_come_before_the_continuation(engine: Engine, decoder: str, gates: Gates) -> None:
    first, second = replies_of(engine, decoder, gates=gates)
    assert isinstance(first, Traced)
    assert isinstance(second, OutputWritten)
    assert first.comparison.is_writing
    assert (first.comparison.before.generated, first.comparison.after.generated) == ("", "")
    whole = load(decoder, device="cpu").look(TEXT, gates=gates, top=8).comparison
    assert not whole.is_writing
    assert whole.before.generated
    assert second.comparison.before.generated == whole.before.generated
    assert second.comparison.after.generated == whole.after.generated
    assert replace(first.comparison, is_writing=False).kl_nats == second.comparison.kl_nats


@pytest.mark.slow
@pytest.mark.parametrize(
    ("gates", "target", "n_replies"), [(NO_GATES, None, 1), (OFF, None, 2), (NO_GATES, "le chat", 2)]
)
def test_that_a_translation_that_is_known_is_not_waited_for(
    engine: Engine, translator: str, gates: Gates, target: str | None, n_replies: int
) -> None:
    replies = replies_of(engine, translator, gates=gates, target=target)
    assert len(replies) == n_replies
    first = replies[0]
    assert isinstance(first, Traced)
    assert first.comparison.is_writing == (n_replies == 2)
    if target is None:  # what the decoder reads is what the model writes with all heads on
        assert first.target is not None
        assert first.comparison.before.generated == first.target.text


def test_that_a_newer_text_stops_the_writing_between_two_tokens(
    engine: Engine, decoder: str, monkeypatch: pytest.MonkeyPatch
) -> None:

    passes: list[bool] = []
    monkeypatch.setattr(network, "stop_if_unwanted", lambda: (passes.append(True), stop_if_unwanted()))
    monkeypatch.setattr(network, "N_GUESSES", 0)
    ask(engine, LoadModel(number=1, source=decoder, device="cpu"))
    ask(engine, TraceText(number=2, text=TEXT))
    n_whole = len(passes)
    passes.clear()
    with stoppable(lambda: len(passes) == 3):
        replies = ask(engine, TraceText(number=3, text="a dog and a bird"))
    assert [type(reply) for reply in replies] == [Traced]
    assert len(passes) == 3 < n_whole


def test_that_a_fault_in_writing_leaves_the_maps(
    engine: Engine, decoder: str, monkeypatch: pytest.MonkeyPatch, crashes: list[str]
) -> None:
    from attnscope.models import OwnNetwork

    def fail(*_args: object, **_more: object) -> list[int]:
        raise MemoryError

    monkeypatch.setattr(OwnNetwork, "write", fail)
    first, second = replies_of(engine, decoder)
    assert isinstance(first, Traced)
    assert isinstance(second, Failed)
    assert second.number == first.number
    assert crashes == []
