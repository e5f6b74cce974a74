"""Pairs that hashing never compares, against loops in float64 over a slow Transformer."""

import math
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hf_folders import make, save_folder
from slow_transformer import SlowDecoder
from tiny_models import SENTENCE, target_of, tiny_model

from attnscope.analysis import ask_model
from attnscope.errors import UserError
from attnscope.fields import with_values
from attnscope.models import load
from attnscope.questions import QUESTIONS
from attnscope.records import HeadRef

QUESTION = QUESTIONS["hashing"]


def slow_bucket(x, rotation) -> int:
    turned = [sum(float(a) * float(b) for a, b in zip(x, column, strict=True)) for column in rotation.T]
    both = [*turned, *(-one for one in turned)]
    return max(range(len(both)), key=lambda n: both[n])


@pytest.mark.parametrize(("n_buckets", "n_rounds"), [(2, 1), (4, 2), (8, 4)])
def test_that_lost_weights_equal_a_slow_float64_version(n_buckets: int, n_rounds: int) -> None:
    model, seed = tiny_model("decoder"), 3
    options = with_values(QUESTION.options, {"n_buckets": n_buckets, "n_rounds": n_rounds, "seed": seed})
    head = HeadRef(stack="decoder", layer=1, head=2)
    answer = ask_model(QUESTION, model, SENTENCE, head=head, options=options)
    slow = SlowDecoder(model).run(model.encode(SENTENCE).source.ids)
    q, k = slow.q[1, 2], slow.k[1, 2]
    rotations = np.random.default_rng(seed).standard_normal((16, q.shape[1], n_buckets // 2))
    n_pairs = n_left_out = 0
    lost, pairs = np.zeros((len(q), len(q))), np.full((len(q), len(q)), np.nan)
    for i in range(len(q)):
        scores = [math.exp(sum(q[i] * k[j]) / math.sqrt(q.shape[1])) for j in range(i + 1)]
        for j in range(i + 1):
            is_met = any(slow_bucket(q[i], r) == slow_bucket(k[j], r) for r in rotations[:n_rounds])
            lost[i, j] = 0.0 if is_met else scores[j] / sum(scores)
            pairs[i, j] = 1 if is_met else 2
            n_pairs, n_left_out = n_pairs + 1, n_left_out + (not is_met)
    np.testing.assert_allclose(answer.cells[0].values, lost, atol=1e-5)
    np.testing.assert_array_equal(answer.cells[2].values, pairs)
    assert answer.cells[2].legend[:2] == ("compared", "never compared")
    np.testing.assert_allclose(answer.charts[1].series[0].ys, lost.sum(axis=1), atol=1e-5)
    row = next(row for row in answer.tables[0].rows if row[0] == n_rounds)
    assert row[1] == pytest.approx(n_left_out / n_pairs)
    assert row[2] == pytest.approx(lost.sum() / len(q), abs=1e-6)
    assert f"{n_buckets} buckets in {n_rounds} round" in answer.sentence


def test_that_more_rounds_never_lose_more() -> None:
    rows = ask_model(QUESTION, tiny_model("decoder", position="rotary"), SENTENCE).tables[0].rows
    for column in (1, 2):
        shares = [row[column] for row in rows]
        assert shares == sorted(shares, reverse=True)


@pytest.mark.parametrize("seed", range(4))
def test_that_a_vector_meets_itself_and_never_its_opposite(seed: int) -> None:
    x = np.random.default_rng(0).standard_normal((5, 6))
    attended = SimpleNamespace(
        head=HeadRef(stack="decoder", layer=0, head=0), query_tokens=(), key_tokens=(),
        q=x, k=np.concatenate((3.0 * x, -x)), weights=np.full((5, 10), 0.1),
    )  # fmt: skip

    def pairs(n_rounds: int) -> np.ndarray:
        options = with_values(QUESTION.options, {"n_buckets": 8, "n_rounds": n_rounds, "seed": seed})
        found = QUESTION.answer(SimpleNamespace(attended=lambda: attended), options).cells[2]
        assert found.legend[:2] == ("compared", "never compared")
        return found.values

    assert pairs(1)[np.arange(5), np.arange(5)].tolist() == [1.0] * 5
    assert pairs(16)[np.arange(5), 5 + np.arange(5)].tolist() == [2.0] * 5


def test_that_cross_attention_and_models_of_the_library_are_asked_too(tmp_path: Path) -> None:
    form = "encoder-decoder"
    head = HeadRef(stack="cross", layer=0, head=1)
    found = ask_model(QUESTION, tiny_model(form), SENTENCE, target_of(form), head=head)
    assert found.cells[0].rows[1:] == tuple(target_of(form).split())
    assert found.cells[0].columns[:-1] == tuple(SENTENCE.split())
    network, tokenizer = make("gpt2")
    save_folder(tmp_path / "m", network, tokenizer)
    model = load(tmp_path / "m", "cpu")
    answer = ask_model(QUESTION, model, "the end of the way")
    weights = model.trace("the end of the way").weights(model.sites[0], 0)
    np.testing.assert_allclose(answer.cells[1].values, np.nan_to_num(weights), atol=1e-6)


def test_that_slots_and_models_without_heads_are_refused() -> None:
    with pytest.raises(UserError, match="slots"):
        ask_model(QUESTION, tiny_model("encoder", n_projected=3, n_kv_heads=None), SENTENCE)
    with pytest.raises(UserError, match="no heads"):
        ask_model(QUESTION, tiny_model("decoder", mixer="retention", n_kv_heads=None), SENTENCE)
