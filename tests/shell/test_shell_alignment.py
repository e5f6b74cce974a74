"""`attnscope measure --links`: heads and layer means against gold links."""

import csv
import json
from pathlib import Path

import pytest

from attnscope.cli.main import main


def test_that_links_become_a_table_a_file_and_a_column(
    capsys: pytest.CaptureFixture[str], tiny_model: str, tmp_path: Path
) -> None:
    (tmp_path / "p.tsv").write_text("the cat sat\tle chat est\nthe mat\tle tapis\n", encoding="utf-8")
    (tmp_path / "l.txt").write_text("0-0 1-1 2p2\n0-0 1-1\n", encoding="utf-8")
    options = ["--corpus", str(tmp_path / "p.tsv"), "--links", str(tmp_path / "l.txt")]
    more = ["--links-csv", str(tmp_path / "a.csv"), "--sort", "alignment_error", "--ascending", "--json"]
    assert main(["measure", tiny_model, *options, *more]) == 0
    found = json.loads(capsys.readouterr().out)
    with (tmp_path / "a.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [row["head"] for row in rows] == ["0", "1", "0", "1", "mean", "mean"]
    best = min(found["alignment"]["heads"], key=lambda head: head["error_rate"])
    assert best["name"] == found["alignment"]["best"]
    rates = [head["measures"]["alignment_error"]["value"] for head in found["heads"][:4]]
    assert rates == sorted(rates)
    assert sorted(rates) == pytest.approx(sorted(float(row["error_rate"]) for row in rows[:4]), abs=1e-5)


@pytest.mark.parametrize("option", ["--links", "--links-csv"])
def test_that_links_without_pairs_are_refused(
    capsys: pytest.CaptureFixture[str], tiny_model: str, option: str
) -> None:
    assert main(["measure", tiny_model, "--text", "the cat", option, "l.txt"]) == 2
    assert "Add --" in capsys.readouterr().err
