from pathlib import Path

import numpy as np
import pytest
import torch
from foreign_models import foreign, target_of
from hf_folders import make, save_folder
from tiny_models import tiny_model

from attnscope.analysis import NAMES, position_tables
from attnscope.errors import UserError
from attnscope.models import load


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


def test_that_biases_by_distance_are_those_that_scores_get() -> None:
    """Against the bias of a causal call laid out whole: row of the last query, read backwards."""
    model = tiny_model("decoder", position="t5", n_buckets=8, max_distance=16)
    (table,) = position_tables(["model"], 20, 2, model)
    relative = model.own.module.decoder_relative
    laid_out = relative.bias(20, 20).laid_out[0, :, -1].detach().numpy()  # [n_heads, 20 keys]
    np.testing.assert_array_equal(table.matrix, laid_out[:, ::-1].T)
    assert table.axes == ("head", "tokens back")
    n_heads = table.matrix.shape[1]
    (alibi,) = position_tables(["model"], 5, 2, tiny_model("decoder", position="alibi"))
    expected = [[-back * 2.0 ** (-8 * (h + 1) / n_heads) for h in range(n_heads)] for back in range(5)]
    np.testing.assert_allclose(alibi.matrix, expected, rtol=1e-6)


def test_that_shaws_vectors_are_those_of_keys_back_and_end_with_the_last() -> None:
    model = tiny_model("decoder", position="shaw", max_distance=3)
    (table,) = position_tables(["model"], 6, 2, model)
    offsets = next(p for name, p in model.own.module.named_parameters() if name.endswith("offsets"))
    expected = [offsets[3 - min(back, 3)].tolist() for back in range(6)]
    np.testing.assert_array_equal(table.matrix, np.array(expected, dtype=np.float32))


@pytest.mark.parametrize("kind", ["bert", "llama", "t5", "vit"])
def test_that_a_foreign_model_shows_its_own_positions(kind: str, tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    model = load(save_folder(tmp_path / kind, *make(kind)), "cpu")
    module = model.network.module  # type: ignore[attr-defined]
    (table,) = position_tables(["model"], 5, 2, model)
    match kind:
        case "bert":
            expected = module.bert.embeddings.position_embeddings.weight[:5]
        case "vit":
            expected = module.vit.embeddings.position_embeddings[0, :5]
        case "t5":
            attention = module.encoder.block[0].layer[0].SelfAttention
            expected = attention.compute_bias(5, 5)[0, :, -1].flip(1).T
        case _:
            states = torch.full((1, 1, 5, 8), 8**-0.5)
            cosines, sines = module.model.rotary_emb(states, torch.arange(5)[None])
            half = states[0, 0, :, :4]
            expected = states[0, 0] * cosines[0] + torch.cat((-half, half), dim=1) * sines[0]
    np.testing.assert_allclose(table.matrix, expected.detach().numpy(), atol=1e-6)


def halves_of_sines(n: int, d: int) -> torch.nn.Parameter:
    """As Marian keeps them: all sines, then all cosines."""
    angles = np.arange(n)[:, None] / 10_000.0 ** (np.arange(0, d, 2) / d)
    return torch.nn.Parameter(torch.tensor(np.hstack((np.sin(angles), np.cos(angles))), dtype=torch.float32))


@torch.no_grad()
@pytest.mark.parametrize("family", ["roberta", "opt", "bart", "marian"])
def test_that_a_table_begins_where_the_first_token_of_a_text_reads_it(
    family: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """RoBERTa's begins behind its padding, OPT's and BART's two rows on, Marian's is fixed."""
    model = foreign(family)
    module = model.network.module  # type: ignore[attr-defined]
    if family == "marian":
        table_of = module.model.encoder.embed_positions
        monkeypatch.setitem(table_of._parameters, "weight", halves_of_sines(64, 32))
    read: list[torch.Tensor] = []
    tables = [part for path, part in module.named_modules() if "position" in path.rpartition(".")[2]]
    handle = tables[0].register_forward_hook(lambda _, __, rows: read.append(rows))
    try:
        model.network.run(model.encode("the cat sat on", target_of(family)))
    finally:
        handle.remove()
    (table,) = position_tables(["model"], 4, 2, model)
    np.testing.assert_allclose(
        table.matrix, read[0].reshape(-1, table.matrix.shape[1])[:4].numpy(), atol=1e-6
    )
    assert table.note.startswith("Fixed" if family == "marian" else "Learned")


def test_that_t5s_buckets_are_as_wide_as_its_own_distance_says(tmp_path: Path) -> None:
    model = load(save_folder(tmp_path / "t5", *make("t5")), "cpu")
    attention = model.network.module.encoder.block[0].layer[0].SelfAttention  # type: ignore[attr-defined]
    attention.relative_attention_max_distance = 20
    (table,) = position_tables(["model"], 40, 2, model)
    expected = attention.compute_bias(40, 40)[0, :, -1].flip(1).T
    np.testing.assert_allclose(table.matrix, expected.detach().numpy(), atol=1e-6)


def test_that_a_table_says_where_it_ends_and_whose_it_is() -> None:
    model = tiny_model("decoder", position="learned")
    n = model.own.config.max_tokens
    inside, beyond = (position_tables(["model"], size, 2, model)[0].note for size in (n, n + 1))
    assert "no more than" not in inside
    assert f"no more than {n} positions" in beyond
    both = tiny_model("encoder-decoder", position="t5")
    (table,) = position_tables(["model"], 3, 2, both)
    assert "the encoder's" in table.note
    laid_out = both.own.module.encoder_relative.bias(3, 3).laid_out[0, :, -1].detach().numpy()
    np.testing.assert_array_equal(table.matrix, laid_out[:, ::-1].T)


def test_that_rotary_vectors_turn_by_the_width_of_a_head() -> None:
    model = tiny_model("decoder", position="rotary")
    (table,) = position_tables(["model"], 5, 2, model)
    width = model.own.config.head_width
    for position in range(5):
        for pair in range(width // 2):
            turn = position * model.own.config.rope_base ** (-2 * pair / width)
            first, second = (np.cos(turn) - np.sin(turn), np.cos(turn) + np.sin(turn))
            assert table.matrix[position, pair] == pytest.approx(first * width**-0.5, abs=1e-6)
            assert table.matrix[position, width // 2 + pair] == pytest.approx(second * width**-0.5, abs=1e-6)
