"""A measure is one file: it then stands in every table, header, tooltip and page, without another line."""

import csv
import json
import math
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import attnscope
from attnscope.schemes.measures import ESTIMATED, MEASURES, TEXT_MEASURES, AtFirst, AtOffset

PACKAGE = Path(attnscope.__file__).parent
TEXT = "the white cat sleeps"
RUNNER_UP = """
from attnscope.schemes.measures.measure import Measure, OnText


def second_largest(block):
    return block.a.topk(2, dim=-1).values[..., 1]


class RunnerUp(Measure):
    name = "runner_up"
    title = "runner-up"
    order = 125
    terminal = 11
    is_estimated = True
    sums = (second_largest,)
    definition = "The second largest weight of a row."
    on_text = OnText(order=35, title="runner-up", definition="The second weight of a row.", digits=3)
    says = "attends to two keys"

    def of_rows(self, block):
        return second_largest(block)
"""
SEEN = """
import dataclasses, json, sys
import attnscope as at
from attnscope.analysis.measures import measure
from attnscope.paths import resources_folder
from attnscope.records.findings import csv_of_text
from attnscope.viewmodels.session.head_measures import COLUMNS
from attnscope.viewmodels.help_pages import read_help
from attnscope.viewmodels.session.head_measures import describe, measures_shown
from attnscope.viewmodels.tours.touring import NUMBERS

model = at.load("grammar")
trace = model.trace(sys.argv[1])
found = at.measure(trace)
long = at.load("stories").trace(" ".join(["The king shall come to the house of my lord."] * 20))
exact, estimate = at.measure(long)[0], measure(long, max_cells=1)[0]
over_texts = at.measure_texts(model, [sys.argv[1]])
of_first = over_texts.to_dict()["heads"][0]["measures"]
head = found[0].head
shown = {one.kind.field: one for one in measures_shown(found, head)}["runner_up"]
print(json.dumps({
    "python": [one.runner_up for one in found],
    "maps": [trace.weights(one.head.site_key, one.head.head).tolist() for one in found],
    "long": [exact.runner_up, estimate.runner_up, estimate.runner_up_error],
    "fields": list(dataclasses.asdict(found[0])),
    "csv": csv_of_text(found),
    "shown": [shown.text, shown.tooltip],
    "line": describe(dataclasses.replace(found[0], runner_up=2.0)),
    "column": [column.definition for column in COLUMNS if column.name == "runner_up"],
    "help": [page.text for page in read_help(resources_folder() / "help") if page.name == "measures"][0],
    "tour": "runner_up" in NUMBERS,
    "over texts": [over_texts.rows()[0]["runner_up"], of_first["runner_up"]],
}))
"""
BETWEEN = "~~~\n"
PRINTED = f"""
import json, sys
from attnscope.cli.main import main
for number, words in enumerate(json.loads(sys.argv[1])):
    print(end={BETWEEN!r} if number else "")
    assert main(["measure", "grammar", *words]) == 0
"""


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A package that is this one, and one file more in its folder of measures."""
    root = tmp_path_factory.mktemp("with_a_measure")
    for folder in ("", "schemes", "schemes/measures"):
        there = root / "attnscope" / folder
        there.mkdir(exist_ok=True)
        for child in (PACKAGE / folder).iterdir():
            if child.name not in ("__pycache__", "schemes", "measures"):
                (there / child.name).symlink_to(child)
    (root / "attnscope/schemes/measures/runner_up.py").write_text(RUNNER_UP, encoding="utf-8")
    return root


def ran(root: Path, *arguments: str) -> str:
    given = {**os.environ, "PYTHONPATH": str(root)}
    command = [sys.executable, *arguments]
    done = subprocess.run(
        command, cwd=root, env=given, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def second(row: Sequence[float]) -> float:
    return sorted([0.0 if math.isnan(weight) else weight for weight in row])[-2]


@pytest.mark.slow
def test_that_a_measure_in_one_file_is_seen_everywhere(root: Path) -> None:
    seen: dict[str, Any] = json.loads(ran(root, "-c", SEEN, TEXT))
    expected = [sum(map(second, rows)) / len(rows) for rows in seen["maps"]]
    assert seen["python"] == pytest.approx(expected, abs=1e-6)
    assert {"runner_up", "runner_up_error"} <= set(seen["fields"])
    header, first, *_ = csv.reader(seen["csv"].splitlines())
    assert float(first[header.index("runner_up")]) == pytest.approx(expected[0], abs=1e-5)
    assert seen["shown"][0] == f"{expected[0]:.3f}"
    assert "The second weight of a row." in seen["shown"][1]
    assert seen["line"] == "attends to two keys: 2.00 of its weight"
    assert seen["column"] == ["The second largest weight of a row."]
    assert "| runner-up | weight | The second largest weight of a row. |" in seen["help"]
    assert seen["tour"]
    assert seen["over texts"][0] == seen["over texts"][1]["value"] == pytest.approx(expected[0], abs=1e-5)
    exact, estimate, error = seen["long"]
    assert 0 < abs(estimate - exact) < 4 * error


@pytest.mark.slow
def test_that_the_command_line_prints_it(root: Path, tmp_path: Path) -> None:
    (tmp_path / "texts.txt").write_text(TEXT, encoding="utf-8")
    text, corpus = ("--text", TEXT), ("--corpus", str(tmp_path / "texts.txt"))
    asked = ((*text, "--json"), (*text, "--sort", "runner_up"), (*corpus, "--csv", str(tmp_path / "out.csv")))
    as_json, as_table, over = ran(root, "-c", PRINTED, json.dumps(asked)).split(BETWEEN)
    numbers = [head["runner_up"] for head in json.loads(as_json)["heads"]]
    table = as_table.splitlines()
    column = table[1].split().index("runner_up")
    assert float(table[2].split()[column + 1]) == pytest.approx(max(numbers), abs=1e-4)
    assert "runner_up       (weight) The second weight of a row." in table
    assert "runner_up       (weight) The second largest weight of a row." in over.splitlines()
    header = (tmp_path / "out.csv").read_text(encoding="utf-8").split("\n")[0].split(",")
    assert {"runner_up", "runner_up_low", "runner_up_texts"} <= set(header)


def test_that_every_measure_has_its_own_places_and_a_way_to_be_read_on_a_long_text() -> None:
    for places in (
        [one.order for one in MEASURES.values()],
        [one.terminal for one in MEASURES.values() if one.terminal],
        [one.on_text.order for one in MEASURES.values() if one.on_text is not None],
    ):
        assert len(places) == len(set(places))
    for name, one in TEXT_MEASURES.items():
        assert name in ESTIMATED or isinstance(one, AtOffset | AtFirst)
    for one in MEASURES.values():
        assert one.title
        assert one.definition.endswith((".", ")"))
        assert one.unit
        assert not one.like or one.like in MEASURES
