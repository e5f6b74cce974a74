"""Patching models of Hugging Face's library, against the library's own models with hooks set by hand."""

from typing import Any

import hf_tiny
import numpy as np
import pytest
import torch
from foreign_models import CLEAN, CORRUPT, foreign, target_of
from torch import Tensor

from attnscope.analysis import Patching, patch_map
from attnscope.errors import UserError
from attnscope.models.huggingface import anatomy
from attnscope.records import NO_GATES, Gates, PatchMap

pytestmark = pytest.mark.filterwarnings("ignore")
FAMILIES = ("bert", "albert", "gpt2", "gpt_neox", "llama", "gemma2", "t5", "bart")
HEADS = {
    "bert": "bert.encoder.layer.{}.attention.output.dense",
    "gpt2": "transformer.h.{}.attn.c_proj",
    "llama": "model.layers.{}.self_attn.o_proj",
}


def map_of(family: str, kind: str = "stream", gates: Gates = NO_GATES, **choices: Any) -> PatchMap:
    target = target_of(family)
    wish = Patching(kind=kind, position=2, answer=7, other=5, **choices)  # type: ignore[arg-type]
    *_, found = patch_map(foreign(family), (CLEAN, target), (CORRUPT, target), wish, gates)
    assert isinstance(found, PatchMap)
    return found


def said(model: Any, ids: Tensor) -> float:
    with torch.no_grad():
        row = model(ids).logits[0, 2].double()
    return float(row[7] - row[5])


def ids_of(text: str) -> Tensor:
    return torch.tensor([foreign("gpt2").encode(text).source.ids])


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("kind", ["stream", "head"])
def test_that_a_foreign_run_patched_with_itself_stays_as_it_is(family: str, kind: str) -> None:
    for run, value in (("clean", 1.0), ("corrupt", 0.0)):
        found = map_of(family, kind, donor=run, receiver=run)
        np.testing.assert_allclose(found.patched, value, atol=1e-4)
    assert found.patched.shape[0] == (2 if kind == "stream" else len(foreign(family).sites))


@pytest.mark.parametrize("family", FAMILIES)
def test_that_a_patch_below_the_first_layer_is_the_other_word(family: str) -> None:
    is_double = family in hf_tiny.ENCODER_DECODERS
    found = map_of(family, stack="encoder" if is_double else None)
    np.testing.assert_allclose(found.patched[0], [0, 1, 0, 0], atol=1e-3)  # the texts differ in one word
    assert found.columns == tuple(CORRUPT.split())
    if family in hf_tiny.DECODERS:
        assert abs(found.patched[1, 3]) < 1e-6  # a later token


@pytest.mark.parametrize("family", sorted(HEADS))
def test_that_a_foreign_head_patch_is_its_output_exchanged_by_hand(family: str) -> None:
    model, found = hf_tiny.build(family), map_of(family, "head")
    clean, corrupt = (said(model, ids_of(text)) for text in (CLEAN, CORRUPT))
    assert (found.clean_difference, found.corrupt_difference) == pytest.approx((clean, corrupt), abs=1e-5)
    for layer in range(2):
        part, kept = model.get_submodule(HEADS[family].format(layer)), list[Tensor]()
        handle = part.register_forward_pre_hook(lambda _, given, kept=kept: kept.append(given[0].clone()))
        said(model, ids_of(CLEAN))
        handle.remove()
        for head in range(4):
            rows = slice(8 * head, 8 * head + 8)

            def exchange(_: Any, given: Any, rows: slice = rows, kept: list[Tensor] = kept) -> Any:
                given[0][..., rows] = kept[0][..., rows]

            handle = part.register_forward_pre_hook(exchange)
            expected = (said(model, ids_of(CORRUPT)) - corrupt) / (clean - corrupt)
            handle.remove()
            assert found.patched[layer, head] == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize("family", ["gpt_neox", "albert"])
def test_that_a_foreign_stream_patch_is_what_a_layer_reads_exchanged_by_hand(family: str) -> None:
    """ALBERT's one layer is called twice: the second call alone is patched."""
    model, found = hf_tiny.build(family), map_of(family)
    name = "gpt_neox.layers.1" if family == "gpt_neox" else "albert.encoder.albert_layer_groups.0"
    part, kept, wanted = model.get_submodule(name), list[Tensor](), 1 if family == "albert" else 0
    handle = part.register_forward_pre_hook(lambda _, given: kept.append(given[0].clone()))
    clean = said(model, ids_of(CLEAN))
    handle.remove()
    corrupt = said(model, ids_of(CORRUPT))
    for position in range(3):
        calls = iter(range(9))

        def exchange(_: Any, given: Any, position: int = position, calls: Any = calls) -> Any:
            if next(calls) == wanted:
                given[0][0, position] = kept[wanted][0, position]

        handle = part.register_forward_pre_hook(exchange)
        expected = (said(model, ids_of(CORRUPT)) - corrupt) / (clean - corrupt)
        handle.remove()
        assert found.patched[1, position] == pytest.approx(expected, abs=1e-4)


def test_that_gates_hold_in_every_foreign_run() -> None:
    head = foreign("gpt2").sites[0].heads[1]
    found = map_of("gpt2", "head", gates=Gates.of({head: 0.0}))
    assert found.patched[0, 1] == pytest.approx(0.0, abs=1e-6)
    assert found.clean_difference != pytest.approx(map_of("gpt2", "head").clean_difference, abs=1e-3)


def test_that_heads_no_product_reads_are_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(anatomy, "_KNOWN", {})
    monkeypatch.setattr(anatomy, "is_product", lambda module: False)
    with pytest.raises(UserError, match=r"LlamaForCausalLM.*no linear layer reads the heads of decoder 0"):
        map_of("llama")
