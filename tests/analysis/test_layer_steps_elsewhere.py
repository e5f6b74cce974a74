"""A layer of the library's models, step by step, against loops in float64 over their weights."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import hf_tiny
import numpy as np
import pytest
import torch
import transformers as hf
from foreign_models import foreign, target_of, word_tokenizer
from hf_folders import save_folder
from slow_library import (
    Named,
    Numbers,
    SlowLayers,
    bart_layers,
    bert_layers,
    distilbert_layers,
    plain_rows,
    t5_bias,
    t5_layers,
)

from attnscope.analysis import ModelReading, ask_model
from attnscope.fields import with_values
from attnscope.models import Model, load
from attnscope.questions import QUESTIONS
from attnscope.questions.layer_steps import steps_of

QUESTION = QUESTIONS["layer-steps"]
TEXT = "the cat sat on a mat"
CLOSE = {"rtol": 2e-5, "atol": 2e-5}
ROWS = plain_rows(hf_tiny.N_HEADS, 8)
Layers = list[list[Named]]


def entered(model: Model, reading: ModelReading, stack: str) -> Numbers:
    """The library's own embedding of a text, which enters the first layer."""
    network: Any = model.network
    with torch.no_grad():
        output = network.module(**network.arguments(reading._inputs), output_hidden_states=True)
    of_stack = f"{stack}_hidden_states" if network.form == "encoder-decoder" else "hidden_states"
    found: Numbers = getattr(output, of_stack)[0][0].double().numpy()
    return found


def of_encoder(family: str, model: Model, reading: ModelReading) -> Layers:
    root = {"bert": "bert", "roberta": "roberta"}.get(family)
    layers = distilbert_layers(2, ROWS) if root is None else bert_layers(root, 2, ROWS)
    module = model.network.module  # type: ignore[attr-defined]
    slow = SlowLayers(module, is_post=True, is_causal=False, epsilon=1e-12)
    return slow.through(entered(model, reading, "encoder"), layers)[0]


def of_opt(family: str, model: Model, reading: ModelReading) -> Layers:
    module: Any = model.network.module  # type: ignore[attr-defined]
    is_post = not module.config.do_layer_norm_before
    slow = SlowLayers(module, is_post=is_post, is_causal=True, epsilon=1e-5, activation="relu")
    layers = bart_layers("decoder", 2, ROWS, has_cross=False)
    return slow.through(entered(model, reading, "decoder"), layers)[0]


def of_translator(family: str, model: Model, reading: ModelReading, stack: str) -> Layers:
    module, is_t5, memory = model.network.module, family == "t5", None  # type: ignore[attr-defined]
    for one in ("encoder", "decoder"):
        x, is_causal, bias = entered(model, reading, one), one == "decoder", None
        if is_t5:
            table = f"{one}.block.0.layer.0.SelfAttention.relative_attention_bias.weight"
            weights = module.state_dict()[table].double().numpy()
            bias = t5_bias(weights, len(x), is_causal=is_causal, most=16)
        slow = SlowLayers(
            module,
            is_post=not is_t5,
            is_causal=is_causal,
            epsilon=1e-6 if is_t5 else 1e-5,
            activation="relu" if is_t5 else "gelu",
            has_scale=not is_t5,
            bias=bias,
        )
        layers = t5_layers(one, 2, ROWS) if is_t5 else bart_layers(one, 2, ROWS, has_cross=one == "decoder")
        found, last = slow.through(x, layers, memory)
        if one == stack:
            return found
        memory = slow.norm(last, "encoder.final_layer_norm") if is_t5 else last
    raise AssertionError(stack)


SLOW: dict[str, Callable[..., Layers]] = {
    "bert": of_encoder, "roberta": of_encoder, "distilbert": of_encoder, "opt": of_opt,
    "bart": of_translator, "marian": of_translator, "t5": of_translator,
}  # fmt: skip
CASES = [(family, {}) for family in list(SLOW)[:4]]
CASES += [(family, {"stack": stack}) for family in list(SLOW)[4:] for stack in ("encoder", "decoder")]


def check(model: Model, family: str, stack: str, slow: Layers, reading: ModelReading) -> None:
    """Every step of every layer, for a token in the middle, is that of the slow version."""
    for layer, wanted in enumerate(slow):
        found = reading.passage(layer, stack)
        assert found.adds_up
        assert found.order == "in turn"
        steps = list(steps_of(found, 2))
        assert len(steps) == len(wanted), [step.name for step in steps]
        for step, (name, vectors) in zip(steps, wanted, strict=True):
            np.testing.assert_allclose(step.vector, vectors[2], **CLOSE, err_msg=f"{family} {layer} {name}")
            words = name.replace(" gives", ":")
            is_alike = name.split()[0] in ("inside", "sum") or step.name.startswith(words)
            assert is_alike, (step.name, name)


@pytest.mark.parametrize(
    ("family", "choices"), CASES, ids=lambda one: one if isinstance(one, str) else one.get("stack", "")
)
def test_that_every_step_equals_a_slow_float64_version(family: str, choices: dict[str, str]) -> None:
    model = foreign(family)
    reading = ModelReading(model, TEXT, "a bird was good" if target_of(family) else None)
    slow = SLOW[family](family, model, reading, **choices)
    check(model, family, choices.get("stack", "auto"), slow, reading)


def test_that_an_opt_with_norms_behind_is_walked_through_as_well(tmp_path: Path) -> None:
    config = hf_tiny.build("opt").config
    config.do_layer_norm_before = False
    made = hf.OPTForCausalLM(config).eval()
    hf_tiny.fill(made)
    model = load(save_folder(tmp_path / "opt", made, word_tokenizer()), "cpu")
    reading = ModelReading(model, TEXT)
    check(model, "opt", "auto", of_opt("opt", model, reading), reading)


def test_that_a_layer_that_flattens_its_tokens_has_a_row_for_each() -> None:
    reading = ModelReading(foreign("opt"), TEXT)
    slow = of_opt("opt", foreign("opt"), reading)
    found, units = reading.streams(), reading.units().activations
    assert found.is_sum
    for layer, steps in enumerate(slow):
        wanted = dict(steps)
        np.testing.assert_allclose(found.added["feed-forward"][layer], wanted["feed-forward gives"], **CLOSE)
        np.testing.assert_allclose(units[layer], wanted["inside feed-forward"], **CLOSE)
    answer = ask_model(QUESTIONS["residual-stream"], foreign("opt"), TEXT)
    x, given = slow[1][0][1], dict(slow[1])["feed-forward gives"]
    cosines = [sum(a * b) / np.sqrt(sum(a * a) * sum(b * b)) for a, b in zip(x, given, strict=True)]
    row = next(row for row in answer.tables[0].rows if row[0] == "1 feed-forward")
    lengths = [np.sqrt(sum(one * one)) for one in given]
    np.testing.assert_allclose(row[2], np.mean(lengths), **CLOSE)
    np.testing.assert_allclose(row[4], np.mean(cosines), **CLOSE)


@pytest.mark.parametrize(
    "family", ["gpt2", "llama", "mistral", "qwen2", "qwen3", "mbart", "gpt_oss", "albert"]
)
def test_that_the_steps_of_other_families_add_up(family: str) -> None:
    reading = ModelReading(foreign(family), TEXT, target_of(family))
    for layer in range(2):
        found = reading.passage(layer)
        assert (found.adds_up, found.order) == (True, "in turn")
        assert all(part.reads is not None for part in found.parts)


def normed(x: np.ndarray, norm: Any) -> np.ndarray:
    """The norm of a row [d] in float64: LayerNorm where it has a bias, RMSNorm where it has none."""
    weight = norm.weight.detach().double().numpy()
    if getattr(norm, "bias", None) is None:
        is_gemma = "Gemma" in type(norm).__name__
        epsilon = norm.eps if is_gemma else norm.variance_epsilon
        return np.asarray(x / np.sqrt((x**2).mean() + epsilon) * (weight + is_gemma))
    away = x - x.mean()
    return np.asarray(
        away / np.sqrt((away**2).mean() + norm.eps) * weight + norm.bias.detach().double().numpy()
    )


@pytest.mark.parametrize("family", ["gemma2", "gemma3"])
def test_that_the_norm_of_what_a_part_gives_is_what_is_added(family: str) -> None:
    model = foreign(family)
    layers: Any = model.network.module.model.layers  # type: ignore[attr-defined]
    reading = ModelReading(model, TEXT)
    for k, layer in enumerate(layers):
        found = reading.passage(k)
        assert found.adds_up
        stream = found.x[2]
        norms = (
            (layer.input_layernorm, layer.post_attention_layernorm),
            (layer.pre_feedforward_layernorm, layer.post_feedforward_layernorm),
        )
        for part, (before, behind) in zip(found.parts, norms, strict=True):
            assert part.end is not None
            assert part.reads is not None
            np.testing.assert_allclose(part.reads[2], normed(stream, before), **CLOSE)
            np.testing.assert_allclose(part.end[2], normed(part.gives[2], behind), **CLOSE)
            stream = stream + part.end[2]
        np.testing.assert_allclose(stream, found.after[2], **CLOSE)


@pytest.mark.parametrize("family", ["gemma2", "gemma3"])
def test_that_the_residual_stream_grows_by_the_norms_of_what_parts_give(family: str) -> None:
    reading = ModelReading(foreign(family), TEXT)
    found = reading.streams()
    assert found.is_sum
    for layer in range(2):
        for part in reading.passage(layer).parts:
            assert part.end is not None
            np.testing.assert_allclose(found.added[part.name][layer], part.end, **CLOSE)
    assert not ask_model(QUESTIONS["residual-stream"], foreign(family), TEXT).note


def parallel(family: str, folder: Path) -> Model:
    if family in hf_tiny.FAMILIES:
        return foreign(family)
    choices = {"vocab_size": hf_tiny.N_PIECES, **hf_tiny.IDS}
    made: Any = {
        "gptj": lambda: hf.GPTJForCausalLM(
            hf.GPTJConfig(n_embd=32, n_layer=2, n_head=4, n_inner=48, rotary_dim=4, n_positions=80, **choices)
        ),
        "gpt_neox in turn": lambda: hf.GPTNeoXForCausalLM(
            hf.GPTNeoXConfig(**hf_tiny.ENCODER, use_parallel_residual=False)
        ),
    }[family]()
    hf_tiny.fill(made.eval())
    return load(save_folder(folder / "made", made, word_tokenizer()), "cpu")


NORMS = {"gpt_neox": ("input_layernorm", "post_attention_layernorm"), "phi": ("input_layernorm",) * 2}
NORMS |= {"gptj": ("ln_1", "ln_1")}


@pytest.mark.parametrize("family", list(NORMS))
def test_that_parallel_parts_read_the_stream_that_entered(family: str, tmp_path: Path) -> None:
    model = parallel(family, tmp_path)
    module: Any = model.network.module  # type: ignore[attr-defined]
    blocks = next(one for one in module.modules() if isinstance(one, torch.nn.ModuleList))
    reading = ModelReading(model, TEXT)
    for layer, block in enumerate(blocks):
        found = reading.passage(layer)
        assert (found.order, found.adds_up) == ("parallel", True)
        for part, norm in zip(found.parts, NORMS[family], strict=True):
            assert part.reads is not None
            np.testing.assert_allclose(part.reads[2], normed(found.x[2], getattr(block, norm)), **CLOSE)
        total = found.x + found.parts[0].gives + found.parts[1].gives
        np.testing.assert_allclose(total, found.after, **CLOSE)
    answer = ask_model(QUESTION, model, TEXT)
    names = [str(row[0]) for row in answer.tables[0].rows]
    assert "are parallel" in answer.note
    assert not any("residual" in name for name in names)
    assert [name[2:] for name in names if "plus" in name] == ["x plus all parts"]


def test_that_the_same_family_in_turn_is_not_called_parallel(tmp_path: Path) -> None:
    found = ModelReading(parallel("gpt_neox in turn", tmp_path), TEXT).passage(1)
    assert (found.order, found.adds_up) == ("in turn", True)


def test_that_no_sum_is_shown_where_a_part_is_scaled_before_it_is_added(tmp_path: Path) -> None:
    config = hf.GraniteConfig(**hf_tiny.DECODER, residual_multiplier=0.3)
    made = hf.GraniteForCausalLM(config).eval()
    hf_tiny.fill(made)
    model = load(save_folder(tmp_path / "granite", made, word_tokenizer()), "cpu")
    answer = ask_model(QUESTION, model, TEXT)
    assert not any("plus" in str(row[0]) for row in answer.tables[0].rows)
    assert "left out" in answer.note


def behind(model: Model, token: int, text: str = TEXT, target: str | None = None) -> Any:
    options = with_values(QUESTION.options, {"layer": 96, "token": token})
    return ask_model(QUESTION, model, text, target, options=options)


@pytest.mark.parametrize("family", ["gpt2", "bert", "t5", "opt", "bart", "gemma2"])
def test_that_the_walk_ends_with_what_the_library_itself_predicts(family: str) -> None:
    model, target = foreign(family), "a bird was good" if target_of(family) else None
    answer = behind(model, 2, target=target)
    network: Any = model.network
    with torch.no_grad():
        arguments = network.arguments(ModelReading(model, TEXT, target)._inputs)
        logits = network.module(**arguments).logits[0, 2].double()
    wanted = logits.softmax(dim=-1)
    rows = answer.tables[-1].rows
    best = wanted.topk(len(rows)).indices.tolist()
    assert [row[0] for row in rows] == [network.answer(id).piece for id in best]
    np.testing.assert_allclose([row[1] for row in rows], logits[best], **CLOSE)
    np.testing.assert_allclose([row[2] for row in rows], wanted[best], **CLOSE)


def test_that_the_last_norm_and_the_product_behind_it_give_the_logits() -> None:
    model = foreign("gpt2")
    module: Any = model.network.module  # type: ignore[attr-defined]
    said = ModelReading(model, TEXT).said(3)
    assert said.normed is not None
    np.testing.assert_allclose(said.normed, normed(said.x, module.transformer.ln_f), **CLOSE)
    weights = module.lm_head.weight.detach().double().numpy()
    np.testing.assert_allclose(weights @ said.normed, said.logits, **CLOSE)


def test_that_the_end_of_an_encoder_says_who_reads_it() -> None:
    options = with_values(QUESTION.options, {"layer": 2, "stack": "encoder"})
    answer = ask_model(QUESTION, foreign("t5"), TEXT, "a bird", options=options)
    assert "is read by the decoder's cross-attention" in answer.sentence
    assert answer.limits == (("layer", 2), ("token", 5))
