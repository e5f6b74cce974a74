"""Where the next run is written: what a person chose stays, what was made up follows the recipe."""

from pathlib import Path

import pytest

from attnscope import paths
from attnscope.viewmodels.training import RecipeDraft, RunPlace


def test_that_a_chosen_folder_stays_but_for_the_one_of_the_run_that_is_shown(private_folders: Path) -> None:
    told: list[str] = []
    recipe = RecipeDraft(lambda: None)
    place = RunPlace(recipe, lambda: told.append(place.folder))
    recipe.take("a = 1\n", "first")
    place.offer("")
    first = str(paths.runs_folder() / "first")
    assert (place.folder, told) == (first, [first])
    place.choose("  /mine/run ")
    assert (place.folder, told[-1]) == ("/mine/run", "/mine/run")
    recipe.take("a = 2\n", "second")
    second = str(paths.runs_folder() / "second")
    place.offer("/another")
    assert place.folder == "/mine/run"
    place.offer("/mine/run")  # it is the run that is shown: another recipe is no part of it
    assert place.folder == second
    place.stand_at("/opened")
    place.offer("/another")
    assert (place.folder, told[-1]) == ("/opened", second)  # nobody is told where it stands
    place.stand_at("")
    place.offer("/another")
    assert place.folder == second
    place.choose("  ")
    assert (place.folder, place.settle(), place.folder) == ("", second, second)


def test_that_a_folder_holds_a_run_where_its_recipe_lies(private_folders: Path, tmp_path: Path) -> None:
    place = RunPlace(RecipeDraft(lambda: None), lambda: None)
    assert not place.holds_run
    place.choose(str(tmp_path))
    assert not place.holds_run
    (tmp_path / "recipe.toml").write_text("", encoding="utf-8")
    assert place.holds_run


@pytest.mark.parametrize("name", ["x" * 1000, "none/" + "é" * 150, "a\0b", "y/" * 3000, "file/below"])
def test_that_a_folder_that_cannot_be_is_told_while_it_is_typed(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").write_text("")
    place = RunPlace(RecipeDraft(lambda: None), lambda: None)
    place.choose(str(tmp_path / name))
    assert not place.holds_run
    assert place.problem
    place.choose(str(tmp_path / "new"))
    assert place.problem == ""
    place.choose("")
    assert place.problem == ""
