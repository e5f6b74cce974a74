"""What a recipe costs, asked while it is typed."""

from pathlib import Path

import pytest
from worker_tools import ask

from attnscope.paths import resources_folder
from attnscope.records import BatchShown, PlanRecipe, RecipePlanned, ShowBatch
from attnscope.workers import Engine

RECIPE = """
[model]
d_model = 16
n_layers = 1
n_heads = 2
[data]
kind = "text"
path = "{path}"
[objective]
kind = "causal"
[training]
n_steps = 2
"""


def _engine() -> Engine:
    return Engine(lambda error, what: None)


def _planned(path: str, base_folder: Path, out: str = "") -> RecipePlanned:
    recipe = RECIPE.format(path=path)
    request = PlanRecipe(
        number=1, recipe=recipe, out=out, device="cpu", base_folder=str(base_folder), run_folders=()
    )
    *_, last = ask(_engine(), request)
    assert isinstance(last, RecipePlanned)
    return last


@pytest.mark.parametrize("path", ["none.txt", "x" * 1000, "."])
def test_that_data_that_is_no_file_is_told_while_the_recipe_is_typed(tmp_path: Path, path: str) -> None:
    told = _planned(path, tmp_path)
    assert told.plan is None
    assert path[:40] in told.problem or str(tmp_path) in told.problem


@pytest.mark.parametrize("out", ["", "x" * 1000, "a\0b"])
def test_that_a_recipe_is_planned_whatever_its_folder_is_called(tmp_path: Path, out: str) -> None:
    (tmp_path / "text.txt").write_text("some words\n" * 20)
    plan = _planned("text.txt", tmp_path, out).plan
    assert plan is not None
    assert plan.seconds is not None


def test_that_what_is_read_first_is_shown_and_data_that_is_no_file_is_told(tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text("some words\n" * 20)
    for path, n_rows in (("text.txt", 16), ("none.txt", 0)):
        request = ShowBatch(number=3, recipe=RECIPE.format(path=path), base_folder=str(tmp_path))
        (told,) = ask(_engine(), request)
        assert isinstance(told, BatchShown)
        assert told.number == 3
        if n_rows:
            assert told.batch is not None
            assert told.batch.n_rows == n_rows
            assert [cell.told for cell in told.batch.rows[0].cells][:-1] == [
                cell.piece for cell in told.batch.rows[0].cells
            ][1:]
        else:
            assert told.batch is None
            assert path in told.problem


@pytest.mark.parametrize("name", ["shakespeare-spans", "stories-masked", "stories"])
def test_that_of_a_recipe_without_its_text_the_sample_text_is_read(name: str, tmp_path: Path) -> None:
    recipe = (resources_folder() / "recipes" / f"{name}.toml").read_text(encoding="utf-8")
    (told,) = ask(_engine(), ShowBatch(number=3, recipe=recipe, base_folder=str(tmp_path)))
    assert isinstance(told, BatchShown)
    assert told.is_sample
    assert told.batch is not None
    pieces = {cell.piece for row in told.batch.rows for cell in (*row.source, *row.cells)}
    wanted = {"shakespeare-spans": "<extra_0>", "stories-masked": "<mask>", "stories": "<s>"}
    assert wanted[name] in pieces
    (other,) = ask(_engine(), ShowBatch(number=4, recipe='[data]\nkind = "pairs"\n'))
    assert isinstance(other, BatchShown)
    assert (other.batch, other.is_sample) == (None, False)
