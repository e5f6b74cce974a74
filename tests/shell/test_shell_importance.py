"""`attnscope importance` and `attnscope curve`."""

import csv
import dataclasses
import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

from attnscope.analysis import RANKED_BY
from attnscope.cli import main as cli
from attnscope.records import RANKINGS, MeasureCurves
from attnscope.viewmodels.session import COLUMNS
from attnscope.workers import ranking_runs, run_cost

PAIRS = "the cat sat\tle chat\non the mat\tsur le tapis\n"


@pytest.fixture
def pairs(tmp_path: Path) -> str:
    path = tmp_path / "pairs.tsv"
    path.write_text(PAIRS, encoding="utf-8")
    return str(path)


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = cli.main(list(arguments))
    captured = capsys.readouterr()
    return code, captured.out, captured.err


@pytest.mark.slow
@pytest.mark.parametrize("ranking", RANKINGS)
def test_that_every_ranking_scores_every_head(
    capsys: pytest.CaptureFixture[str], tiny_model: str, pairs: str, tmp_path: Path, ranking: str
) -> None:
    table = tmp_path / "scores.csv"
    options = ("--corpus", pairs, "--ranking", ranking, "--steps", "3", "--csv", str(table))
    code, out, _ = run(capsys, "importance", tiny_model, *options)
    assert code == 0
    assert len([line for line in out.splitlines() if "H" in line]) == 12
    told = out.splitlines()[-1]
    assert told.startswith(f"value: {RANKINGS[ranking].axis}")
    assert "interval" not in told  # of two texts there is none
    with table.open(encoding="utf-8") as stream:
        rows = list(csv.DictReader(stream))
    assert len(rows) == 12
    assert {row["ranking"] for row in rows} == {ranking}


def test_that_a_ranking_is_an_entry_of_the_list_and_a_function(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tiny_model: str, pairs: str
) -> None:
    words = {"name": "by-slope", "title": "by slope", "axis": "slope, nats", "reads": ("steps",), "order": 5}
    monkeypatch.setitem(RANKINGS, "by-slope", dataclasses.replace(RANKINGS["gradient"], **words))
    monkeypatch.setitem(RANKED_BY, "by-slope", RANKED_BY["gradient"])
    told = " ".join(run(capsys, "importance", "--help")[1].split())
    assert "{gradient,leave-one-out,learned,random,by-slope}" in told
    assert "for learned and by-slope: steps" in told
    options = ("--corpus", pairs, "--ranking", "by-slope", "--seed", "3")
    code, out, err = run(capsys, "importance", tiny_model, *options)
    assert (code, out.splitlines()[-1]) == (0, "value: slope, nats")
    assert "the ranking by-slope does not use --seed" in err
    code, out, _ = run(capsys, "curve", tiny_model, "--corpus", pairs, "--rankings", "by-slope,gradient")
    assert (code, out.splitlines()[1].split()[1:]) == (0, ["by-slope", "gradient"])
    asked = MeasureCurves(number=1, rankings=("by-slope", "gradient"))
    assert ranking_runs(asked) == [("gradient", 0), ("by-slope", 0)]
    assert run_cost("by-slope", 12, 2, asked) == run_cost("gradient", 12, 2, asked)


def test_that_every_ranking_has_a_column_and_a_function() -> None:
    columns = [one.name for one in COLUMNS if one.name.startswith("importance_")]
    assert columns == [f"importance_{name.replace('-', '_')}" for name in RANKINGS]
    assert list(RANKED_BY) == list(RANKINGS)


def test_that_scores_are_json_and_a_figure(
    capsys: pytest.CaptureFixture[str], tiny_model: str, pairs: str, tmp_path: Path
) -> None:
    figure = tmp_path / "scores.svg"
    options = ("--corpus", pairs, "--normalise", "--json", "-o", str(figure))
    code, out, _ = run(capsys, "importance", tiny_model, *options)
    found = json.loads(out)
    assert code == 0
    assert (found["n_texts"], found["is_normalised"], len(found["scores"])) == (2, True, 12)
    texts = [e.text or "" for e in ElementTree.parse(figure).iter() if e.tag.endswith("}text")]
    assert any("Importance of heads" in text for text in texts)
    assert {"encoder", "decoder", "cross"} <= set(texts)


def test_that_a_curve_is_a_table_a_file_and_a_figure(
    capsys: pytest.CaptureFixture[str],
    tiny_model: str,
    pairs: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    figure, table = tmp_path / "curve.svg", tmp_path / "curve.csv"
    options = ("--corpus", pairs, "--step", "0.5", "--metric", "accuracy", "--once")
    monkeypatch.setattr("attnscope.cli.terminal.PATIENCE_S", -1.0)
    code, out, err = run(capsys, "curve", tiny_model, *options, "-o", str(figure), "--csv", str(table))
    assert code == 0
    assert [line.split()[0] for line in out.splitlines()[2:5]] == ["0", "6", "12"]
    assert out.splitlines()[-1] == "no interval: 2 texts, and 5 are needed"
    assert "6 of 12 heads off" in err
    with table.open(encoding="utf-8") as stream:
        rows = list(csv.DictReader(stream))
    assert len(rows) == 6
    assert rows[1]["off"].count(":") == 6
    texts = [e.text or "" for e in ElementTree.parse(figure).iter() if e.tag.endswith("}text")]
    assert {"gradient", "random"} <= set(texts)
    monkeypatch.setattr("attnscope.cli.terminal.PATIENCE_S", 1e9)
    code, out, err = run(capsys, "curve", tiny_model, *options, "--json")
    assert err == "", "beside a terminal a quick job tells nothing of its progress"
    assert [c["ranking"] for c in json.loads(out)["curves"]] == ["gradient", "random"]


def test_that_a_model_without_texts_of_its_own_takes_a_task(
    capsys: pytest.CaptureFixture[str], tiny_model: str
) -> None:
    code, out, _ = run(capsys, "importance", tiny_model, "--task", "english-french", "--max-texts", "2")
    assert code == 0
    assert "2 texts of task english-french" in out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("curve", "--rankings", "gradient,best"), "no ranking 'best'"),
        (("curve", "--step", "0"), "share of 0.0"),
        (("curve", "--metric", "alignment-error"), "no alignment"),
        (("importance", "--max-texts", "0"), "argument --max-texts: '0' is not a whole number from 1"),
        (("importance", "--task", "copy"), "two sets of texts"),
    ],
)
def test_that_a_wrong_wish_is_one_line_and_exit_code_2(
    capsys: pytest.CaptureFixture[str], tiny_model: str, pairs: str, words: tuple[str, ...], said: str
) -> None:
    code, out, err = run(capsys, words[0], tiny_model, "--corpus", pairs, *words[1:])
    assert (code, out) == (2, "")
    assert said in err


def test_that_gold_links_from_a_file_make_an_alignment_curve(
    capsys: pytest.CaptureFixture[str], tiny_model: str, pairs: str, tmp_path: Path
) -> None:
    links = tmp_path / "links.txt"
    links.write_text("0-0 1-1\n0-0 1p1 2-2\n", encoding="utf-8")
    options = ("--corpus", pairs, "--links", str(links), "--metric", "alignment-error", "--step", "0.5")
    code, out, _ = run(capsys, "curve", tiny_model, *options)
    assert code == 0
    assert "alignment error rate" in out
