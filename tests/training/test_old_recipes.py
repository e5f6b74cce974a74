"""Which lines of an old recipe are left out, and which of other sections stay."""

import pytest

from attnscope.training import mended_recipe

OLD = """[model]
form = "encoder-decoder"
body = "{body}"
activation = "relu"  # does nothing

[optimizer]
activation = "not of the model"
"""


@pytest.mark.parametrize("body", ["rnn", "gru", "lstm"])
def test_that_a_key_is_left_out_under_model_alone(body: str) -> None:
    text = OLD.format(body=body)
    mended, note = mended_recipe(text)
    assert mended == text.replace('activation = "relu"  # does nothing\n', "")
    assert note == "Removed from the recipe, since the body does not use it: model.activation = relu."


def test_that_a_begun_run_on_a_text_goes_on_with_the_lines_it_held_out() -> None:
    mended, note = mended_recipe('[data]  # a text\nkind = "text"\n')
    assert (mended, note) == ('[data]  # a text\nheld_out_by = "lines"\nkind = "text"\n', "")
    for text in (mended, '[data]\nkind = "pairs"\n', '[model]\nkind = "text"\n'):
        assert mended_recipe(text) == (text, "")


def test_that_a_begun_run_of_a_task_goes_on_without_a_path_that_it_did_not_read() -> None:
    text = '[data]\nkind = "task"\npath = "x.txt"\n[training]\npath = 1\n'
    assert mended_recipe(text) == (text.replace('path = "x.txt"\n', ""), "")


def test_that_the_recipe_of_a_transformer_and_one_that_is_none_stay() -> None:
    for text in (OLD.format(body="transformer"), "[model", "", "model = 3\n"):
        assert mended_recipe(text) == (text, "")
