"""A score is one file: it is then in configurations, training, costs, commands, Python, lab and help."""

import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from added_files import look_also_in
from tiny_models import SENTENCE, tiny_model

import attnscope
from attnscope.cli.main import main
from attnscope.errors import RecipeError
from attnscope.fields import fields_of
from attnscope.labs import LABS, find_labs
from attnscope.models import BatchShape, activation_bytes, own_cost
from attnscope.nn import ModelConfig, build_transformer, count_parameters
from attnscope.schemes import schemes_of, scores
from attnscope.schemes.scores import SCORES, Score
from attnscope.viewmodels import read_help

LAB = LABS["Kernel regression"]

HELP = Path(__file__).parents[2] / "resources" / "help"
ADDED = '''
from attnscope.schemes.scores.score import Score


class Reversed(Score):
    """The product with the dimensions of the key in reverse, and a matrix."""

    name, title, order = "reversed", "reversed", 900
    formula, source = "q M reverse(k) · sigma", "this test"
    choices = ("sigma",)
    is_bilinear = False
    learned = "mixing"
    n_more_columns = 1

    def scale(self, config):
        return 0.5 if config.sigma is None else config.sigma

    def learned_shape(self, d_head):
        return d_head, d_head

    def keys(self, k):
        return k.flip(-1)

    def n_kept(self, n, k, n_heads):
        return 5 * n


class Halved(Score):
    name, title, order = "halved", "halved", 910
    formula, source = "q·k / 2", "this test"
    samples_formula = "s = q·k / 2σ²"
    on_a_line = "Half of the product."

    def scale(self, config):
        return 0.5

    def on_samples(self, queries, keys):
        return queries @ keys.T / 2
'''
SIZES = {"form": "decoder", "vocab_size": 20, "d_model": 16, "n_layers": 1, "n_heads": 2, "d_ff": 24}


@pytest.fixture(autouse=True)
def added(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "schemes"
    folder.mkdir()
    (folder / "reversed_keys.py").write_text(ADDED, encoding="utf-8")
    look_also_in(folder, scores, monkeypatch)
    try:
        found = schemes_of("attnscope.schemes.scores", Score)
    finally:
        sys.modules.pop("attnscope.schemes.scores.reversed_keys", None)
    assert list(found) == [*SCORES, "reversed", "halved"]
    for name in ("reversed", "halved"):
        monkeypatch.setitem(SCORES, name, found[name])


def test_that_a_configuration_knows_it_and_lists_it() -> None:
    config = ModelConfig.from_dict({**SIZES, "score": "reversed"})
    assert config.score == "reversed"
    with pytest.raises(RecipeError) as caught:
        ModelConfig.from_dict({**SIZES, "score": "reverse"})
    assert caught.value.expected.endswith(", ".join(SCORES))
    with pytest.raises(RecipeError, match="shaw"):
        ModelConfig.from_dict({**SIZES, "score": "reversed", "position": "shaw"})


def test_that_it_is_counted_and_costs_what_its_file_says() -> None:
    plain, config = (ModelConfig.from_dict({**SIZES, "score": name}) for name in ("dot", "reversed"))
    model = build_transformer(config, seed=0)
    n_learned = sum(parameter.numel() for parameter in model.parameters())
    assert count_parameters(config).total == n_learned == count_parameters(plain).total + 2 * 8 * 8
    n = 10
    assert own_cost(config, n).forward - own_cost(plain, n).forward == 2 * n * 2 * 8 * 8 + 2 * n * n * 2
    shape = BatchShape(n_sequences=1, n_tokens=n, n_scored=n)
    assert activation_bytes(config, shape) - activation_bytes(plain, shape) == n * 5 * 16 * 4


def test_that_its_maps_are_those_of_its_formula() -> None:
    model = tiny_model("decoder", n_layers=1, n_heads=2, n_kv_heads=2, score="reversed", sigma=0.25)
    (attention,) = (block.attention for block in model.network.module.decoder)
    projected = []
    attention.qkv.register_forward_hook(lambda _module, _given, found: projected.append(found))
    seen = model.trace(SENTENCE)
    q, k, _ = projected[0].unflatten(-1, (3, 2, 8))[0].permute(1, 2, 0, 3)  # [2 heads, T, 8]
    scored = 0.25 * (q @ attention.scoring.mixing) @ k.flip(-1).transpose(1, 2)
    causal = torch.ones(scored.shape[1:], dtype=torch.bool).tril()
    expected = scored.masked_fill(~causal, -torch.inf).softmax(-1)
    found = seen.all_weights(("decoder", 0)).nan_to_num(0.0)
    torch.testing.assert_close(found, expected.detach(), rtol=1e-5, atol=1e-6)


def test_that_a_tiny_model_of_it_is_trained_opened_and_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    changes = ("model.score=reversed", "model.sigma=0.3", "model.d_model=16", "model.d_ff=16")
    steps = ("data.n_examples=50", "training.n_steps=2", "training.evaluate_every=2", "training.batch_size=2")
    given = [word for change in (*changes, *steps) for word in ("--set", change)]
    assert main(["--device", "cpu", "train", "copy", "--out", str(run), *given]) == 0
    capsys.readouterr()
    assert main(["info", str(run), "--device", "cpu"]) == 0
    told = capsys.readouterr().out.split()
    assert told[told.index("score") + 1] == "reversed"
    assert told[told.index("sigma") + 1] == "0.3"
    assert "temperature" not in told
    assert main(["info", str(run), "--device", "cpu", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["architecture_table"]["score"] == "reversed"
    assert attnscope.load(str(run)).own.config.score == "reversed"


def test_that_the_lab_and_the_help_show_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, type(LAB).__module__)  # as when the program starts
    new = find_labs()[LAB.name]
    offered = next(field for field in fields_of(new.example) if field.name == "score").options
    assert offered["halved"] == "halved"
    assert "reversed" not in offered
    shown = LAB.resolve(replace(LAB.example, score="halved", sigma=1.0))
    assert shown.words.formula[0] == "s = q·k / 2σ²"
    assert shown.words.sentence == "Half of the product."
    (recipes,) = (page for page in read_help(HELP) if page.name == "recipes")
    assert "`reversed`: q M reverse(k) · sigma (this test), `sigma`" in recipes.text
