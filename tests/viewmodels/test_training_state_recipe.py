"""The text of a recipe while it is edited."""

import tomllib
from pathlib import Path

import pytest

from attnscope.errors import LoadError
from attnscope.viewmodels.training import (
    RecipeDraft,
    check_recipe_text,
    line_of_value,
    list_recipes,
    read_recipe_text,
    recipe_value,
    watched_sentences,
    with_recipe_value,
)

RECIPE = """# a recipe
[model]
n_heads = 4  # four

[data]
kind = "text"
path = "old.txt"

[[watch]]
text = "the cat sat"
"""


def nothing() -> None:
    pass


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("a = 1\nb\nc = 2\n", 2),
        ("a = 1\na = 2\n", 2),
        ("[x\n", 1),
        ("a = [1,\n", 1),
        ('a = "x\n', 1),
        ("a =", 1),
    ],
)
def test_that_a_fault_names_its_line(text: str, line: int) -> None:
    problem = check_recipe_text(text)
    assert problem is not None
    assert problem.line == line
    assert problem.sentence.startswith(f"Line {line}: ")
    assert "at line" not in problem.sentence


@pytest.mark.parametrize(("text", "advice"), [("= 3\n", "[training]"), ("kind = task", 'kind = "task"')])
def test_that_a_fault_that_toml_leaves_open_comes_with_what_to_write(text: str, advice: str) -> None:
    problem = check_recipe_text(text)
    assert problem is not None
    assert advice in problem.sentence


def test_that_good_toml_has_no_problem() -> None:
    assert check_recipe_text(RECIPE) is None
    assert check_recipe_text("") is None


@pytest.mark.parametrize(
    "value", ["new.txt", 'a "quoted" name', "C:\\data\\text.txt", "données/é.txt", "tab\tname"]
)
def test_that_setting_a_value_changes_only_its_line(value: str) -> None:
    changed = with_recipe_value(RECIPE, "data", "path", value)
    assert tomllib.loads(changed)["data"] == {"kind": "text", "path": value}
    before, after = RECIPE.splitlines(), changed.splitlines()
    assert [i for i, (a, b) in enumerate(zip(before, after, strict=True)) if a != b] == [6]


def test_that_a_missing_key_or_section_is_added() -> None:
    assert (
        tomllib.loads(with_recipe_value("[data]\nkind = 'text'\n", "data", "path", "p"))["data"]["path"]
        == "p"
    )
    assert tomllib.loads(with_recipe_value("a = 1", "data", "path", "p")) == {"a": 1, "data": {"path": "p"}}
    assert tomllib.loads(with_recipe_value("", "data", "path", "p")) == {"data": {"path": "p"}}


def test_that_values_and_sentences_are_read() -> None:
    assert recipe_value(RECIPE, "model", "n_heads") == 4
    assert recipe_value(RECIPE, "model", "none") is None
    assert recipe_value("broken = ", "model", "n_heads") is None
    assert watched_sentences(RECIPE) == (("the cat sat", None),)
    assert watched_sentences('[[watch]]\ntext = "a"\ntarget = "b"\n') == (("a", "b"),)
    assert watched_sentences('[[watch]]\ntext = "a"\ntarget = ""\n') == (("a", None),)  # as runs write it
    assert watched_sentences("watch = 3") == ()
    assert watched_sentences("broken = ") == ()
    assert line_of_value(RECIPE, "data", "path") == 7
    assert line_of_value(RECIPE, "model", "path") is None


def test_that_recipes_are_listed_by_name(tmp_path: Path) -> None:
    for name in ("b.toml", "a.toml", "notes.txt"):
        (tmp_path / name).write_text("", encoding="utf-8")
    assert [recipe.name for recipe in list_recipes(tmp_path)] == ["a", "b"]
    assert list_recipes(tmp_path / "missing") == ()


@pytest.mark.parametrize(
    ("content", "kind"), [(b"a = '\xff'", "not-utf-8"), (b"#" * 1_000_001, "too-large"), (None, "missing")]
)
def test_that_what_is_no_recipe_is_refused(tmp_path: Path, content: bytes | None, kind: str) -> None:
    path = tmp_path / "x.toml"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(LoadError, match=r"x\.toml") as caught:
        read_recipe_text(path)
    assert caught.value.kind == kind


def test_that_edits_survive_a_look_at_another_recipe(tmp_path: Path) -> None:
    first, second = tmp_path / "a.toml", tmp_path / "b.toml"
    first.write_text("a = 1\n", encoding="utf-8")
    second.write_text("b = 1\n", encoding="utf-8")
    draft = RecipeDraft(nothing)
    draft.open(str(first))
    draft.edit("a = 2\n")
    draft.open(str(second))
    assert not draft.is_changed
    draft.open(str(first))
    assert draft.text == "a = 2\n"
    assert draft.is_changed
    draft.revert()
    assert draft.text == "a = 1\n"
    assert not draft.is_changed


def test_that_a_recipe_that_cannot_be_opened_leaves_the_draft(tmp_path: Path) -> None:
    draft = RecipeDraft(nothing)
    draft.edit("a = 1\n")
    with pytest.raises(LoadError):
        draft.open(str(tmp_path / "missing.toml"))
    assert draft.text == "a = 1\n"


def test_that_a_saved_recipe_belongs_to_its_file(tmp_path: Path) -> None:
    draft = RecipeDraft(nothing)
    draft.edit("a = 1\n")
    path = tmp_path / "mine.toml"
    draft.save(str(path))
    assert path.read_text(encoding="utf-8") == "a = 1\n"
    assert draft.path == str(path)
    assert not draft.is_changed


def test_that_the_blamed_line_is_marked_until_the_next_edit() -> None:
    draft = RecipeDraft(nothing)
    draft.edit(RECIPE)
    draft.mark_blamed_line("The value of model.n_heads is 4.")
    assert draft.marked_line == 3
    draft.edit(RECIPE + "\n")
    assert draft.marked_line is None
