"""`attnscope models`: every model that comes with the program, with what it is for."""

import json

import pytest

import attnscope
from attnscope.cli import main as cli
from attnscope.kept_models import kept_model
from attnscope.paths import resources_folder


def listed(capsys: pytest.CaptureFixture[str]) -> list[dict[str, object]]:
    assert cli.main(["models", "--json"]) == 0
    found: list[dict[str, object]] = json.loads(capsys.readouterr().out)
    return found


def test_that_every_model_is_listed_with_what_it_is_for(capsys: pytest.CaptureFixture[str]) -> None:
    rows = listed(capsys)
    models = {row["name"]: row for row in rows if row["kind"] == "model"}
    assert list(models) == attnscope.demo_models()
    for name, row in models.items():
        assert row["shows"] == kept_model(str(name)).shows != ""
        assert (
            row["n_bytes"] == (resources_folder() / "models" / str(name) / "model.safetensors").stat().st_size
        )
    runs = {row["name"]: row["shows"] for row in rows if row["kind"] == "run"}
    assert runs["copy"] == "Copying a row of letters: the simplest alignment there is."
    assert str(runs["reverse-lamb"]).endswith("however large its gradient is.")
    assert all(len(str(shows)) > 20 for shows in runs.values())


@pytest.mark.parametrize("kind", ["model", "run"])
def test_that_what_is_listed_opens_by_its_name(kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    name = [row["name"] for row in listed(capsys) if row["kind"] == kind][-1 if kind == "run" else 1]
    assert attnscope.load(str(name)).info.name == name


def test_that_the_list_is_for_people_too(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["models"]) == 0
    told = capsys.readouterr().out
    assert kept_model("stories").shows in told
    assert "attnscope open NAME" in told
