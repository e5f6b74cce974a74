"""Weights given as arrays: shown as they are, and told of where they cannot be right."""

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

import attnscope
from attnscope.analysis import measured_grids
from attnscope.errors import UserError


def softmaxed(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).softmax(dim=-1)


@pytest.mark.parametrize(
    "given",
    [
        lambda w: w,
        lambda w: w.numpy(),
        lambda w: [layer.numpy() for layer in w],
        lambda w: tuple(layer[None] for layer in w),  # as a library's `attentions`
        lambda w: w.tolist(),
        lambda w: {"encoder": w},
        lambda w: {("encoder", 1): w[1], ("encoder", 0): w[0]},
    ],
)
def test_that_weights_come_back_as_they_were_given(given) -> None:
    weights = softmaxed(2, 3, 4, 4)
    trace = attnscope.from_arrays(given(weights), list("abcd"))
    assert [site.key for site in trace.sites] == [("encoder", 0), ("encoder", 1)]
    for layer in range(2):
        np.testing.assert_allclose(trace.all_weights(layer), weights[layer], atol=1e-6)
    assert trace.check().is_good
    assert trace.check().badge == "✓ rows sum to 1"
    assert trace.recorded is not None
    assert trace.recorded.notes == ()


def test_that_a_weight_of_zero_is_zero_and_not_a_cell_that_is_not_allowed() -> None:
    weights = torch.tensor([[[[0.0, 1.0, 0.0], [0.5, 0.5, 0.0], [1.0, 0.0, 0.0]]]])
    trace = attnscope.from_arrays(weights)
    assert trace.sites[0].stack == "encoder"
    assert trace.weights(0, 0).tolist() == weights[0, 0].tolist()
    assert attnscope.measure(trace)[0].confidence == pytest.approx((1 + 0.5 + 1) / 3)


def test_that_causal_weights_are_found_and_nan_is_not_allowed() -> None:
    causal = softmaxed(1, 2, 4, 4).tril()
    causal = causal / causal.sum(dim=-1, keepdim=True)
    for given in (causal, causal.masked_fill(torch.ones(4, 4).triu(1).bool(), float("nan"))):
        trace = attnscope.from_arrays(given)
        assert trace.sites[0].stack == "decoder"
        found = trace.all_weights(0)
        assert torch.equal(found.isnan()[0], torch.ones(4, 4).triu(1).bool())
        torch.testing.assert_close(found.nan_to_num(0.0), causal[0], atol=1e-6, rtol=0)
    holes = softmaxed(1, 2, 4, 4)
    holes[0, 1, 2, 3] = float("nan")
    trace = attnscope.from_arrays(holes)
    assert np.argwhere(np.isnan(trace.all_weights(0).numpy())).tolist() == [[1, 2, 3]]
    assert trace.recorded is not None
    assert "1 cell is NaN and is shown" in trace.recorded.notes[-1]


def test_that_rows_that_do_not_sum_to_one_are_shown_and_told_of() -> None:
    weights = softmaxed(2, 2, 3, 3)
    weights[1, 0, 2] *= 0.5
    trace = attnscope.from_arrays(weights)
    check = trace.check()
    assert not check.is_good
    assert check.row_sum_error == pytest.approx(0.5, abs=1e-6)
    assert check.badge == "⚠ rows off by 0.5"
    assert check.sentence == "encoder L1: rows do not sum to 1: off by 0.5"
    assert trace.check(0).sentence.startswith("rows sum to 1 ")
    assert trace.recorded is not None
    assert trace.recorded.notes == (
        "1 of 12 rows does not sum to 1 but to 0.5 (encoder L1); it is shown as it is.",
    )
    np.testing.assert_allclose(trace.weights(1, 0)[2], weights[1, 0, 2], atol=1e-6)


def test_that_half_precision_sums_are_measured_with_their_own_rounding() -> None:
    for dtype in (torch.float16, torch.bfloat16):
        assert attnscope.from_arrays(softmaxed(1, 4, 50, 50).to(dtype)).check().is_good


def test_that_two_texts_have_their_own_axes() -> None:
    given = {
        "encoder": softmaxed(2, 2, 4, 4),
        "cross": softmaxed(1, 3, 5, 4),
        "decoder": softmaxed(1, 2, 5, 5),
    }
    trace = attnscope.from_arrays(given, list("abcd"), list("vwxyz"))
    assert [site.key for site in trace.sites] == [
        ("encoder", 0), ("encoder", 1), ("decoder", 0), ("cross", 0)
    ]  # fmt: skip
    queries, keys = trace.tokens(("cross", 0))
    assert ("".join(t.piece for t in queries), "".join(t.piece for t in keys)) == ("vwxyz", "abcd")
    plain = attnscope.from_arrays(softmaxed(1, 3, 5, 4))
    assert plain.sites[0].stack == "cross"
    assert [token.piece for token in plain.tokens(0)[0]] == list("01234")


@pytest.mark.parametrize(
    ("weights", "tokens", "target", "words"),
    [
        (softmaxed(4, 4), None, None, r"shape \[4, 4\]"),
        (softmaxed(2, 3, 2, 4, 4), None, None, r"shape \[2, 3, 2, 4, 4\]"),
        ([softmaxed(2, 3, 4, 4)], None, None, "of 2 texts"),
        (softmaxed(1, 2, 4, 4).log(), None, None, "smallest weight of.*after the softmax"),
        (softmaxed(1, 2, 4, 4) * float("inf"), None, None, "not all finite"),
        (torch.full((1, 2, 3, 3), float("nan")), None, None, "all NaN"),
        (torch.ones(1, 1, 2, 2, dtype=torch.int64), None, None, "int64"),
        (softmaxed(1, 2, 4, 4), ["a", "b"], None, "4 queries × 4 keys, and its tokens are 2 × 2"),
        (softmaxed(1, 2, 4, 3), list("abcd"), list("xyz"), "swapped"),
        ({"middle": softmaxed(1, 2, 4, 4)}, None, None, "no stack 'middle'"),
        ({3: softmaxed(1, 2, 4, 4)}, None, None, "is not a site"),
        ("weights", None, None, "type str"),
        (torch.zeros(0, 2, 3, 3), None, None, "shape"),
    ],
)
def test_that_what_can_be_no_weights_is_refused_in_words(
    weights: object, tokens: list[str] | None, target: list[str] | None, words: str
) -> None:
    with pytest.raises(UserError, match=words):
        attnscope.from_arrays(weights, tokens, target)


def test_that_names_of_layers_are_kept_and_counted() -> None:
    trace = attnscope.from_arrays(softmaxed(2, 1, 3, 3), names=["lower", "upper"], name="mine")
    assert trace.recorded is not None
    assert (trace.recorded.name, trace.recorded.site_name(("encoder", 1))) == ("mine", "upper")
    assert trace.recorded.site_name(("cross", 0)) == ""
    with pytest.raises(UserError, match="There is 1 name for 2 layers"):
        attnscope.from_arrays(softmaxed(2, 1, 3, 3), names=["lower"])


def test_that_a_query_that_sees_nothing_is_no_row_that_sums_to_something_else() -> None:
    weights = np.array([[[0.25, 0.75, np.nan], [np.nan, np.nan, np.nan], [0.5, 0.25, 0.25]]], np.float32)
    trace = attnscope.from_arrays(weights, "a b c".split())
    assert trace.recorded.notes == ("4 cells are NaN and are shown as not allowed.",)
    assert trace.check().is_good
    found = trace.weights(0, 0)
    assert np.array_equal(np.isnan(found), np.isnan(weights[0]))


def test_that_layers_are_a_decoder_where_every_one_is_causal() -> None:
    full = np.full((1, 2, 3, 3), 1 / 3)
    causal = np.tril(full) / np.tril(full).sum(-1, keepdims=True)
    for layers, stack in (
        ((causal, causal), "decoder"),
        ((causal, full), "encoder"),
        ((full, causal), "encoder"),
    ):
        assert {site.stack for site in attnscope.from_arrays(np.concatenate(layers)).sites} == {stack}


@pytest.mark.parametrize(("n_tokens", "n_target", "said"), [(2, 3, "swapped"), (3, 3, "special ones")])
def test_that_a_wrong_number_of_tokens_is_told_by_what_is_likely_wrong(
    n_tokens: int, n_target: int, said: str
) -> None:
    weights = np.full((1, 1, 2, 3), 1 / 3)  # two queries, three keys
    with pytest.raises(UserError, match="2 queries × 3 keys") as caught:
        attnscope.from_arrays(weights, ["a"] * n_tokens, ["b"] * n_target)
    assert said in caught.value.action


@pytest.mark.parametrize(
    ("keys", "said"),
    [((), "no weights"), ((("encoder", -1),), "is not a site"), ((("encoder", True),), "is not a site")],
)
def test_that_a_mapping_names_layers_from_0_and_holds_some(keys: tuple, said: str) -> None:
    with pytest.raises(UserError, match=said):
        attnscope.from_arrays(dict.fromkeys(keys, np.ones((1, 1, 1))))


def test_that_a_batch_axis_of_one_is_left_out_of_every_layer() -> None:
    layers = softmaxed(3, 2, 4, 4)
    trace = attnscope.from_arrays(layers[:, None].numpy())
    assert [site.layer for site in trace.sites] == [0, 1, 2]
    torch.testing.assert_close(torch.as_tensor(trace.weights(2, 1)), layers[2, 1].float(), atol=1e-6, rtol=0)


@pytest.mark.qt
@pytest.mark.parametrize("is_plain", [False, True])
@pytest.mark.parametrize("ending", ["html", "svg"])
def test_that_a_figure_of_rows_that_do_not_sum_to_1_says_so_however_plain(
    qapp: object, tmp_path: Path, ending: str, is_plain: bool
) -> None:
    weights = softmaxed(2, 5, 5).numpy()
    for factor, is_said in ((1.0, False), (1.7, True)):
        trace = attnscope.from_arrays([weights * [[[1.0]], [[factor]]]], list("abcde"))
        place = tmp_path / f"{factor}.{ending}"
        attnscope.figure(trace, view="head", head="L0H1", plain=is_plain).save(place)
        assert ("⚠" in place.read_text(encoding="utf-8")) == is_said


@pytest.mark.qt
def test_that_a_grid_names_the_layers_whose_rows_do_not_sum_to_1(qapp: object, tmp_path: Path) -> None:
    weights = softmaxed(3, 2, 5, 5).numpy() * np.array([1.0, 1.7, 1.2])[:, None, None, None]
    trace = attnscope.from_arrays(weights, list("abcde"))
    grids, _ = measured_grids(trace, 96)  # as the window asks for them
    assert [grid.check and f"{grid.check.row_sum_error:.1f}" for grid in grids] == [None, "0.7", "0.2"]
    drawn = attnscope.figure(trace, "grid")
    drawn.save(tmp_path / "kept.figure.json")
    beside = attnscope.figure(trace, "panels", head="L0H1", also=("grid",))
    for figure in (drawn, attnscope.load_figure(tmp_path / "kept.figure.json"), beside):
        figure.save(tmp_path / "grid.svg")
        said = "⚠ encoder L1 and 1 more layer: rows do not sum to 1: off by 0.7"
        assert said in (tmp_path / "grid.svg").read_text(encoding="utf-8")
