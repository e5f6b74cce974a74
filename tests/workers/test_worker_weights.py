"""What a head's weights say, from the worker: numbers against written-out products, refusals, stopping."""

from pathlib import Path

import numpy as np
import pytest
from worker_tools import ask, save_tiny, train_to_end

from attnscope.analysis import one_head
from attnscope.models import load
from attnscope.records import (
    Failed,
    HeadRef,
    HeadWeightsFound,
    LoadModel,
    ShowWeights,
    StopWork,
    WeightsNews,
    WeightsShown,
)
from attnscope.workers import Engine

HEAD = HeadRef(stack="decoder", layer=1, head=1)


def opened(tmp_path: Path) -> tuple[Engine, str]:
    folder = save_tiny(tmp_path / "model", "decoder")
    engine = Engine(lambda error, what: None)
    ask(engine, LoadModel(number=1, source=folder, device="cpu"))
    return engine, folder


def last_found(engine: Engine) -> HeadWeightsFound:
    replies = [reply for reply in train_to_end(engine) if isinstance(reply, WeightsShown)]
    assert [reply.found.is_whole for reply in replies] == [False] * (len(replies) - 1) + [True]
    return replies[-1].found


def test_that_values_and_pairs_are_those_of_products_written_out(tmp_path: Path) -> None:
    engine, folder = opened(tmp_path)
    ask(engine, ShowWeights(number=2, head=HEAD, top=3))
    found = last_found(engine)
    module = load(folder).own.module
    block = module.decoder[1]
    e = block.attention_norm(module.tokens.weight).detach().double().numpy()
    qkv = block.attention.qkv.weight.detach().double().numpy()
    q, k, v = (qkv[16 * part + 8 : 16 * part + 16] for part in range(3))  # rows of head 1, 8 wide
    o = block.attention.output.weight.detach().double().numpy()[:, 8:]
    rows = module.tokens.weight.detach().double().numpy() * module.decoder_norm.weight.detach().numpy()
    rows = rows - rows.mean(axis=1, keepdims=True)
    written = {"qk": (e @ q.T @ k @ e.T / np.sqrt(8.0), q.T @ k), "ov": (e @ v.T @ o.T @ rows.T, v.T @ o.T)}
    for kind, (between, product) in written.items():
        part = found.part(kind)  # type: ignore[arg-type]
        assert part.circuit is not None
        assert part.spectrum is not None
        best = np.sort(between, axis=None)[::-1]
        assert [pair.value for pair in part.circuit.largest] == pytest.approx(best[:3].tolist(), abs=1e-4)
        assert [pair.value for pair in part.circuit.smallest] == pytest.approx(
            best[:-4:-1].tolist(), abs=1e-4
        )
        pair = part.circuit.largest[0]
        assert between[pair.first.id, pair.second.id] == pytest.approx(pair.value, abs=1e-4)
        values = np.linalg.svd(product, compute_uv=False)[:8]
        np.testing.assert_allclose(part.spectrum.single[1], values, atol=1e-8)
        assert part.spectrum.kind == kind
    both = sum(qkv[8 * h : 8 * h + 8].T @ qkv[16 + 8 * h : 24 + 8 * h] for h in range(2))
    spectrum = found.part("qk").spectrum
    assert spectrum is not None
    np.testing.assert_allclose(spectrum.stacked, np.linalg.svd(both, compute_uv=False), atol=1e-8)


def test_that_a_product_that_cannot_be_had_is_refused_and_a_head_that_is_not_there_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine, _ = opened(tmp_path)
    monkeypatch.setattr(one_head, "site_spectrum", _refuse)
    ask(engine, ShowWeights(number=2, head=HEAD))
    found = last_found(engine)
    assert all("no weights" in part.no_spectrum and part.circuit is not None for part in found.parts)
    monkeypatch.setattr(one_head, "head_circuit", _refuse)
    ask(engine, ShowWeights(number=6, head=HEAD))
    assert all("no weights" in part.refusal and part.circuit is None for part in last_found(engine).parts)
    ask(engine, ShowWeights(number=3, head=HeadRef(stack="cross", layer=0, head=0)))
    (failed,) = [reply for reply in train_to_end(engine) if isinstance(reply, Failed)]
    assert failed.number == 3
    ask(engine, ShowWeights(number=4, head=HEAD))
    assert isinstance(next(iter(engine.advance_training())), WeightsNews)
    ask(engine, StopWork(work="ShowWeights", number=5))
    assert not engine.is_training


def _refuse(*_: object) -> None:
    from attnscope.errors import UserError

    raise UserError("There are no weights.")
