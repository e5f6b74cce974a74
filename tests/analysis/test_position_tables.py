import numpy as np
import pytest
from tiny_models import tiny_model

from attnscope.analysis.positions import NAMES, position_tables
from attnscope.errors import UserError


def test_that_there_is_one_table_for_each_name_in_order() -> None:
    tables = position_tables(NAMES, 12, 8, tiny_model("decoder"))
    assert tuple(table.name for table in tables) == NAMES
    for table in tables:
        assert table.matrix.shape[0] == table.cosine.shape[0] == len(table.by_offset) == 12


def test_that_similarity_equals_a_slow_version() -> None:
    (table,) = position_tables(["sinusoidal"], 10, 6)
    x = table.matrix.astype(np.float64)
    for i in range(10):
        for j in range(10):
            expected = x[i] @ x[j] / np.linalg.norm(x[i]) / np.linalg.norm(x[j])
            assert table.cosine[i, j] == pytest.approx(expected, abs=1e-6)
    for offset in range(10):
        dots = [x[i] @ x[i + offset] for i in range(10 - offset)]
        assert table.dot_by_offset[offset] == pytest.approx(np.mean(dots), abs=1e-5)


@pytest.mark.parametrize("name", ["sinusoidal", "rotary"])
def test_that_similarity_depends_on_the_offset_alone(name: str) -> None:
    (table,) = position_tables([name], 20, 16)
    for offset in range(20):
        diagonal = table.cosine.diagonal(offset)
        np.testing.assert_allclose(diagonal, table.by_offset[offset], atol=1e-5)


def test_that_binary_zero_has_no_direction() -> None:
    (table,) = position_tables(["binary"], 4, 3)
    assert table.matrix.tolist() == [[0, 0, 0], [1, 0, 0], [0, 1, 0], [1, 1, 0]]
    assert np.isnan(table.cosine[0]).all()
    assert table.by_offset[1] == pytest.approx((0 + 2**-0.5) / 2)


def test_that_untrained_positions_say_so_and_do_not_change() -> None:
    first, again = (position_tables(["learned"], 5, 4)[0] for _ in range(2))
    assert "Untrained" in first.note
    np.testing.assert_array_equal(first.matrix, again.matrix)


@pytest.mark.parametrize("form", ["decoder", "encoder", "encoder-decoder"])
def test_that_a_models_own_table_is_its_weights(form: str) -> None:
    model = tiny_model(form)
    (table,) = position_tables(["model"], 99, 2, model)
    own = model.own.module.decoder_embedding if form == "decoder" else model.own.module.encoder_embedding
    np.testing.assert_array_equal(table.matrix, own.positions.weight.detach().numpy())
    assert "no more than 24" in table.note


def test_that_models_without_a_table_show_what_they_compute() -> None:
    rotary = position_tables(["model"], 6, 99, tiny_model("decoder", position="rotary"))[0]
    assert rotary.matrix.shape == (6, 4)
    assert "one head" in rotary.note
    assert position_tables(["model"], 6, 99, tiny_model("decoder", position="sinusoidal"))[
        0
    ].matrix.shape == (
        6,
        16,
    )
    with pytest.raises(UserError, match="no positional encoding"):
        position_tables(["model"], 6, 8, tiny_model("decoder", position="none"))


@pytest.mark.parametrize(
    ("name", "n", "d"),
    [
        ("learned", 0, 4),
        ("learned", 5000, 4),
        ("binary", 4, 0),
        ("rotary", 4, 5),
        ("odd", 4, 4),
        ("model", 4, 4),
    ],
)
def test_that_impossible_wishes_are_refused(name: str, n: int, d: int) -> None:
    with pytest.raises(UserError):
        position_tables([name], n, d)
