"""Which experts take which tokens, against loops in float64 over the inputs of the routers."""

import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hf_folders import byte_tokenizer, save_folder, seq2seq_tokenizer
from tiny_models import SENTENCE, tiny_model

from attnscope.analysis import ask_model, routes_of
from attnscope.cli.main import main
from attnscope.errors import UserError
from attnscope.fields import with_values
from attnscope.models import load
from attnscope.questions import QUESTIONS

hf = pytest.importorskip("transformers")
hf_tiny = pytest.importorskip("hf_tiny")

pytestmark = pytest.mark.slow
QUESTION = QUESTIONS["experts"]
TEXT = "the end of the way is the end of all the ways there are"
WORDS = {
    "vocab_size": 300, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2,
    "intermediate_size": 24, "max_position_embeddings": 64,
}  # fmt: skip


def _mixtral():
    config = hf.MixtralConfig(**WORDS, num_key_value_heads=2, num_local_experts=5, num_experts_per_tok=2)
    return hf.MixtralForCausalLM(config), byte_tokenizer()


def _qwen():
    config = hf.Qwen2MoeConfig(
        **WORDS, num_key_value_heads=2, num_experts=6, num_experts_per_tok=3, moe_intermediate_size=16,
        shared_expert_intermediate_size=16, norm_topk_prob=False,
    )  # fmt: skip
    return hf.Qwen2MoeForCausalLM(config), byte_tokenizer()


def _switch():
    config = hf.SwitchTransformersConfig(
        vocab_size=300, d_model=16, d_kv=8, d_ff=24, num_layers=2, num_decoder_layers=2, num_heads=2,
        num_experts=3, expert_capacity=4, num_sparse_encoder_layers=1, num_sparse_decoder_layers=1,
        pad_token_id=1, eos_token_id=2, decoder_start_token_id=1,
    )  # fmt: skip
    return hf.SwitchTransformersForConditionalGeneration(config), seq2seq_tokenizer()


@pytest.fixture(params=[(_mixtral, 2, True), (_qwen, 3, False)], ids=["mixtral", "qwen2-moe"])
def opened(request, tmp_path: Path):
    build, k, is_normed = request.param
    torch.manual_seed(3)
    network, tokenizer = build()
    with torch.no_grad():  # fresh routers are zero or nearly so
        for name, one in network.named_parameters():
            if name.endswith("gate.weight"):
                one.normal_()
    save_folder(tmp_path / "m", network, tokenizer)
    return load(tmp_path / "m", "cpu"), k, is_normed


def test_that_weights_and_loads_equal_a_slow_float64_version(opened) -> None:
    model, k, is_normed = opened
    inputs: dict[int, torch.Tensor] = {}
    routers = [one for one in model.network.module.modules() if type(one).__name__.endswith("Router")]
    hooks = [
        one.register_forward_pre_hook(lambda _, args, i=i: inputs.update({i: args[0].detach().double()}))
        for i, one in enumerate(routers)
    ]
    answers = [
        ask_model(QUESTION, model, TEXT, options=with_values(QUESTION.options, {"layer": i, "n_shown": 256}))
        for i in range(len(routers))
    ]
    for hook in hooks:
        hook.remove()
    for layer, (router, answer) in enumerate(zip(routers, answers, strict=True)):
        n = len(answer.cells[0].columns)
        rows = inputs[layer].reshape(-1, 16)[-n:].tolist()
        matrix = router.weight.double().tolist()
        counts = [0] * len(matrix)
        means = [0.0] * len(matrix)
        for t, x in enumerate(rows):
            logits = [sum(a * b for a, b in zip(x, w, strict=True)) for w in matrix]
            raised = [np.exp(one - max(logits)) for one in logits]
            p = [one / sum(raised) for one in raised]
            best = sorted(range(len(p)), key=lambda e: -p[e])[:k]
            whole = sum(p[e] for e in best) if is_normed else 1.0
            for e in range(len(p)):
                means[e] += p[e] / n
                counts[e] += e in best
                expected = p[e] / whole if e in best else 0.0
                assert answer.cells[0].values[e, t] == pytest.approx(expected, abs=1e-5)
        f = [count / (k * n) for count in counts]
        assert answer.charts[0].series[0].ys.tolist() == pytest.approx(f)
        balance = len(f) * sum(a * b for a, b in zip(f, means, strict=True))
        assert answer.charts[1].series[0].ys[layer] == pytest.approx(balance, abs=1e-5)
        assert answer.tables[0].rows[layer][:3] == (f"L{layer}", len(f), k)


def test_that_tokens_beyond_an_experts_capacity_are_told(tmp_path: Path) -> None:
    torch.manual_seed(1)
    save_folder(tmp_path / "m", *_switch())
    model = load(tmp_path / "m", "cpu")
    options = with_values(QUESTION.options, {"stack": "encoder", "n_shown": 256})
    answer = ask_model(QUESTION, model, TEXT, "the way", options=options)
    weights = answer.cells[0].values.T
    n = len(weights)
    (row,) = answer.tables[0].rows
    assert int((weights > 0).sum(axis=0).max()) <= 4
    assert row[5] == int(((weights > 0).sum(axis=1) == 0).sum()) >= n - 3 * 4
    assert "found no room" in answer.sentence
    decoder = ask_model(QUESTION, model, TEXT, "the way")
    assert len(decoder.cells[0].columns) < n


def told_of(weights: np.ndarray, p: np.ndarray) -> tuple[list[float], float]:
    """The load of each expert and the balance, of one layer that was routed like this."""
    routing = SimpleNamespace(layers=(0,), weights=(weights,), p=(p,), tokens=())
    answer = QUESTION.answer(SimpleNamespace(routing=lambda stack: routing), QUESTION.options)
    load, balance = (chart.series[0].ys.tolist() for chart in answer.charts)
    return load, *balance


def test_that_even_loads_have_the_balance_1_and_one_expert_for_all_the_most() -> None:
    load, balance = told_of(np.eye(4), np.full((4, 4), 0.25))
    assert load == [0.25] * 4
    assert balance == pytest.approx(1.0)
    one = np.zeros((4, 4))
    one[:, 2] = 1.0
    load, balance = told_of(one, one)
    assert load == [0.0, 0.0, 1.0, 0.0]
    assert balance == pytest.approx(4.0)
    assert told_of(np.zeros((3, 2)), np.full((3, 2), 0.5))[0] == [0.0, 0.0]


def test_that_equal_weights_of_a_later_token_are_not_lost() -> None:
    logits, weights = torch.tensor([[0.0, 1.0], [2.0, 0.0]]), torch.tensor([[0.5, 0.5], [0.7, 0.3]])
    found, p = routes_of((logits, weights, torch.tensor([[1, 0], [0, 1]])), n_tokens=1)
    assert found.tolist() == [[pytest.approx(0.7), pytest.approx(0.3)]]
    assert p.sum() == pytest.approx(1.0)


@pytest.mark.parametrize("form", ["decoder", "encoder", "encoder-decoder"])
def test_that_a_model_without_experts_is_refused(form: str) -> None:
    target = "a b" if form == "encoder-decoder" else None
    with pytest.raises(UserError, match="not divided into experts"):
        ask_model(QUESTION, tiny_model(form), SENTENCE, target)


def test_that_the_command_line_says_the_same(opened, capsys: pytest.CaptureFixture[str]) -> None:
    model, _, _ = opened
    assert main(["ask", "experts", str(model.info.source), "--text", TEXT, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["sentence"] == ask_model(QUESTION, model, TEXT).sentence
