"""`attnscope weights`: token pairs and singular values of a head, without any text."""

import csv
import json
import re
from pathlib import Path

import pytest
import torch
from tiny_models import tiny_model as made_tiny_model

from attnscope.cli.main import main
from attnscope.records import Token, TokenPair
from attnscope.viewmodels.heads import readable_first


def test_that_a_heads_weights_are_printed_written_and_drawn(
    capsys: pytest.CaptureFixture[str], tiny_model: str, tmp_path: Path
) -> None:
    files = ["-o", str(tmp_path / "w.svg"), "--csv", str(tmp_path / "w.csv")]
    assert main(["weights", tiny_model, "cross:L1H0", "--top", "2", "--json", *files]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["stack"], found["layer"], found["head"]) == ("cross", 1, 0)
    values = [pair["value"] for pair in found["products"]["qk"]["strongest"]]
    assert values == sorted(values, reverse=True)
    with (tmp_path / "w.csv").open(encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if (row["product"], row["end"]) == ("qk", "strongest")]
    assert [float(row["value"]) for row in rows] == pytest.approx(values, rel=1e-5)
    assert (tmp_path / "w.svg").read_text(encoding="utf-8").startswith("<?xml")
    assert main(["weights", tiny_model, "cross:L1H0", "--top", "1"]) == 0
    told = capsys.readouterr()
    assert re.search(
        r"QK of cross L1H0, what it looks for: Σ Re λ.*: (mixed|it \w+ (for )?its like)", told.out
    )
    assert told.err == ""


def test_that_weights_that_are_no_numbers_have_no_sameness(
    capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    model = made_tiny_model("decoder")
    with torch.no_grad():
        model.network.module.tokens.weight[3] = torch.nan
    model.save(tmp_path / "model")
    assert main(["weights", str(tmp_path / "model"), "L0H0"]) == 0
    told = capfd.readouterr()
    assert "Σ Re λ / Σ |λ| is not known" in told.out
    assert "Intel" not in told.out + told.err  # nor a word of the library that finds eigenvalues


def test_that_pairs_of_bytes_come_after_those_of_text() -> None:
    def pair(first: str, second: str, value: float) -> TokenPair:
        return TokenPair(first=Token(id=0, piece=first), second=Token(id=1, piece=second), value=value)

    pairs = (pair("⟨E2⟩", "a", 3.0), pair("a", "é⟨1/2⟩", 2.0), pair("the", "cat", 1.0), pair("a", "b", 0.5))
    assert [one.is_text for one in pairs] == [False, False, True, True]
    assert [one.value for one in readable_first(pairs)] == [1.0, 0.5, 3.0, 2.0]


@pytest.mark.parametrize(
    ("head", "words"), [("L0H0", "stacks"), ("cross:1", "no head"), ("cross:L9H0", "L9H0")]
)
def test_that_a_head_that_is_not_there_is_refused(
    capsys: pytest.CaptureFixture[str], tiny_model: str, head: str, words: str
) -> None:
    assert main(["weights", tiny_model, head]) == 2
    assert words in capsys.readouterr().err
