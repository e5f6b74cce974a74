"""Removing heads from models of transformers: removed equals masked, and who can open what is saved."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hf_folders import make, save_folder, save_picture

from attnscope.errors import LoadError, UserError
from attnscope.models import Model, load, prove_equal, prune, random_ids, random_pictures, shapes_of
from attnscope.models.huggingface import (
    HEADS_KEY,
    Case,
    family_of,
    fit_small,
    fitted_class,
    foreign_sites,
    gated,
    is_small,
    joined_threads,
    prune_pretrained,
    said,
    takes_target,
)
from attnscope.records import Gates

pytestmark = pytest.mark.slow

transformers = pytest.importorskip("transformers")
FAMILIES = ("bert", "distilbert", "vit", "gpt2", "llama", "t5", "bart")
ONLY_HERE = ("bert", "distilbert", "gpt2", "bart")
TEXT = "the animal did not cross"


def logits_of(model: Any, case: Case) -> torch.Tensor:
    """What a model says of a case: its logits, or its last stream when it has no head; float32."""
    choices = {} if case.target is None else {"decoder_input_ids": case.target}
    name = "input_ids" if not case.source.is_floating_point() else "pixel_values"
    return said(model(**{name: case.source}, **choices))


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    transformers.utils.logging.disable_progress_bar()
    transformers.utils.logging.set_verbosity_error()
    with joined_threads():
        yield


def lively(kind: str) -> tuple[Any, Any]:
    """A tiny model with biases that are not zero and heads that matter."""
    model, tokenizer = make(kind)
    for i, parameter in enumerate(model.parameters()):
        step = torch.arange(parameter.numel(), dtype=torch.float64) + 1000.37 * i
        parameter.data += 0.15 * torch.sin(step * step * 0.7310).reshape(parameter.shape).float()
    return model.eval(), tokenizer


def gates_of(model: Any, which: str) -> Gates:
    sites = [site.site for site in foreign_sites(model)]
    match which:
        case "some":  # unequal numbers in the layers, a group gone in one, a gate between
            off = [site.heads[1] for site in sites] + [sites[0].heads[0]]
            return Gates.of(dict.fromkeys(off, 0.0)).with_value(sites[-1].heads[3], 0.25)
        case "half":
            return Gates.of({site.heads[h]: 0.0 for site in sites for h in (2, 3)})
        case "a site":
            return Gates.of(dict.fromkeys(sites[0].heads, 0.0))
    return Gates.of({head: 0.0 for site in sites for head in site.heads})


def cases_of(model: Any) -> list[Case]:
    if model.config.model_type == "vit":
        return [Case(source=pixels) for pixels in random_pictures(model)]
    n_pieces = model.get_input_embeddings().num_embeddings
    return [
        Case(source=torch.tensor([a]), target=torch.tensor([b]) if takes_target(model) else None)
        for a, b in random_ids(n_pieces, n_tokens=12)
    ]


@pytest.mark.parametrize("which", ["some", "half", "a site", "every head"])
@pytest.mark.parametrize("shape", ["small", "same"])
@pytest.mark.parametrize("kind", FAMILIES)
def test_that_a_removed_head_is_a_gated_one(kind: str, shape: Any, which: str) -> None:
    model, _ = lively(kind)
    gates, cases = gates_of(model, which), cases_of(model)
    smaller, heads = prune_pretrained(model, gates, shape=shape)

    def masked(case: Case) -> torch.Tensor:
        with gated(model, gates):
            return logits_of(model, case)

    assert prove_equal(masked, lambda case: logits_of(smaller, case), cases).max_difference < 1e-5
    plain = prove_equal(lambda case: logits_of(model, case), lambda case: logits_of(smaller, case), cases)
    assert plain.max_difference > 1e-3
    n_before, n_after = (sum(p.numel() for p in m.parameters()) for m in (model, smaller))
    can_shrink = which in ("half", "every head") or kind in ONLY_HERE or (kind, which) == ("t5", "some")
    is_smaller = shape == "small" and can_shrink
    assert (n_after < n_before) == is_smaller
    assert sum(site.n_before - site.n_left for site in heads) == len(gates.off())


@pytest.mark.parametrize("shape", ["small", "same"])
@pytest.mark.parametrize("kind", FAMILIES)
def test_that_a_saved_folder_opens_where_the_report_says(tmp_path: Path, kind: str, shape: Any) -> None:
    model, tokenizer = lively(kind)
    opened = load(save_folder(tmp_path / "before", model, tokenizer), device="cpu")
    gates = gates_of(model, "half")
    assert shapes_of(opened.network) == ("small", "same")
    text = save_picture(tmp_path / "ramps.png", height=8, width=8) if kind == "vit" else TEXT
    pruned = prune(opened.network, gates, opened.encode(text), shape=shape, has_speed=False)
    report = pruned.save(tmp_path / "after")
    assert report.proof.is_good
    assert report.proof.n_texts == 4
    again = load(tmp_path / "after", device="cpu")
    assert type(again.network.module) is type(model)
    np.testing.assert_allclose(logits(again, text), logits(Model(pruned.network), text), atol=1e-6)
    np.testing.assert_allclose(logits(again, text), logits(opened, text, gates), atol=1e-5)
    fresh = type(model).from_pretrained
    if shape == "small" and kind in ONLY_HERE:
        assert report.opens_in.startswith("AttnScope only")
        with pytest.raises(RuntimeError, match="ignore_mismatched_sizes"):
            fresh(tmp_path / "after")
    else:
        assert "transformers" in report.opens_in
        plain, cases = fresh(tmp_path / "after").eval(), cases_of(model)
        module = again.network.module
        found = prove_equal(lambda case: logits_of(plain, case), lambda case: logits_of(module, case), cases)
        assert found.max_difference == 0.0
    if shape == "small":
        assert report.after.file_bytes < report.before.file_bytes
        assert report.after.n_parameters < report.before.n_parameters


def logits(model: Model, text: str, gates: Gates | None = None) -> np.ndarray:
    target = "the street" if model.info.form == "encoder-decoder" else None
    return model.trace(text, target, gates).logits


def test_that_a_small_vision_model_keeps_its_heads_width_when_their_number_must_divide_it(
    tmp_path: Path,
) -> None:
    model, _ = lively("vit")
    opened = load(save_folder(tmp_path / "before", model, None), device="cpu")
    off = Gates.of({opened.sites[0].heads[0]: 0.0, opened.sites[1].heads[1]: 0.0})
    report = prune(opened.network, off, has_speed=False).save(tmp_path / "three")
    assert any("Nothing became smaller" in note for note in report.notes)  # 3 heads do not divide 32
    half = prune(opened.network, gates_of(model, "half"), has_speed=True)
    assert "head_dim" in half.report.opens_in
    assert half.report.speed is not None
    assert half.report.speed.n_tokens == opened.info.max_tokens
    assert [site.n_heads for site in half.network.sites] == [2, 2]


def test_that_a_model_without_a_head_is_proved_by_its_last_stream(tmp_path: Path) -> None:
    model, tokenizer = lively("bert-base")
    opened = load(save_folder(tmp_path / "before", model, tokenizer), device="cpu")
    proof = prune(opened.network, gates_of(model, "half"), opened.encode(TEXT), has_speed=False).report.proof
    n_tokens = len(opened.encode(TEXT).source)
    assert proof.n_logits == 32 * (n_tokens + 24 + 12 + 8)
    assert proof.is_good
    assert not replace(proof, n_logits=0).is_good


def test_that_a_tokenizer_and_a_card_go_along(tmp_path: Path) -> None:
    model, tokenizer = lively("bert")
    before = save_folder(tmp_path / "before", model, tokenizer)
    (before / "README.md").write_text("---\nlicense: mit\n---\n# Mine\n", encoding="utf-8")
    opened = load(before, device="cpu")
    prune(opened.network, gates_of(model, "half"), has_speed=False).save(tmp_path / "after")
    card = (tmp_path / "after" / "README.md").read_text(encoding="utf-8")
    assert card.startswith("---\nlicense: mit\n---\n# Mine\n")
    assert "encoder L1: H0 was H0, H1 was H1" in card
    assert load(tmp_path / "after", device="cpu").info.licence == "mit"
    assert load(tmp_path / "after", device="cpu").encode(TEXT) == opened.encode(TEXT)


@pytest.mark.parametrize("kind", ["bert", "llama"])
def test_that_heads_can_be_removed_twice_and_keep_their_first_names(tmp_path: Path, kind: str) -> None:
    model, _ = lively(kind)
    once, _ = prune_pretrained(model, gates_of(model, "half"), shape="small")
    first = Gates.of({site.site.heads[0]: 0.0 for site in foreign_sites(once)})
    twice, heads = prune_pretrained(once, first, shape="small")
    assert [[h for h in site.heads if h is not None] for site in heads] == [[1], [1]]
    described = getattr(twice.config, HEADS_KEY).values()
    assert [[h for h in named if h is not None] for named in described] == [[1], [1]]


def test_that_weights_in_16_bits_stay_so_where_no_number_changes(tmp_path: Path) -> None:
    model, tokenizer = lively("gpt2")
    before = save_folder(tmp_path / "before", model.to(torch.bfloat16), tokenizer)
    config = json.loads((before / "config.json").read_text())
    odd = json.dumps(config | {"time_step_limit": [0.0, float("inf")]})  # as the library itself writes it
    (before / "config.json").write_text(odd)
    opened = load(before, device="cpu")
    off = Gates.of(dict.fromkeys(opened.sites[0].heads[:2], 0.0))
    report = prune(opened.network, off, has_speed=False).save(tmp_path / "half")
    assert report.after.file_bytes < report.before.file_bytes
    assert json.loads((tmp_path / "half" / "config.json").read_text())["dtype"] == "bfloat16"
    between = off.with_value(opened.sites[1].heads[0], 0.3)
    report = prune(opened.network, between, has_speed=False).save(tmp_path / "full")
    assert any("32 bits" in note for note in report.notes)


def test_that_an_unknown_family_is_refused_by_name() -> None:
    small = {"hidden_size": 12, "num_hidden_layers": 1, "num_attention_heads": 2, "vocab_size": 9}
    model = transformers.OPTForCausalLM(transformers.OPTConfig(ffn_dim=16, word_embed_proj_dim=12, **small))
    with pytest.raises(UserError, match="'opt'"):
        family_of(model)
    crossed = transformers.BertConfig(is_decoder=True, add_cross_attention=True, **small)
    with pytest.raises(UserError, match="with cross-attention"):
        family_of(transformers.BertModel(crossed))


def test_that_gates_are_taken_off_again() -> None:
    model, _ = lively("gpt2")
    case = cases_of(model)[0]
    with torch.no_grad():
        before = logits_of(model, case)
        with gated(model, gates_of(model, "half")):
            assert not torch.equal(logits_of(model, case), before)
        assert torch.equal(logits_of(model, case), before)


def test_that_a_spoilt_list_of_heads_is_refused(tmp_path: Path) -> None:
    model, _ = lively("bert")
    config = model.config.to_dict()
    assert not is_small(config)
    assert not fit_small(model, config, "x")
    assert fitted_class(type(model), config, "x") is type(model)
    for heads in ([], [0] * 9, "two"):
        wrong = {**config, HEADS_KEY: {"encoder.0": [0, 1], "encoder.1": heads}}
        assert is_small(wrong)
        with pytest.raises(LoadError, match=r"heads of encoder\.1"):
            fit_small(make("bert")[0], wrong, "config.json")


def test_that_the_speed_is_told_with_the_tokens_of_the_text_it_was_measured_on(tmp_path: Path) -> None:
    for kind, target in (("distilbert", None), ("bart", "the street")):
        opened = load(save_folder(tmp_path / kind, *lively(kind)), device="cpu")
        gates = gates_of(opened.network.module, "half")
        speed = prune(opened.network, gates, opened.encode(TEXT, target), has_speed=True).report.speed
        inputs = opened.encode(TEXT, target)
        assert speed is not None
        assert speed.n_tokens == len(inputs.source) + len(inputs.target or ())
