"""Removing heads from our own models: removed equals masked, on every form, to the last logit."""

import dataclasses
import importlib
from pathlib import Path

import numpy as np
import pytest
import torch
from tiny_models import FORMS, SENTENCE, target_of, tiny_model

from attnscope.cli.main import main
from attnscope.errors import SaveError, UserError
from attnscope.models import (
    Model,
    OwnNetwork,
    compare_speed,
    load,
    original_heads,
    prove_equal,
    prune,
    prune_module,
    random_ids,
    require_proof,
    shapes_of,
)
from attnscope.nn import KeyValueCache, count_parameters
from attnscope.records import Gates, HeadRef, PruningProof, PruningReport
from attnscope.trace import load_trace

CHOICES = (
    {},
    {"bias": False, "norm": "rms", "activation": "swiglu", "position": "rotary"},
    {"n_kv_heads": 1, "norm_place": "post"},
    {"n_kv_heads": 4, "position": "sinusoidal"},
    {"d_head": 6, "position": "rotary"},
)


def gates_of(model: Model, which: str) -> Gates:
    first, last = model.sites[0], model.sites[-1]
    match which:
        case "one head":
            off = [last.heads[2]]
        case "a group":
            off = [site.heads[h] for site in model.sites for h in (0, 1)]
        case "a site":
            off = list(first.heads)
        case "every head":
            off = [head for site in model.sites for head in site.heads]
        case _:
            off = [first.heads[0]]
    gates = Gates.of(dict.fromkeys(off, 0.0))
    return gates.with_value(last.heads[3], 0.3) if which == "a gate between" else gates


def prune_model(
    model: Model, gates: Gates, text: str = "", target: str | None = None
) -> tuple[Model, PruningReport]:
    read = model.encode(text, target) if text else None
    pruned = prune(model.network, gates, read, has_speed=False)
    return Model(pruned.network), pruned.report


@pytest.mark.slow
@pytest.mark.parametrize("which", ["one head", "a group", "a site", "every head", "a gate between"])
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("choices", CHOICES, ids=str)
def test_that_a_removed_head_is_a_gated_one(form: str, which: str, choices: dict[str, object]) -> None:
    model = tiny_model(form, **choices)
    gates = gates_of(model, which)
    smaller, report = prune_model(model, gates, text=SENTENCE, target=target_of(form))
    gated = model.trace(SENTENCE, target_of(form), gates).logits
    found = smaller.trace(SENTENCE, target_of(form)).logits
    np.testing.assert_allclose(found, gated, atol=1e-5)
    assert report.proof.is_good
    assert report.proof.n_texts == 4
    assert report.after.n_parameters < report.before.n_parameters
    assert report.after.n_parameters == sum(p.numel() for p in smaller.own.module.parameters())
    assert sorted(report.removed) == list(gates.off())


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS)
def test_that_a_smaller_model_is_saved_and_opened_as_it_is(tmp_path: Path, form: str) -> None:
    model = tiny_model(form)
    off = dict.fromkeys((*model.sites[0].heads, model.sites[-1].heads[1]), 0.0)
    pruned = prune(model.network, Gates.of(off), model.encode(SENTENCE, target_of(form)), has_speed=False)
    small, report = Model(pruned.network), pruned.save(tmp_path / "small")
    found = load(tmp_path / "small", device="cpu")
    assert found.own.config == small.own.config
    assert found.sites == small.sites
    assert len(found.sites) == len(model.sites) - 1
    np.testing.assert_array_equal(
        found.trace(SENTENCE, target_of(form)).logits, small.trace(SENTENCE, target_of(form)).logits
    )
    assert found.trace(SENTENCE, target_of(form)).check().is_good
    assert report.after.file_bytes == (tmp_path / "small" / "model.safetensors").stat().st_size
    assert report.folder == str(tmp_path / "small")
    card = (tmp_path / "small" / "card.md").read_text(encoding="utf-8")
    assert "H0 was H0, H1 was H2, H2 was H3" in card
    assert "no head is left" in card
    assert "No heads are left" in found.info.note
    assert count_parameters(found.own.config).total == found.info.n_parameters


def test_that_the_first_names_of_heads_survive_a_second_removal() -> None:
    model = tiny_model("decoder")
    once, _ = prune_model(model, Gates.of({HeadRef(stack="decoder", layer=0, head=1): 0.0}))
    twice, report = prune_model(once, Gates.of({HeadRef(stack="decoder", layer=0, head=1): 0.0}))
    assert original_heads(twice.own.config)["decoder", 0] == (0, 3)
    assert [site.heads for site in report.sites] == [(0, 3), (0, 1, 2, 3)]
    both = Gates.of({HeadRef(stack="decoder", layer=0, head=h): 0.0 for h in (1, 2)})
    np.testing.assert_allclose(
        twice.trace(SENTENCE).logits, model.trace(SENTENCE, None, both).logits, atol=1e-5
    )


def test_that_the_model_before_is_left_alone() -> None:
    model = tiny_model("encoder")
    before = {name: tensor.clone() for name, tensor in model.own.module.state_dict().items()}
    prune_model(model, gates_of(model, "a gate between"))
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.own.module.state_dict().items())


def test_that_a_smaller_model_writes_what_the_gated_one_writes() -> None:
    for form, which in (("decoder", "a site"), ("decoder", "every head"), ("encoder-decoder", "a group")):
        model = tiny_model(form)
        gates = gates_of(model, which)
        smaller, _ = prune_model(model, gates)
        assert smaller.generate(SENTENCE, max_tokens=8) == model.generate(SENTENCE, gates, max_tokens=8)


@pytest.mark.parametrize("which", ["a site", "every head"])
def test_that_the_cache_counts_tokens_past_sites_without_heads(which: str) -> None:
    model = tiny_model("decoder", position="rotary")
    smaller, _ = prune_model(model, gates_of(model, which))
    ids = list(smaller.encode(SENTENCE).source.ids)
    cache, module = KeyValueCache(), smaller.own.module
    with torch.no_grad():
        whole = module.decode(torch.tensor([ids]))
        parts = [module.decode(torch.tensor([ids[k : k + 2]]), cache=cache) for k in range(0, len(ids), 2)]
    torch.testing.assert_close(torch.cat(parts, dim=1), whole, atol=1e-5, rtol=0)


def test_that_nothing_off_and_unknown_heads_are_refused() -> None:
    model = tiny_model("decoder")
    with pytest.raises(UserError, match="No head is off"):
        prune_model(model, Gates.of({model.sites[0].heads[0]: 0.5}))
    with pytest.raises(UserError, match="no head L7H0"):
        prune_model(model, Gates.of({HeadRef(stack="decoder", layer=7, head=0): 0.0}))
    assert shapes_of(model.network) == ("small",)


def test_that_a_model_which_says_something_else_is_not_to_be_had(monkeypatch: pytest.MonkeyPatch) -> None:
    def spoil(module, gates):
        smaller = prune_module(module, gates)
        smaller.tokens.weight.data[3] += 0.01
        return smaller

    monkeypatch.setattr(importlib.import_module("attnscope.models.pruning"), "prune_module", spoil)
    model = tiny_model("decoder")
    with pytest.raises(SaveError, match="Nothing was saved: the output of the pruned model differs"):
        prune_model(model, gates_of(model, "one head"), text=SENTENCE)


def test_that_a_proof_of_nothing_or_of_nan_is_not_good() -> None:
    good = PruningProof(max_difference=1e-6, largest_logit=1.0, n_texts=1, n_logits=5)
    assert good.is_good
    assert not dataclasses.replace(good, n_texts=0).is_good
    assert not dataclasses.replace(good, max_difference=2e-4).is_good
    nan = prove_equal(lambda x: x, lambda x: x * torch.nan, [torch.ones(2, 2)])
    assert not nan.is_good
    with pytest.raises(SaveError, match=r"0\.0001 of the largest logit"):
        require_proof(nan)
    with pytest.raises(ValueError, match="expected"):
        prove_equal(lambda x: x, lambda x: x[:1], [torch.ones(2, 2)])


def test_that_random_texts_are_the_same_every_time_and_fit() -> None:
    assert random_ids(7, n_tokens=5) == random_ids(7, n_tokens=5)
    assert all(1 <= len(part) <= 5 and max(part) < 7 for pair in random_ids(7, n_tokens=5) for part in pair)
    assert random_ids(1, n_tokens=1)[0] == ((0,), (0,))


def test_that_times_are_told_with_their_spread() -> None:
    model = tiny_model("decoder")
    network = model.network
    assert isinstance(network, OwnNetwork)
    case = model.encode(SENTENCE)

    def once(inputs):
        return network.run(inputs).logits()

    def many_times(inputs):
        return torch.stack([once(inputs) for _ in range(8)])

    change = compare_speed(many_times, once, case, n_tokens=7, n_turns=5)
    assert change.ratio_low <= change.ratio <= change.ratio_high
    assert change.ratio > 1.5
    assert (change.n_turns, change.n_tokens) == (5, 7)
    assert change.before_ms > change.after_ms > 0.0


@pytest.mark.slow
def test_that_heads_that_stay_keep_the_names_they_had(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = tiny_model("encoder-decoder")
    off = [head for site in model.sites if site.stack == "cross" for head in site.heads[:2]]
    prune(model.network, Gates.of(dict.fromkeys(off, 0.0))).save(tmp_path / "smaller")
    found = {site.key: site for site in load(tmp_path / "smaller").sites}
    assert found["encoder", 0].former == ()
    assert found["encoder", 0].former_label(1) == ""
    assert found["cross", 0].former == (2, 3)
    assert [found["cross", 0].former_label(head) for head in (0, 1)] == ["L0H2", "L0H3"]
    trace = load(tmp_path / "smaller").trace(SENTENCE, target_of("encoder-decoder"))
    trace.save(tmp_path / "trace.safetensors")
    again = load_trace(tmp_path / "trace.safetensors")
    assert {site.key: site.former for site in again.sites} == {k: site.former for k, site in found.items()}
    assert main(["info", str(tmp_path / "smaller")]) == 0
    assert "once H2, H3" in capsys.readouterr().out
