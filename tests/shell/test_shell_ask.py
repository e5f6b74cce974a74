"""A question is one file: window, command line, Python, palette, help and export find it there."""

import csv
import importlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from added_files import look_also_in
from questions_added import LETTERS

import attnscope as at
from attnscope import questions
from attnscope.cli import main as cli
from attnscope.errors import UserError
from attnscope.paths import resources_folder
from attnscope.records import Answer, NumberTable
from attnscope.schemes import schemes_of
from attnscope.viewmodels import read_help

TEXT = ("--text", "the cat", "--target", "le chat")


@pytest.fixture
def letters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A question in a file of another folder, which stands beside the program's own for one test."""
    folder = tmp_path / "questions"
    folder.mkdir()
    (folder / "letters.py").write_text(LETTERS)
    look_also_in(folder, questions, monkeypatch)
    importlib.invalidate_caches()
    for name, question in schemes_of("attnscope.questions", questions.Question).items():
        if name not in questions.QUESTIONS:
            monkeypatch.setitem(questions.QUESTIONS, name, question)
    yield "letters"
    sys.modules.pop("attnscope.questions.letters")


def test_that_a_question_of_one_file_is_asked_from_python(
    letters: str, tiny_model: str, tmp_path: Path
) -> None:
    model = at.load(tiny_model)
    found = at.ask(letters, model, "the cat", "le chat", least=3, order="size")
    assert found.sentence == "2 tokens have 7 letters."
    assert repr(found) == "Letters: 2 tokens have 7 letters."
    assert found.tables[0].rows == (("<s>", 3.0), ("chat", 4.0))
    np.testing.assert_array_equal(found.maps[0].values, [[3, 4]])
    assert found.charts[0].series[0].ys.tolist() == [3, 4]
    drawn = found.save(tmp_path / "letters.svg").read_text()
    assert "Letters" in drawn
    assert "2 tokens have 7 letters" in drawn
    arrays = np.load(found.save(tmp_path / "letters.npz"))
    assert arrays["map_0"].tolist() == [[3, 4]]
    assert arrays["table_0_1"].tolist() == [3, 4]
    rows = list(csv.reader(found.save(tmp_path / "letters.csv").read_text().splitlines()))
    assert ["Tokens", "chat", "letters", "4", "", ""] in rows
    again = at.load_figure(found.save(tmp_path / "letters.figure.json"))
    assert again.spec.tables == found.tables
    assert again.save(tmp_path / "again.svg").read_text() == drawn
    with pytest.raises(UserError, match="least is 9"):
        at.ask(letters, model, "the cat", least=9)
    with pytest.raises(UserError, match=r"no question 'lettres'.*Did you mean letters"):
        at.ask("lettres", model, "the cat")
    with pytest.raises(UserError, match="an object of type str"):
        at.ask(letters, tiny_model, "the cat")


def test_that_the_command_line_lists_explains_and_asks_it(
    letters: str, tiny_model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def said(*arguments: str) -> str:
        assert cli.main(["ask", *arguments]) == 0
        return capsys.readouterr().out

    assert "letters" in said()
    assert "how many letters each token has" in said()
    assert "--set least=1   The fewest letters that count" in said("Letters")
    assert {one["name"] for one in json.loads(said("--json"))} == questions.QUESTIONS.keys()
    asked = (letters, tiny_model, *TEXT)
    assert said(*asked).startswith("3 tokens have 9 letters.\n")
    told = json.loads(said(*asked, "--set", "order=by size", "--json"))
    assert told["options"] == {"least": 1, "order": "size", "is_log": False}
    assert told["tables"][0]["rows"][0] == ["le", 2.0]
    assert told["charts"][0]["series"][0]["y"] == [2, 3, 4]
    assert told["maps"][0]["columns"] == ["le", "<s>", "chat"]
    out = tmp_path / "letters.pdf"
    assert "3 tokens have 9 letters" in said(*asked, "-o", str(out), "--caption")
    assert out.read_bytes().startswith(b"%PDF")


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("residual-strem",), "Did you mean residual-stream"),
        (("residual-stream", "MODEL"), "at least one word after --text"),
        (("residual-stream", "MODEL", *TEXT, "--set", "colour=red"), "no setting 'colour'"),
        (("residual-stream", "MODEL", *TEXT, "--set", "stack"), "has no value"),
        (("residual-stream", "MODEL", *TEXT, "--head", "encoder:L9H9"), "no head L9H9"),
    ],
)
def test_that_what_cannot_be_asked_is_refused_in_one_line(
    arguments: tuple[str, ...], why: str, tiny_model: str, capsys: pytest.CaptureFixture[str]
) -> None:
    given = [tiny_model if one == "MODEL" else one for one in arguments]
    assert cli.main(["ask", *given]) == 2
    assert why in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "without"),
    [
        (("ask",), "the name of a question"),
        (("ask", "surprise"), "a model"),
        (("ask", "residual-stream", "MODEL", *TEXT), "--output"),
        (("lab",), "the name of a lab"),
        (("lab", "Scaling by √d"), "--out"),
        (("lab", "Scaling by √d", "-o", "FILE"), ""),
    ],
)
def test_that_options_of_a_page_that_is_not_drawn_are_told(
    arguments: tuple[str, ...],
    without: str,
    tiny_model: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    stand_for = {"MODEL": tiny_model, "FILE": str(tmp_path / "x.csv")}
    given = [stand_for.get(one, one) for one in arguments]
    assert cli.main([*given, "--size", "double", "--dpi", "150"]) == 0
    flags = ("--dpi", "--size") if without else ()
    told = [f"attnscope: {flag} has no effect without {without}." for flag in flags]
    assert [line for line in capsys.readouterr().err.splitlines() if "effect" in line] == told


def test_that_the_help_has_it(letters: str) -> None:
    (page,) = (page for page in read_help(resources_folder() / "help") if page.name == "questions")
    assert "Letters" in page.headings
    assert "How many letters each token has (Nobody 1999). Needs a model that reads text." in page.text
    assert "- `order`: The order (one of text, size; at first text)." in page.text


def test_that_rows_of_a_table_have_a_cell_for_each_column() -> None:
    with pytest.raises(ValueError, match="2 cells under 1 columns"):
        NumberTable(title="", columns=("a",), rows=(("x", 1.0),))
    assert Answer(sentence="It is so.").charts == ()


def test_that_what_a_table_says_last_is_whole_and_names_are_cut_with_a_sign(
    letters: str, tiny_model: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    said, name = "7 states of 64 numbers, one for each source token", "a" * 30
    table = NumberTable(title="Steps", columns=("step", "now"), rows=((name, said), ("b", "c")))
    answer = Answer(sentence="It is so.", tables=(table,))
    monkeypatch.setattr(questions.QUESTIONS[letters], "answer", lambda reading, options: answer)
    assert cli.main(["ask", letters, tiny_model, *TEXT]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[-2] == f"{'a' * 23}…    {said}"
    assert lines[-1] == f"{'b':<26}  c"
