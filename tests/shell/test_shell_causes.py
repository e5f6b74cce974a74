"""`attnscope attribute` and `attnscope patch`."""

import csv
import json
from pathlib import Path

import pytest

from attnscope.cli import main as cli


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = cli.main(list(arguments))
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_that_parts_are_a_table_a_file_and_a_figure(
    capsys: pytest.CaptureFixture[str], tiny_model: str, tmp_path: Path
) -> None:
    figure, table = tmp_path / "parts.svg", tmp_path / "parts.csv"
    text = ("--text", "the cat sat", "--target", "le chat", "--answer", "chat", "--other", "le")
    code, out, _ = run(capsys, "attribute", tiny_model, *text, "-o", str(figure), "--csv", str(table))
    assert code == 0
    assert out.startswith("logit(chat) − logit(le) at token 1")
    with table.open(encoding="utf-8") as stream:
        rows = list(csv.DictReader(stream))
    total = sum(float(row["logits"]) for row in rows)
    difference = float(out.splitlines()[0].rsplit(" ", 1)[1])
    assert total == pytest.approx(difference, abs=1e-4)
    assert {row["stack"] for row in rows if row["kind"] == "head"} == {"decoder", "cross"}
    svg = figure.read_text(encoding="utf-8")
    assert "FFN" in svg
    assert "cross 1" in svg


def test_that_a_closed_head_adds_nothing_in_json(capsys: pytest.CaptureFixture[str], tiny_model: str) -> None:
    options = ("--text", "the cat sat", "--gate", "cross:L1H0=0", "--json")
    code, out, _ = run(capsys, "attribute", tiny_model, *options)
    found = json.loads(out)
    assert code == 0
    (part,) = [one for one in found["contributions"] if one["label"] == "cross L1H0"]
    assert part["value"] == 0.0
    assert found["total"] == pytest.approx(found["difference"], abs=1e-4)


def test_that_patches_are_a_table_json_and_a_figure(
    capsys: pytest.CaptureFixture[str], tiny_model: str, tmp_path: Path
) -> None:
    figure, table = tmp_path / "patch.svg", tmp_path / "patch.csv"
    texts = ("--clean", "the cat sat", "--corrupt", "the mat sat", "--target", "le chat est")
    code, out, _ = run(capsys, "patch", tiny_model, *texts, "--csv", str(table), "-o", str(figure))
    assert code == 0
    lines = out.splitlines()
    assert lines[1].split() == ["encoder", "0", "encoder", "1"]
    assert float(lines[3].split()[1]) == pytest.approx(1.0, abs=1e-3)
    with table.open(encoding="utf-8") as stream:
        rows = list(csv.DictReader(stream))
    assert [row["token"] for row in rows[:3]] == ["the", "mat", "sat"]
    assert "Stream" in figure.read_text(encoding="utf-8")
    code, out, _ = run(capsys, "patch", tiny_model, *texts, "--kind", "head", "--json")
    found = json.loads(out)
    assert (code, len(found["patched"]), found["columns"]) == (0, 6, ["H0", "H1"])


def test_that_texts_of_unlike_lengths_and_unknown_answers_are_refused(
    capsys: pytest.CaptureFixture[str], tiny_model: str
) -> None:
    code, _, err = run(capsys, "patch", tiny_model, "--clean", "the cat", "--corrupt", "the cat sat")
    assert (code, "Exchange words" in err) == (2, True)
    code, _, err = run(capsys, "attribute", tiny_model, "--text", "the cat", "--answer", "elephant")
    assert (code, "not in the vocabulary" in err) == (2, True)
    code, _, err = run(capsys, "attribute", tiny_model, "--text", " ")
    assert (code, "no text" in err) == (2, True)
