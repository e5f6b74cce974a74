"""`attnscope figure --view difference`: two texts, two settings of one text; and what it refuses."""

import csv
from pathlib import Path

import numpy as np
import pytest

from attnscope.cli import main as cli
from attnscope.models import ModelCard, write_model_folder
from attnscope.nn import ModelConfig, build_transformer
from attnscope.text import train_tokenizer

PLACE = ("--view", "difference", "--stack", "encoder", "--layer", "1", "--head", "0")
TEXT = ("--text", "the cat sat", "--target", "le chat")


def draw(model: str, out: Path, *arguments: str) -> int:
    return cli.main(["figure", model, *TEXT, *PLACE, *arguments, "-o", str(out)])


def test_that_a_gate_makes_a_difference_and_text_is_aligned(tiny_model: str, tmp_path: Path) -> None:
    assert draw(tiny_model, tmp_path / "gate.npz", "--with-gate", "encoder:L0H0=0") == 0
    arrays = np.load(tmp_path / "gate.npz")
    np.testing.assert_array_equal(
        arrays["encoder_L1H0_difference"], arrays["encoder_L1H0_B"] - arrays["encoder_L1H0_A"]
    )
    assert np.abs(arrays["encoder_L1H0_difference"]).max() > 0
    assert draw(tiny_model, tmp_path / "text.csv", "--with-text", "the cat sat on", "--caption") == 0
    rows = list(csv.reader((tmp_path / "text.csv").read_text(encoding="utf-8").splitlines()))
    assert {row[-1] for row in rows[1:]} == {"both", "B"}
    assert draw(tiny_model, tmp_path / "model.svg", "--with-model", tiny_model) == 0
    assert b"<svg" in (tmp_path / "model.svg").read_bytes()


def test_that_the_only_stack_of_the_other_model_is_taken_and_of_several_one_is_asked_for(
    tiny_model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tokenizer = train_tokenizer("words", ["the cat sat"], vocab_size=20)
    shape = {"d_model": 16, "n_layers": 2, "n_heads": 2, "max_tokens": 24}
    config = ModelConfig(form="decoder", vocab_size=tokenizer.vocab_size, **shape)
    card = ModelCard(name="other", objective="causal")
    other = str(tmp_path / "other")
    write_model_folder(Path(other), build_transformer(config, seed=1), config, tokenizer, card)
    out = ("-o", str(tmp_path / "two.csv"))
    head = ("--view", "difference", "--layer", "1", "--head", "0", "--align", "position")
    a_and_b = ("--text", "the cat sat", "--stack", "encoder", "--with-model", other)
    assert cli.main(["figure", tiny_model, *a_and_b, *head, *out]) == 0
    assert draw(tiny_model, tmp_path / "far.svg", "--with-model", other, "--with-stack", "cross") == 2
    assert "for instance --with-stack decoder" in capsys.readouterr().err
    b_and_a = ("--text", "the cat sat", "--stack", "decoder", "--with-model", tiny_model)
    assert cli.main(["figure", other, *b_and_a, *head, *out]) == 0  # it has a stack of that name


def test_that_two_equal_sides_are_refused(
    tiny_model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert draw(tiny_model, tmp_path / "same.svg") == 2
    assert "A and B are the same" in capsys.readouterr().err
    assert draw(tiny_model, tmp_path / "far.svg", "--with-gate", "encoder:L9H0=0") == 2
