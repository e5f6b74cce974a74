"""`attnscope figure --view difference`: two texts, two settings of one text; and what it refuses."""

import csv
from pathlib import Path

import numpy as np
import pytest

from attnscope.cli import main as cli

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


def test_that_two_equal_sides_are_refused(
    tiny_model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert draw(tiny_model, tmp_path / "same.svg") == 2
    assert "Nothing differs" in capsys.readouterr().err
    assert draw(tiny_model, tmp_path / "far.svg", "--with-gate", "encoder:L9H0=0") == 2
