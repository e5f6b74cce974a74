"""What a command is asked to write is looked at before it opens a model."""

import tomllib
from pathlib import Path

import pytest

from attnscope.cli.main import main

TRANSLATOR = "grammar"
pytestmark = [pytest.mark.qt, pytest.mark.usefixtures("qapp")]

PAIR = ("--clean", "the cat", "--corrupt", "the dog")


@pytest.fixture(autouse=True)
def _no_model(monkeypatch) -> None:
    monkeypatch.setattr("attnscope.models.opening.load", lambda *_args, **_options: pytest.fail("opened"))
    monkeypatch.setattr("attnscope.models.load", lambda *_args, **_options: pytest.fail("opened"))


@pytest.mark.parametrize(
    "shell",
    [
        ("curve", TRANSLATOR, "-o"),
        ("importance", TRANSLATOR, "-o"),
        ("attribute", TRANSLATOR, "--text", "the cat", "-o"),
        ("patch", TRANSLATOR, *PAIR, "-o"),
        ("figure", TRANSLATOR, "--text", "the cat", "-o"),
        ("curve", TRANSLATOR, "--csv"),
        ("measure", "stories", "--text", "hello", "--csv"),
        ("translate", TRANSLATOR, "--text", "the cat", "-o"),
        ("trace", "stories", "--text", "hello", "-o"),
        ("generate", "stories", "--text", "hello", "-o"),
        ("bench", "--json"),
    ],
)
def test_that_a_folder_that_is_not_there_is_told_at_once(shell, tmp_path: Path, capsys) -> None:
    assert main([*shell, str(tmp_path / "none" / "out.svg")]) == 2
    shown = capsys.readouterr()
    assert "none does not exist" in shown.err
    assert shown.out == ""


@pytest.mark.parametrize(
    ("shell", "name", "said"),
    [
        (("curve", TRANSLATOR, "-o"), "curve.xyz", "'.xyz' is not a format for figures"),
        (("patch", TRANSLATOR, *PAIR, "--csv"), "", "is a folder, not the name of a file"),
        (("attribute", TRANSLATOR, "--text", "the cat", "-o"), "", "is a folder. Expected"),
        (("handout", "talk.attnscope", "-o"), "talk.pdf/", "talk.pdf/' is a folder, not the name of a file"),
        (("curve", TRANSLATOR, "-o"), "curve.svg/", "leave out the / at its end"),
        (("figure", TRANSLATOR, "--text", "the cat", "-o"), "cat.svg/", "Leave out the / at its end"),
    ],
)
def test_that_a_name_that_cannot_be_written_is_told_at_once(
    shell, name, said, tmp_path: Path, capsys
) -> None:
    assert main([*shell, str(tmp_path / name) + "/" * name.endswith("/")]) == 2
    assert said in capsys.readouterr().err


def test_that_a_study_looks_at_its_folder_and_its_trees_first(tmp_path: Path, monkeypatch, capsys) -> None:
    (tmp_path / "file").write_text("")
    assert main(["study", "roles", "--quick", "--out", str(tmp_path / "file" / "out")]) == 2
    assert "cannot be made" in capsys.readouterr().err
    shell = ["study", "syntax", "--quick", "--out", str(tmp_path), "--conllu", str(tmp_path / "none.conllu")]
    assert main([*shell, "--corpus", str(tmp_path / "file")]) == 2
    assert "none.conllu cannot be read" in capsys.readouterr().err


def test_that_what_counts_bleu_is_installed_and_the_old_extra_is_known() -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8"))[
        "project"
    ]
    assert any(name.startswith("sacrebleu") for name in project["dependencies"])
    assert project["optional-dependencies"]["bleu"] == []
