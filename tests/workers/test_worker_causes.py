"""Parts and patches from the worker: the same numbers as the analyses give, and as a slow reference."""

from pathlib import Path

import numpy as np
import pytest
import torch
from tiny_models import tiny_model
from worker_tools import ask, save_tiny

from attnscope.analysis import (
    Patching,
    attribute_logits,
    differing_position,
    patch_map,
    resolve_token,
    telling_position,
)
from attnscope.errors import UserError
from attnscope.models import load
from attnscope.records import (
    AttributeOutput,
    Failed,
    Gates,
    HeadRef,
    LoadModel,
    OutputAttributed,
    PatchingNews,
    PatchMap,
    PatchTexts,
    Reply,
    StopWork,
    TextsPatched,
)
from attnscope.trace import GateProbe
from attnscope.workers import Engine

TEXT, OTHER, TARGET = "the cat sat on the mat", "a cat sat on the mat", "le chat est sur"


def opened(folder: str) -> Engine:
    engine = Engine(lambda error, what: None)
    ask(engine, LoadModel(number=1, source=folder, device="cpu"))
    return engine


def patched(engine: Engine, **choices: object) -> list[Reply]:
    asked = PatchTexts(number=4, clean=TEXT, corrupt=OTHER, **choices)  # type: ignore[arg-type]
    replies = ask(engine, asked)
    while engine.is_training:
        replies += engine.advance_training()
    return replies


@pytest.mark.slow
@pytest.mark.parametrize("form", ["encoder", "decoder", "encoder-decoder"])
def test_that_the_parts_add_up_to_the_logits_of_the_model_itself(form: str, tmp_path: Path) -> None:
    folder = save_tiny(tmp_path / "model", form)
    target = TARGET if form == "encoder-decoder" else None
    head = HeadRef(stack="encoder" if form == "encoder" else "decoder", layer=1, head=0)
    gates = Gates.of({head: 0.0})
    engine, model = opened(folder), load(folder, device="cpu")
    asked = AttributeOutput(
        number=3, position=2, text=TEXT, target=target, answer="cat", other=3, gates=gates
    )
    (reply,) = ask(engine, asked)
    assert isinstance(reply, OutputAttributed)
    found = reply.attribution
    run = model.network.run(model.encode(TEXT, target), GateProbe(model.sites, gates))
    row = np.asarray(run.logits()[2], np.float64)
    cat = resolve_token(model, "cat", torch.from_numpy(row))
    assert found.total == pytest.approx(row[cat] - row[3], abs=1e-4)
    shares = np.exp(row) / np.exp(row).sum()
    order = np.argsort(-shares)[:8]
    assert [one.token.id for one in reply.candidates] == order.tolist()
    np.testing.assert_allclose([one.probability for one in reply.candidates], shares[order], atol=1e-5)
    assert (found.answer.piece, found.other.id, found.position) == ("cat", 3, 2)
    own = next(one for one in found.contributions if one.head == head)
    assert own.value == 0.0
    direct = attribute_logits(model, TEXT, target, position=2, answer=cat, other=3, gates=gates)
    assert [one.value for one in found.contributions] == [one.value for one in direct.contributions]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["stream", "head"])
def test_that_a_map_from_the_worker_is_the_map_of_the_analysis(kind: str, tmp_path: Path) -> None:
    folder = save_tiny(tmp_path / "model", "encoder-decoder")
    replies = patched(opened(folder), target=TARGET, kind=kind, stack="encoder")
    *news, last = replies
    assert isinstance(last, TextsPatched)
    assert news
    assert all(isinstance(one, PatchingNews) for one in news)
    texts = ((TEXT, TARGET), (OTHER, TARGET))
    *_, direct = patch_map(
        load(folder, device="cpu"), *texts, Patching(kind=kind, stack="encoder", position=last.position)
    )  # type: ignore[arg-type]
    assert isinstance(direct, PatchMap)
    np.testing.assert_array_equal(last.patched.patched, direct.patched)
    assert last.patched.answer == last.candidates[0].token


def test_that_a_head_that_is_off_brings_nothing_back(tmp_path: Path) -> None:
    engine = opened(save_tiny(tmp_path / "model", "decoder"))
    off = HeadRef(stack="decoder", layer=0, head=1)
    (last,) = [
        one
        for one in patched(engine, kind="head", gates=Gates.of({off: 0.0}))
        if isinstance(one, TextsPatched)
    ]
    assert abs(last.patched.patched[0, 1]) < 1e-4
    assert abs(last.patched.patched[0, 0]) > 1e-3


def test_that_what_cannot_be_compared_is_told_and_a_pass_can_be_stopped(tmp_path: Path) -> None:
    engine = opened(save_tiny(tmp_path / "model", "decoder"))
    for request in (
        AttributeOutput(number=3, position=99, text=TEXT),
        AttributeOutput(number=3, position=1, text=TEXT, answer="elephant"),
    ):
        assert isinstance(ask(engine, request)[-1], Failed)
    ask(engine, PatchTexts(number=5, clean=TEXT, corrupt=TEXT + " cat"))
    list(engine.advance_training())
    (failed,) = engine.advance_training()
    assert isinstance(failed, Failed)
    assert "7 tokens, the corrupt one 8" in failed.message
    ask(engine, PatchTexts(number=6, clean=TEXT, corrupt=OTHER))
    assert engine.is_training
    ask(engine, StopWork(work="PatchTexts", number=7))
    assert not engine.is_training


def test_that_runs_are_compared_where_they_differ_most() -> None:
    clean, corrupt = (torch.randn(5, 9, generator=torch.Generator().manual_seed(k)) for k in (0, 1))
    slow = []
    for first, second in zip(clean.double().tolist(), corrupt.double().tolist(), strict=True):
        p, q = (np.exp(row) / np.exp(row).sum() for row in (first, second))
        slow.append(sum(a * np.log(a / b) for a, b in zip(p, q, strict=True)))
    assert differing_position(clean, corrupt) == int(np.argmax(slow))
    assert telling_position(tiny_model("decoder"), TEXT) == 6
    assert telling_position(tiny_model("encoder"), "the cat <mask> on") == 3
    assert telling_position(tiny_model("encoder-decoder"), TEXT, TARGET) == 1


def test_that_a_text_of_several_tokens_is_no_answer() -> None:
    model = tiny_model("decoder")
    row = torch.zeros(model.info.vocab_size)
    assert resolve_token(model, None, row) is None
    assert resolve_token(model, 4, row) == 4
    with pytest.raises(UserError, match="2 tokens here: the, cat"):
        resolve_token(model, "the cat", row)
    with pytest.raises(UserError, match="no token 999"):
        resolve_token(model, 999, row)
