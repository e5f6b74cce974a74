"""The effective number of keys against exp of an entropy that is summed up cell by cell in float64."""

import json
import math
import random
from pathlib import Path

import numpy as np
import pytest
from tiny_models import SENTENCE, target_of, tiny_model

import attnscope as at
from attnscope import measure
from attnscope.cli.main import main
from attnscope.schemes.measures import ESTIMATED, MEASURES


def slow_keys(weights: np.ndarray) -> float:
    """The mean over the rows that see a key, in float64."""
    rows = [row[np.isfinite(row)].astype(np.float64) for row in weights]
    entropies = [-sum(a * math.log(a) for a in row.tolist() if a > 0) for row in rows if row.sum() > 0]
    return float(np.mean(np.exp(entropies)))


def test_that_k_keys_of_equal_weight_are_k_and_one_key_is_1() -> None:
    for k in (1, 2, 5, 7):
        even = np.zeros((1, 1, 3, 7), dtype=np.float32)
        even[..., :k] = 1 / k
        (found,) = at.measure(at.from_arrays(even, list("tuvwxyz"), list("abc")))
        assert found.effective_keys == pytest.approx(k, abs=1e-4)


def test_that_a_map_worked_out_by_hand_has_its_value() -> None:
    weights = np.array([[1, 0, 0], [0.5, 0.5, 0], [0.2, 0.3, 0.5]], dtype=np.float32)
    (found,) = at.measure(at.from_arrays(weights[None, None], list("abc")))
    third = 1 / (0.2**0.2 * 0.3**0.3 * 0.5**0.5)
    assert found.effective_keys == pytest.approx((1 + 2 + third) / 3, abs=1e-5)
    assert third == pytest.approx(math.exp(1.0297), abs=2e-4)


@pytest.mark.parametrize("form", ["decoder", "encoder", "encoder-decoder"])
@pytest.mark.parametrize("choices", [{}, {"mask": "window", "window": 1}, {"score": "kernel"}], ids=str)
def test_that_every_head_has_what_its_weights_say(form: str, choices: dict[str, object]) -> None:
    trace = tiny_model(form, **choices).trace(SENTENCE, target_of(form))
    for found in at.measure(trace):
        weights = trace.weights(found.head.site_key, found.head.head)
        assert found.effective_keys == pytest.approx(slow_keys(weights), rel=2e-5)
        assert 1 <= found.effective_keys <= weights.shape[1]


def test_that_a_very_long_text_is_estimated_within_its_error() -> None:
    assert "effective_keys" in ESTIMATED
    words, draws = "the king shall come to my house and see a lord of many sons".split(), random.Random(1)
    trace = at.load("stories", device="cpu").trace(" ".join(draws.choices(words, k=200)))
    exact, estimates = at.measure(trace), measure(trace, max_cells=1)
    for one, other in zip(exact, estimates, strict=True):
        assert other.effective_keys_error > 0
        assert abs(other.effective_keys - one.effective_keys) < 5 * other.effective_keys_error


def test_that_over_texts_it_is_the_mean_of_the_texts() -> None:
    model, texts = tiny_model("encoder"), [SENTENCE, "a dog saw the bird"]
    table = at.measure_texts(model, texts).table
    column = table.names.index("effective_keys")
    traces = [model.trace(text) for text in texts]
    for row, head in enumerate(table.heads):
        each = [slow_keys(trace.weights(head.site_key, head.head)) for trace in traces]
        assert table.values[row, column] == pytest.approx(np.mean(each), rel=1e-5)


def test_that_commands_and_help_have_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wish = ["measure", "grammar", "--device", "cpu", "--text", "the white cat sleeps"]
    assert main([*wish, "--json"]) == 0
    heads = json.loads(capsys.readouterr().out)["heads"]
    assert all(head["effective_keys"] >= 1 for head in heads)
    assert main([*wish, "--sort", "effective_keys"]) == 0
    shown = capsys.readouterr().out
    assert f"{max(head['effective_keys'] for head in heads):.2f}" in shown
    assert MEASURES["effective_keys"].on_text.definition in shown
