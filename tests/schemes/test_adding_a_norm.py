"""A norm is one file: configurations, the network, saved models, the cost and help have it."""

import sys
from pathlib import Path

import pytest
import torch
from added_files import look_also_in
from tiny_models import tiny_model

from attnscope.cli.main import main
from attnscope.errors import RecipeError
from attnscope.models import BatchShape, activation_bytes
from attnscope.nn import ModelConfig, build_own, count_parameters
from attnscope.schemes import norms, schemes_of
from attnscope.schemes.norms import NORMS, NormScheme
from attnscope.viewmodels import read_help

HELP = Path(__file__).parents[2] / "resources" / "help"
ADDED = """
from attnscope.schemes.norms.norm import NormScheme


class Tamed(NormScheme):
    name, title, order = "tamed", "tamed", 900
    words, source = "tanh of each number, then a gain", "this test"
    has_bias = False
    running = (("n_seen", 0.0),)

    def faults(self, config):
        if config.norm_place == "sandwich":
            yield "norm_place", "pre or post beside the norm tamed"

    def apply(self, x, norm):
        if norm.training:
            norm.n_seen.add_(1.0)
        return x.tanh() * norm.weight

    def n_kept(self, d_model):
        return 7 * d_model


class Sharp(NormScheme):
    name, title, order = "sharp", "sharp", 910
    words, source = "tanh of each number times one that is learned", "this test"

    def learned(self, d_model, *, has_bias):
        return {"steepness": (1, 0.5)}

    def apply(self, x, norm):
        return (norm.steepness * x).tanh()
"""
SIZES = {"form": "encoder", "vocab_size": 20, "d_model": 8, "n_layers": 1, "n_heads": 2, "d_ff": 8}


@pytest.fixture(autouse=True)
def added(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "tamed.py").write_text(ADDED, encoding="utf-8")
    look_also_in(tmp_path, norms, monkeypatch)
    try:
        found = schemes_of("attnscope.schemes.norms", NormScheme)
    finally:
        sys.modules.pop("attnscope.schemes.norms.tamed", None)
    assert list(found) == [*NORMS, "tamed", "sharp"]
    for name in ("tamed", "sharp"):
        monkeypatch.setitem(NORMS, name, found[name])


def test_that_a_configuration_knows_it_and_what_it_needs() -> None:
    assert ModelConfig.from_dict({**SIZES, "norm": "tamed"}).norm == "tamed"
    with pytest.raises(RecipeError) as caught:
        ModelConfig.from_dict({**SIZES, "norm": "tame"})
    assert caught.value.expected.endswith("tamed, sharp")
    with pytest.raises(RecipeError) as caught:
        ModelConfig.from_dict({**SIZES, "norm": "tamed", "norm_place": "sandwich"})
    assert caught.value.expected == "pre or post beside the norm tamed"


def test_that_the_network_counts_it_uses_it_and_saves_what_it_has_seen() -> None:
    config = ModelConfig.from_dict({**SIZES, "norm": "tamed"})
    module = build_own(config, 0)
    assert count_parameters(config).total == sum(p.numel() for p in module.parameters())
    x = torch.linspace(-2.0, 3.0, 16).reshape(1, 2, 8)
    norm = module.encoder[0].attention_norm
    torch.testing.assert_close(norm(x), x.tanh())
    assert module.state_dict()["encoder.0.attention_norm.n_seen"].tolist() == [1.0] * 8
    plain = ModelConfig.from_dict(SIZES)
    shape = BatchShape(n_sequences=1, n_tokens=3, n_scored=3)
    more = activation_bytes(config, shape) - activation_bytes(plain, shape)
    assert more == 3 * 3 * (7 * 8 - 8 - 2) * 4  # three norms, three tokens


def test_that_a_norm_learns_what_its_file_says() -> None:
    config = ModelConfig.from_dict({**SIZES, "norm": "sharp"})
    module = build_own(config, 0)
    assert count_parameters(config).total == sum(p.numel() for p in module.parameters())
    norm = module.encoder[0].attention_norm
    assert {name: p.tolist() for name, p in norm.named_parameters()} == {"steepness": [0.5]}
    x = torch.linspace(-2.0, 3.0, 16).reshape(1, 2, 8)
    torch.testing.assert_close(norm(x), (x / 2).tanh())


def test_that_info_tells_the_numbers_that_are_read_and_the_formula_of_the_residual(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, changes in (("sharp", {"norm": "sharp"}), ("reversible", {"residual": "reversible"})):
        tiny_model("encoder", **changes).save(tmp_path / name)
        assert main(["info", str(tmp_path / name), "--device", "cpu"]) == 0
        told = capsys.readouterr().out
        assert ("norm_epsilon" in told) == (name == "reversible")
        assert ("y₂ = x₂ + FeedForward(y₁) (Gomez" in told) == (name == "reversible")


def test_that_help_knows_it() -> None:
    (recipes,) = (page for page in read_help(HELP) if page.name == "recipes")
    assert "- `tamed`: tanh of each number, then a gain (this test)" in recipes.text
