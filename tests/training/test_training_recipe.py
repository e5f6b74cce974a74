"""Recipes: every key has its place and its range, and errors name both."""

from pathlib import Path

import pytest

from attnscope.counting import shell_line
from attnscope.errors import LoadError, RecipeError
from attnscope.training import Recipe, differences, parse_recipe, read_recipe, tables_of, write_recipe
from attnscope.viewmodels.training import RecipeDraft, watched_head

SMALL = '[data]\nkind = "task"\ntask = "copy"\n[objective]\nkind = "translation"\n[training]\nn_steps = 5\n'


def test_that_the_form_and_the_vocabulary_follow_from_objective_and_task() -> None:
    recipe = parse_recipe(SMALL)
    assert recipe.model.form == "encoder-decoder"
    assert recipe.model.vocab_size == 5 + 27
    assert recipe.tokenizer.kind == "words"


def test_that_a_written_recipe_reads_back_as_the_same_recipe() -> None:
    text = SMALL + '[[watch]]\ntext = "a \\"b\\" \\\\ c\\n\\u0007é"\ntarget = "d"\n'
    recipe = parse_recipe(text, overrides={"data.max_words": "7", "model.dropout": "0.25"})
    assert parse_recipe(write_recipe(recipe)) == recipe


def test_that_overrides_win_and_keep_the_type_of_toml() -> None:
    recipe = parse_recipe(SMALL, overrides={"training.n_steps": "9", "training.name": "my model"})
    assert recipe.training.n_steps == 9
    assert recipe.training.name == "my model"


@pytest.mark.parametrize("section", ["", "training.", "model."])
def test_that_a_name_of_thousands_of_letters_is_not_repeated_whole(section: str) -> None:
    name = "x" * 5_000
    with pytest.raises(RecipeError, match="xxx") as told:
        parse_recipe(SMALL, overrides={f"{section}{name}": "1"})
    assert len(str(told.value)) < 1_500
    with pytest.raises(RecipeError, match="xxx") as told:
        parse_recipe(f"{SMALL}\n[{section}{name}]\n")
    assert len(str(told.value)) < 1_500


def test_that_a_relative_path_is_taken_from_the_folder_of_the_recipe(tmp_path: Path) -> None:
    text = '[data]\nkind = "text"\npath = "a.txt"\n[objective]\nkind = "causal"\n[training]\nn_steps = 1\n'
    assert parse_recipe(text, base_folder=tmp_path).data.path == str(tmp_path / "a.txt")
    overridden = parse_recipe(text, base_folder=tmp_path, overrides={"data.path": "b.txt"})
    assert overridden.data.path == str(Path("b.txt").absolute())


TEXT = '[data]\nkind = "text"\nabout = "plays"\n[objective]\nkind = "causal"\n[training]\nn_steps = 1\n'


def test_that_a_tilde_is_the_home_folder_which_no_shell_puts_there_behind_an_equals_sign(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    text = TEXT.replace('about = "plays"', 'path = "~/a.txt"')
    assert parse_recipe(text, base_folder=tmp_path / "x").data.path == str(tmp_path / "a.txt")
    given = parse_recipe(TEXT, overrides={"data.path": "~/b.txt", "start.from": "~/model"})
    assert given.data.path == str(tmp_path / "b.txt")
    assert given.start.source == str(tmp_path / "model")


def test_that_what_a_recipe_says_of_its_own_text_is_not_said_of_another() -> None:
    mine = parse_recipe(TEXT, overrides={"data.path": "mine.txt"})
    assert mine.data.about == ""
    told = parse_recipe(TEXT, overrides={"data.path": "mine.txt", "data.about": "my diary"})
    assert told.data.about == "my diary"
    moved = parse_recipe(write_recipe(told), overrides={"data.path": "moved.txt"})
    assert moved.data.about == "my diary", "a run whose text has moved"
    chosen = RecipeDraft(lambda: None)
    chosen.take(TEXT)
    chosen.set_data_path("mine.txt")
    assert parse_recipe(chosen.text).data.about == ""


def test_that_a_file_is_not_given_to_a_task_which_would_not_read_it() -> None:
    with pytest.raises(RecipeError, match=r'mine.tsv" and data.kind "task", which reads no file.*"labelled"'):
        read_recipe("sentiment-pooling", {"data.path": "mine.tsv"})
    assert read_recipe("sentiment-pooling", {"data.path": "a.tsv", "data.kind": "labelled"}).data.path


def test_that_a_text_or_a_run_in_the_place_of_a_recipe_is_told_what_to_do_with_it(tmp_path: Path) -> None:
    text, run = tmp_path / "my notes.txt", tmp_path / "run"
    text.write_text("Once upon a time.\n" * 9, encoding="utf-8")
    run.mkdir()
    (run / "recipe.toml").write_text(SMALL, encoding="utf-8")
    for given, told in ((text, "train shakespeare --set"), (tmp_path, "--set"), (run, "train --resume")):
        with pytest.raises(LoadError) as caught:
            read_recipe(str(given))
        assert told in str(caught.value)
        assert shell_line([str(run)] if given == run else [f"data.path={given}"]) in str(caught.value)


def test_that_a_path_of_a_recipe_named_relatively_is_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its run folder keeps a copy of the recipe, and lies elsewhere: --resume reads the path from there."""
    monkeypatch.chdir(tmp_path)
    text = '[data]\nkind = "text"\npath = "a.txt"\n[objective]\nkind = "causal"\n[training]\nn_steps = 1\n'
    recipe = parse_recipe(text, base_folder=Path("r.toml").parent)
    assert recipe.data.path == str(tmp_path / "a.txt")
    assert parse_recipe(write_recipe(recipe), base_folder=tmp_path / "run") == recipe


@pytest.mark.parametrize(
    ("change", "found", "expected"),
    [
        ({"training.n_stepz": "3"}, "training.n_stepz", "n_steps"),
        ({"training.n_steps": "0"}, "training.n_steps is 0", "a whole number from 1"),
        ({"training.n_steps": "true"}, "training.n_steps is True", "a whole number"),
        ({"training.n_steps": "2.5"}, "training.n_steps is 2.5", "a whole number"),
        ({"optimizer.learning_rate": "nan"}, "optimizer.learning_rate is nan", "a number from"),
        ({"optimizer.learning_rate": "inf"}, "optimizer.learning_rate is inf", "a number from"),
        ({"optimizer.kind": "adamm"}, 'optimizer.kind is "adamm"', '"adamw"'),
        ({"schedule.kind": "steps"}, 'schedule.kind is "steps"', '"noam"'),
        ({"data.task": "chess"}, 'data.task is "chess"', "copy"),
        ({"data.kind": "web"}, 'data.kind is "web"', '"pairs"'),
        ({"data.max_words": "0"}, "data.max_words is 0", "a whole number from 1"),
        ({"data.n_digits": "3"}, "data.n_digits", "max_words"),
        ({"objective.kind": "causal"}, "does not go with", '"translation"'),
        ({"tokenizer.kind": "bpe"}, 'tokenizer.kind is "bpe"', '"words"'),
        ({"model.n_heads": "3"}, "model.n_heads is 3", "divisor"),
        ({"model.d_model": "1000000000"}, "model.d_model", "65,536"),
        ({"model.form": "decoder"}, "model.form is set", "objective.kind"),
        ({"model.layers": "2"}, "layers", "n_layers"),
        ({"nonsense": "2"}, "nonsense=2", "section.key=value"),
        ({"watch.text": "2"}, "watch.text=2", "section.key=value"),
    ],
)
def test_that_an_impossible_value_is_named_with_what_was_expected(
    change: dict[str, str], found: str, expected: str
) -> None:
    with pytest.raises(RecipeError) as caught:
        parse_recipe(SMALL, overrides=change)
    assert found in str(caught.value)
    assert expected in str(caught.value)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("[data\n", "not valid TOML"),
        ("data = 3\n" + SMALL.partition("[objective]")[2].replace('kind = "translation"', ""), "[data] is 3"),
        (SMALL + "[surprise]\nx = 1\n", "[surprise]"),
        (SMALL + '[watch]\ntext = "a"\n', "[watch] is a single table"),
        (SMALL.replace("n_steps = 5", ""), "training.n_steps is missing"),
        ("", "data.kind is missing"),
        (
            '[data]\nkind = "text"\n[objective]\nkind = "causal"\n[training]\nn_steps = 1\n',
            "data.path is empty",
        ),
        (
            '[data]\nkind = "text"\npath = "x"\nheld_out_by = "crc32"\n[objective]\nkind = "causal"\n'
            "[training]\nn_steps = 1\n",
            'held_out_by is "crc32"',
        ),
        (
            '[data]\nkind = "text"\npath = "x"\ncareless_share = 0.5\n[objective]\nkind = "causal"\n'
            "[training]\nn_steps = 1\n",
            "careless_share is 0.5",
        ),
        (
            '[data]\nkind = "labelled"\npath = "x"\nrenamed_share = 0.5\n[objective]\n'
            'kind = "classification"\n[training]\nn_steps = 1\n',
            "renamed_share is 0.5",
        ),
        (
            '[data]\nkind = "text"\npath = "x"\n[objective]\nkind = "translation"\n[training]\nn_steps = 1\n',
            "does not go with",
        ),
        ("model = 3\n" + SMALL, "[model] is not a table"),
    ],
)
def test_that_a_wrong_structure_is_a_recipe_error(text: str, found: str) -> None:
    with pytest.raises(RecipeError) as caught:
        parse_recipe(text)
    assert found in str(caught.value)


def _changed(recipe: str, **overrides: str) -> Recipe:
    return parse_recipe(recipe, overrides={k.replace("__", "."): v for k, v in overrides.items()})


def test_that_differences_name_key_old_and_new() -> None:
    lines = differences(_changed(SMALL), _changed(SMALL, optimizer__beta1="0.8", data__max_words="5"))
    assert lines == ("data.max_words: was None, now 5", "optimizer.beta1: was 0.9, now 0.8")


def test_that_what_cannot_change_weights_is_no_difference() -> None:
    other = _changed(SMALL, training__save_every="3", training__name="x", training__evaluate_every="2")
    assert differences(_changed(SMALL), other) == ()
    here, there = (_changed(TEXT, data__path=name) for name in ("a.txt", "elsewhere.txt"))
    assert differences(here, there) == ()


def test_that_more_steps_are_a_difference_only_where_the_schedule_depends_on_them() -> None:
    assert differences(_changed(SMALL), _changed(SMALL, training__n_steps="9"))
    constant = {"schedule__kind": '"constant"'}
    assert not differences(_changed(SMALL, **constant), _changed(SMALL, training__n_steps="9", **constant))


def test_that_every_value_of_a_recipe_is_in_its_tables() -> None:
    tables = tables_of(parse_recipe(SMALL))
    sections = "model tokenizer data objective optimizer schedule training start gates"
    assert set(tables) == set(sections.split())
    assert tables["start"]["from"] == ""
    assert tables["training"]["n_steps"] == 5


HEADED = """
[data]
kind = "task"
task = "copy"

[objective]
kind = "translation"

[training]
n_steps = 1

[[watch]]
text = "a b"
head = "cross:L1H0"
"""


def test_that_a_watched_sentence_names_the_head_to_look_at_first() -> None:
    recipe = parse_recipe(HEADED)
    assert recipe.watch[0].head == watched_head(HEADED) == "cross:L1H0"
    assert parse_recipe(write_recipe(recipe)) == recipe
    assert watched_head(HEADED.partition("[[watch]]")[0]) == watched_head("[[watch]") == ""
    with pytest.raises(RecipeError, match=r"'L one'.*such as cross:L1H0"):
        parse_recipe(HEADED.replace("cross:L1H0", "L one"))
