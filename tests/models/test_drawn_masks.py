"""A drawn mask at work: weights, blind rows, before against after, and where it cannot go."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hf_folders import make, save_folder
from tiny_models import FORMS, SENTENCE, target_of, tiny_model

from attnscope.errors import UserError
from attnscope.models import load
from attnscope.nn import Dense, MaskRule, RemovedCells, with_drawn_mask
from attnscope.records import UseMask, maskable_stack
from attnscope.trace import load_trace

STACK = {"decoder": "decoder", "encoder": "encoder", "encoder-decoder": "encoder"}


def drawn(model, form):
    """Half of the cells, none in row 3, and the diagonal but there."""
    n = len(model.encode(SENTENCE, target_of(form)).source)
    cells = np.array([[(3 * i + 5 * j) % 4 < 2 or i == j for j in range(n)] for i in range(n)])
    cells[3] = False
    return cells, UseMask.of_cells(STACK[form], cells)


@pytest.mark.parametrize("form", FORMS)
def test_that_the_first_layer_has_its_own_weights_renormalised_over_the_allowed_keys(form):
    model = tiny_model(form)
    cells, mask = drawn(model, form)
    before = model.trace(SENTENCE, target_of(form))
    after = model.trace(SENTENCE, target_of(form), interventions=(mask,))
    site = (STACK[form], 0)
    for head in range(4):
        plain = np.nan_to_num(before.weights(site, head).astype(np.float64))
        seen = plain * cells
        with np.errstate(invalid="ignore"):
            expected = np.where(seen > 0, seen / seen.sum(axis=1, keepdims=True), np.nan)
        found = after.weights(site, head)
        assert np.array_equal(np.isnan(found), np.isnan(expected))
        np.testing.assert_allclose(np.nan_to_num(found), np.nan_to_num(expected), rtol=2e-5, atol=1e-7)
        assert np.isnan(found[3]).all()
    assert after.check().row_sum_error < 1e-5
    assert after.check().output_error < 1e-5


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("choices", [{}, {"mask": "window", "window": 1}])
def test_that_a_drawn_mask_is_the_pattern_of_the_same_cells_in_every_layer(form, choices):
    model = tiny_model(form, **choices)
    cells, mask = drawn(model, form)
    pattern = Dense(cells=torch.from_numpy(cells)[None, None])
    found = model.trace(SENTENCE, target_of(form), interventions=(mask,))
    expected = model.trace(SENTENCE, target_of(form), pattern=pattern)
    np.testing.assert_allclose(found.logits, expected.logits, atol=2e-5)
    for site in model.sites:
        for head in range(site.n_heads):
            one, other = found.weights(site, head), expected.weights(site, head)
            assert np.array_equal(np.isnan(one), np.isnan(other))
            np.testing.assert_allclose(np.nan_to_num(one), np.nan_to_num(other), atol=1e-5)


def test_that_a_head_gives_nothing_for_a_query_that_sees_nothing():
    model = tiny_model("encoder")
    _, mask = drawn(model, "encoder")
    trace = model.trace(SENTENCE, interventions=(mask,), keep_values=True)
    out = trace.records["encoder", 1].out
    assert out is not None
    assert float(out[:, 3].abs().max()) == 0.0
    assert float(out[:, 2].abs().max()) > 0.0


@pytest.mark.parametrize("form", FORMS)
def test_that_before_is_the_model_s_own_mask_and_after_the_drawn_one(form):
    model = tiny_model(form, mask="window", window=1)
    _, mask = drawn(model, form)
    look = model.look(SENTENCE, target_of(form), interventions=(mask,))
    own = model.compare(SENTENCE, target_of(form)).before
    alone = model.trace(SENTENCE, target_of(form), interventions=(mask,))

    def numbers(output):
        return [[c.probability for c in p.candidates] for p in output.predictions]

    np.testing.assert_allclose(numbers(look.comparison.before), numbers(own), atol=1e-5)
    assert max(look.comparison.kl_nats) > 1e-4
    for site in model.sites:
        one, other = look.trace.weights(site, 1), alone.weights(site, 1)
        np.testing.assert_allclose(np.nan_to_num(one), np.nan_to_num(other), atol=1e-5)


def test_that_a_trace_under_a_mask_survives_its_file(tmp_path):
    model = tiny_model("encoder")
    _, mask = drawn(model, "encoder")
    trace = model.trace(SENTENCE, interventions=(mask,))
    trace.save(tmp_path / "a.safetensors")
    again = load_trace(tmp_path / "a.safetensors")
    assert again.interventions == (mask,)
    np.testing.assert_array_equal(again.weights(("encoder", 0), 0), trace.weights(("encoder", 0), 0))


def test_that_a_mask_for_another_text_is_refused_by_its_size():
    model = tiny_model("encoder")
    with pytest.raises(UserError, match="The mask is for 3 tokens"):
        model.trace(SENTENCE, interventions=(UseMask.of_cells("encoder", np.ones((3, 3), bool)),))


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["bert", "gpt2", "llama", "t5"])
def test_that_models_of_the_library_are_masked_too_and_stay_causal(kind, tmp_path):
    model = load(save_folder(tmp_path / kind, *make(kind)), "cpu")
    text = "the animal in a"
    stack = maskable_stack(model.sites)
    site = next(site for site in model.sites if site.stack == stack)
    before = model.trace(text)
    n = len(before.source)
    cells = np.array([[(i + j) % 3 != 0 or i == j for j in range(n)] for i in range(n)])
    after = model.trace(text, interventions=(UseMask.of_cells(stack, cells),))
    for head in range(site.n_heads):
        plain = np.nan_to_num(before.weights(site, head).astype(np.float64))
        seen = plain * cells
        expected = seen / seen.sum(axis=1, keepdims=True)
        found = after.weights(site, head)
        assert np.array_equal(np.isnan(found), ~cells | np.isnan(before.weights(site, head)))
        np.testing.assert_allclose(np.nan_to_num(found), expected, atol=1e-5)
    assert after.check().is_good
    assert len(model.compare(text, interventions=(UseMask.of_cells(stack, cells),)).kl_nats) > 0


def test_that_only_the_last_text_of_a_batch_is_read_under_the_cells() -> None:
    cells = torch.eye(4, dtype=torch.bool).flip(0)
    drawn = with_drawn_mask(MaskRule(window=(1, 1)), cells, 2).allowed(4, 4, device=cells.device)
    places = torch.arange(4)
    before = (places[:, None] - places).abs() < 2
    assert torch.equal(drawn[0, 0], before)
    assert torch.equal(drawn[1, 0], cells)


def test_that_edges_taken_out_before_are_not_baked_into_the_cells_of_the_other_texts() -> None:
    removed = RemovedCells(cells=torch.tensor([[0, 2, 1]]), n_heads=2)
    drawn = with_drawn_mask(MaskRule(is_causal=True, removed=removed), torch.eye(4, dtype=torch.bool), 2)
    assert drawn.removed is removed
    assert isinstance(drawn.pattern, Dense)
    assert drawn.pattern.cells.shape == (2, 1, 4, 4)  # once for all heads
    put_back = replace(drawn, removed=None).allowed(4, 4, device=torch.device("cpu"))
    assert torch.equal(put_back[0, 0], torch.ones(4, 4).tril().bool())
