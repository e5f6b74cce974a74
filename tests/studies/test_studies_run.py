"""Every study runs from the command line, at a size at which only its files mean anything."""

import csv
import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

from attnscope.cli import main as cli
from attnscope.paths import resources_folder
from attnscope.studies.making import QUICK, checkpoints_of, train_study
from attnscope.studies.study import studies
from attnscope.training import parse_recipe

pytestmark = pytest.mark.qt

NAMES = tuple(card.name for card in studies())


@pytest.mark.parametrize("name", NAMES)
def test_that_a_study_writes_a_figure_tables_and_a_report(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ("--out", str(tmp_path), "--quick", "--device", "cpu", "--json")
    assert cli.main(["study", name, *options]) == 0
    printed = json.loads(capsys.readouterr().out)
    written = json.loads((tmp_path / f"{name}.json").read_text(encoding="utf-8"))
    assert printed == written
    assert written["comparisons"]
    assert "mean nothing" in written["setting"]["size"]
    assert written["setting"]["command"] == f"attnscope study {name} --out DIR --seed 1 --quick"
    assert written["differences"]
    assert any(one["published"] for one in written["comparisons"])
    with (tmp_path / f"{name}-data.csv").open(encoding="utf-8") as stream:
        rows = list(csv.DictReader(stream))
    assert len(rows) == len(written["data"]) > 0
    with (tmp_path / f"{name}.csv").open(encoding="utf-8") as stream:
        assert [row["what"] for row in csv.DictReader(stream)] == [r["what"] for r in written["comparisons"]]
    report = (tmp_path / f"{name}.md").read_text(encoding="utf-8")
    assert "| what | published | where | ours | as published |" in report
    assert "## Where ours differs, and why" in report
    assert ElementTree.parse(tmp_path / f"{name}.svg").getroot().tag.endswith("svg")


def test_that_a_whole_run_is_not_trained_again(tmp_path: Path) -> None:
    changes = {**QUICK, "model.n_layers": "1"}
    first, second = (
        list(train_study("induction", tmp_path / "run", seed=1, device="cpu", changes=changes))
        for _ in range(2)
    )
    assert [event.n_done for event in first] == [1, 2, 3, 4]
    assert second == []
    assert [step for step, _ in checkpoints_of(tmp_path / "run")] == [0, 1, 2, 3, 4]


TREE = """# text = the cat sees the dog
1\tthe\t_\tDET\t_\t_\t2\tdet\t_\t_
2\tcat\t_\tNOUN\t_\t_\t3\tnsubj\t_\t_
3\tsees\t_\tVERB\t_\t_\t0\troot\t_\t_
4\tthe\t_\tDET\t_\t_\t5\tdet\t_\t_
5\tdog\t_\tNOUN\t_\t_\t3\tobj\t_\t_

"""


def test_that_roles_of_another_corpus_follow_its_trees(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pairs, trees = tmp_path / "pairs.tsv", tmp_path / "trees.conllu"
    pairs.write_text("the cat sees the dog\tle chat voit le chien\n" * 4, encoding="utf-8")
    trees.write_text(TREE, encoding="utf-8")
    options = ("--out", str(tmp_path / "out"), "--quick", "--device", "cpu", "--json")
    assert cli.main(["study", "roles", *options, "--corpus", str(pairs), "--conllu", str(trees)]) == 0
    found = json.loads(capsys.readouterr().out)
    whats = [one["what"] for one in found["comparisons"]]
    assert any(what.startswith("verb → object") for what in whats)
    assert any("BLEU within" in what for what in whats)
    assert found["columns"][-1] == "BLEU"
    encoder = [row for row in found["data"] if row[0] == "encoder" and not row[1]]
    assert encoder
    assert all(isinstance(row[-1], float) for row in encoder)
    assert "pairs.tsv" in found["setting"]["texts"]


def test_that_studies_are_listed_and_wrong_calls_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["study"]) == 0
    out = capsys.readouterr().out
    assert all(name in out for name in NAMES)
    assert cli.main(["study", "--json"]) == 0
    assert [card["name"] for card in json.loads(capsys.readouterr().out)] == list(NAMES)
    for wrong, said in (
        (["alchemy", "--out", str(tmp_path)], "no study"),
        (["collapse"], "--out"),
        (["induction", "--out", str(tmp_path), "--model", "stories"], "does not use --model"),
        (["flow", "--out", str(tmp_path), "--quick", "--model", "stories"], "word by word"),
    ):
        assert cli.main(["study", *wrong]) == 2
        assert said in capsys.readouterr().err


@pytest.mark.parametrize("path", sorted((resources_folder() / "recipes" / "studies").glob("*.toml")))
def test_that_the_recipe_of_a_study_is_sound_and_explains_itself(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    is_of_a_task = 'kind = "task"' in text
    recipe = parse_recipe(text, overrides=None if is_of_a_task else {"data.path": "texts"})
    assert recipe.watch
    assert recipe.training.n_steps >= 100
    assert any(line.startswith("# Watch: ") for line in text.splitlines())
