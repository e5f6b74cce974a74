"""A head's projections, against loops in float64 over a slow Transformer."""

import math
from pathlib import Path

import numpy as np
import pytest
from hf_folders import make, save_folder
from slow_transformer import SlowDecoder
from tiny_models import SENTENCE, target_of, tiny_model

from attnscope.analysis import ask_model
from attnscope.errors import UserError
from attnscope.fields import with_values
from attnscope.models import load
from attnscope.questions import QUESTIONS
from attnscope.records import HeadRef

QUESTION = QUESTIONS["projections"]


@pytest.mark.parametrize("head", [0, 1, 3])
def test_that_rows_and_norms_equal_a_slow_float64_version(head: int) -> None:
    model = tiny_model("decoder")
    found = ask_model(QUESTION, model, SENTENCE, head=HeadRef(stack="decoder", layer=1, head=head))
    slow = SlowDecoder(model).run(model.encode(SENTENCE).source.ids)
    for k, name in enumerate(("q", "k", "v")):
        expected = getattr(slow, name)[1, head]
        np.testing.assert_allclose(found.cells[k].values, expected, rtol=1e-4, atol=1e-5)
        assert found.cells[k].rows == ("<s>", *SENTENCE.split())
        lengths = [math.sqrt(sum(float(one) ** 2 for one in row)) for row in expected]
        assert found.charts[0].series[k].ys.tolist() == pytest.approx(lengths, rel=1e-4)
        column = [row[k + 1] for row in found.tables[0].rows]
        assert column == pytest.approx(lengths, rel=1e-4)
    values = [row[3] for row in found.tables[0].rows]
    piece = found.tables[0].rows[int(np.argmax(values))][0]
    assert f"the longest value is that of “{piece}” ({max(values):.3g})" in found.sentence
    assert f"decoder L1H{head} maps each token to three rows of 4 numbers" in found.sentence


def test_that_cross_attention_names_both_texts() -> None:
    form = "encoder-decoder"
    head = HeadRef(stack="cross", layer=0, head=0)
    found = ask_model(QUESTION, tiny_model(form), SENTENCE, target_of(form), head=head)
    assert found.cells[0].rows[1:] == tuple(target_of(form).split())
    assert found.cells[1].rows[:-1] == found.cells[2].rows[:-1] == tuple(SENTENCE.split())
    assert [table.columns for table in found.tables] == [("token", "‖q‖"), ("token", "‖k‖", "‖v‖")]
    assert [row[0] for row in found.tables[1].rows] == [*SENTENCE.split(), "</s>"]


def test_that_maps_show_as_many_tokens_as_chosen_and_the_table_all() -> None:
    options = with_values(QUESTION.options, {"n_shown": 4})
    found = ask_model(QUESTION, tiny_model("encoder"), SENTENCE, options=options)
    assert found.cells[0].values.shape == (4, 4)
    assert found.cells[0].note == "first 4 of 8 tokens"
    assert len(found.charts[0].series[0].xs) == 4
    assert len(found.tables[0].rows) == 8


def test_that_a_model_of_the_library_is_asked_too(tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    model = load(save_folder(tmp_path / "llama", *make("llama")), "cpu")
    found = ask_model(QUESTION, model, "the animal said it")
    n_tokens = len(model.encode("the animal said it").source)
    assert found.cells[0].values.shape == found.cells[1].values.shape == (n_tokens, 8)
    assert "decoder L0H0" in found.sentence


def test_that_a_model_without_a_stack_of_heads_is_refused() -> None:
    cells = {"n_heads": 2, "n_kv_heads": 2, "body": "gru"}
    with pytest.raises(UserError, match="recurrent"):
        ask_model(QUESTION, tiny_model("encoder-decoder", **cells), SENTENCE, target_of("encoder-decoder"))
