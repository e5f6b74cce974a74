"""While a model writes its own translation its maps come as far as it is written, marked as a part."""

import numpy as np
import pytest
from worker_tools import ask

from attnscope.models import Model, load, network
from attnscope.nn import progress_heard, stoppable
from attnscope.records import NO_GATES, Gates, HeadRef, LoadModel, MakeUniform, Reply, Traced, TraceText
from attnscope.workers import Engine, serve_views

TEXT = "the cat sat on the mat"
HEADS = tuple(HeadRef(stack=stack, layer=1, head=1) for stack in ("encoder", "decoder", "cross"))
OFF = Gates.of({HeadRef(stack="decoder", layer=0, head=1): 0.0})


class Desk:
    """An engine with a translator that writes token by token; `told` is what comes meanwhile."""

    def __init__(self, engine: Engine, translator: str) -> None:
        self.engine, self.told = engine, list[Reply]()
        ask(engine, LoadModel(number=1, source=translator, device="cpu"))

    def trace(self, number: int = 2, text: str = TEXT, **more: object) -> list[Reply]:
        request = TraceText(number=number, text=text, heads=HEADS, **more)  # type: ignore[arg-type]
        with progress_heard(self.told.append):  # type: ignore[arg-type]
            return ask(self.engine, request)

    @property
    def parts(self) -> list[Traced]:
        return [reply for reply in self.told if isinstance(reply, Traced)]


@pytest.fixture
def desk(engine: Engine, translator: str, monkeypatch: pytest.MonkeyPatch) -> Desk:
    monkeypatch.setattr(network, "N_GUESSES", 0)
    monkeypatch.setattr(serve_views, "_PART_AFTER_S", 0.0)
    monkeypatch.setattr(serve_views, "_NEXT_PART_AFTER_S", 0.0)
    return Desk(engine, translator)


@pytest.mark.parametrize("gates", [NO_GATES, OFF], ids=["whole", "pruned"])
def test_that_the_maps_of_a_part_are_those_of_the_whole(desk: Desk, translator: str, gates: Gates) -> None:
    whole = next(reply for reply in desk.trace(gates=gates) if isinstance(reply, Traced))
    model = load(translator, device="cpu")
    trace = model.trace(TEXT, gates=gates)
    assert whole.target is not None
    assert trace.target is not None
    assert whole.is_whole
    assert whole.target.ids == trace.target.ids  # the window's own target is Python's
    assert len(desk.parts) == len(whole.target) - 2  # a part after each token but the last
    for part in desk.parts:
        n = len(part.target or ())
        assert part.number == whole.number
        assert part.source == whole.source
        assert part.target is not None
        assert part.target.tokens == whole.target.tokens[:n]
        assert part.target.following is not None
        assert part.target.following.id == whole.target.ids[n]  # what the last row writes
        for found in part.maps:
            expected = trace.weights(found.head.site_key, found.head.head)
            rows, columns = found.weights.shape
            assert rows == (len(part.source) if found.head.stack == "encoder" else n)
            assert len(found.queries) == rows
            np.testing.assert_allclose(found.weights, expected[:rows, :columns], atol=1e-6)
        assert len(part.maps) == len(HEADS)
        for before, after in (
            (part.comparison.before, whole.comparison.before),
            (part.comparison.after, whole.comparison.after),
        ):
            for one, other in zip(before.predictions, after.predictions[:n], strict=True):
                assert one.candidates[0].token == other.candidates[0].token
                assert one.candidates[0].probability == pytest.approx(
                    other.candidates[0].probability, abs=1e-5
                )


def test_that_a_part_says_that_it_is_one(desk: Desk) -> None:
    desk.trace()
    lengths = [len(part.target or ()) for part in desk.parts]
    assert lengths == sorted(set(lengths))
    for part in desk.parts:
        assert not part.is_whole
        assert part.part_words == "the translation is not complete yet"
        assert part.comparison.is_writing
        assert part.measures == ()  # a mean over rows that are not there yet would be no mean
    assert desk.engine.desk.views.find("", 2) is not None


def test_that_a_newer_text_ends_it_after_the_first_part(desk: Desk) -> None:
    with stoppable(lambda: bool(desk.parts)):
        assert desk.trace() == []
    assert len(desk.parts) == 1
    assert desk.engine.desk.views.newest("") is None  # nothing is worked out from a part
    (whole,) = desk.trace(number=3, text="a dog and a bird")
    assert isinstance(whole, Traced)
    assert {part.text for part in desk.parts[1:]} == {"a dog and a bird"}


def test_that_what_was_written_of_a_stopped_translation_is_guessed_the_next_time(desk: Desk) -> None:
    desk.trace()
    lengths = [len(part.target or ()) for part in desk.parts]
    desk.told.clear()
    desk.trace(number=3, text="a dog and a bird")  # another guess stands in between
    desk.told.clear()
    with stoppable(lambda: len(desk.parts) == 5):
        assert desk.trace(number=4) == []
    desk.told.clear()
    desk.trace(number=5)
    assert len(desk.parts[0].target or ()) >= 5
    assert len(desk.parts) < len(lengths)


def test_that_a_part_that_nobody_waits_for_any_more_is_not_told(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_looked_at: list[bool] = []
    look = Model._look_at_part
    monkeypatch.setattr(Model, "_look_at_part", lambda *given: (look(*given), is_looked_at.append(True))[0])
    with stoppable(lambda: bool(is_looked_at)):
        assert desk.trace() == []
    assert desk.parts == []


def test_that_a_translation_that_is_written_soon_comes_whole(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk.trace()
    desk.told.clear()
    desk.trace(number=3)  # the same again: guessed right at once
    assert desk.parts == []
    monkeypatch.setattr(serve_views, "_PART_AFTER_S", 1e6)
    desk.trace(number=4, text="a dog and a bird")
    assert desk.parts == []


def test_that_parts_are_far_apart(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serve_views, "_NEXT_PART_AFTER_S", 1e6)
    desk.trace()
    assert [len(part.target or ()) for part in desk.parts] == [1]


@pytest.mark.parametrize(
    "more",
    [
        {"target": "le chat"},
        {"view": "compare A"},
        {"interventions": (MakeUniform(head=HEADS[1]),)},
    ],
    ids=["a given target", "another part of the window", "changed heads"],
)
def test_that_others_wait_for_the_whole(desk: Desk, more: dict[str, object]) -> None:
    desk.trace(**more)
    assert desk.parts == []
