"""Reading past the positions that a model was trained on: only where positions are computed."""

import pytest
import torch
from tiny_models import SENTENCE, tiny_model

from attnscope import measure
from attnscope.errors import UserError

LONG = " ".join([SENTENCE] * 12)
"""73 tokens with the first; the tiny models were trained on 24."""


@pytest.mark.parametrize("position", ["rotary", "sinusoidal", "none"])
def test_that_computed_positions_go_on_and_learned_ones_end(position: str) -> None:
    model = tiny_model("decoder", position=position)
    assert model.info.can_read_past
    cut = model.trace(LONG)
    assert (len(cut.source), cut.source.n_dropped, cut.source.n_untrained) == (24, 49, 0)
    whole = model.trace(LONG, past_trained=True)
    assert (len(whole.source), whole.source.n_dropped, whole.source.n_untrained) == (73, 0, 49)
    assert whole.check().is_good
    torch.testing.assert_close(
        torch.from_numpy(whole.weights(0, 0)[:24, :24].copy()),
        torch.from_numpy(cut.weights(0, 0)),
        equal_nan=True,
        atol=1e-6,
        rtol=0,
    )
    assert len(model.trace(LONG).source) == 24, "a later look is cut again"


def test_that_a_look_past_the_trained_positions_writes_nothing_after_them() -> None:
    model = tiny_model("decoder", position="rotary")
    look = model.look(LONG, past_trained=True)
    assert len(look.trace.source) == 73
    assert look.comparison.before.generated == ""


def test_that_learned_positions_cannot_be_read_past() -> None:
    model = tiny_model("decoder")
    assert not model.info.can_read_past
    assert len(model.trace(LONG, past_trained=True).source) == 24
    with pytest.raises(ValueError, match="learned positions end at 24"):
        model.own.module.reach_past(25)


def test_that_a_map_too_large_for_one_array_is_refused_and_offered_as_a_tile() -> None:
    model = tiny_model("decoder", position="rotary", n_layers=1)
    trace = model.trace(" ".join([SENTENCE] * 180), past_trained=True)
    head = trace.sites[0].heads[0]
    assert trace.is_long(0)
    with pytest.raises(UserError, match="1,081 × 1,081 cells"):
        trace.head_map(head)
    tile = trace.head_tile(head, max_px=300)
    assert (tile.b, tile.levels.shape) == (4, (271, 271))
    largest = trace.tile(0, 0, slice(400, 404), slice(0, 4)).max()
    assert (tile.levels[100, 0] - 1) / 254 * tile.peak == pytest.approx(largest, abs=tile.peak / 250)


def test_that_the_grid_of_a_long_text_is_exact_and_its_first_one_says_that_it_is_not() -> None:
    model = tiny_model("decoder", position="rotary", n_layers=1)
    trace = model.trace(" ".join([SENTENCE] * 180), past_trained=True)
    exact = trace.grid(0, 40)
    assert exact.levels.shape == (4, 40, 40)
    assert not exact.is_sampled
    largest = [float(torch.from_numpy(trace.weights(0, head)).nan_to_num(0).max()) for head in range(4)]
    assert exact.peaks.tolist() == pytest.approx(largest, abs=1e-6)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("attnscope.trace.trace.MAX_EXACT_CELLS", 1_000)
        (first,) = trace.grids(40)
    assert first.is_sampled
    assert (first.peaks <= exact.peaks + 1e-6).all()


def test_that_the_measures_of_a_long_text_come_from_some_rows_and_say_so() -> None:
    model = tiny_model("decoder", position="rotary", n_layers=1)
    trace = model.trace(" ".join([SENTENCE] * 60), past_trained=True)
    all_rows = measure(trace, max_cells=None)
    some = measure(trace, max_cells=100_000)
    assert all_rows[0].n_rows == 0
    assert 0 < some[0].n_rows < some[0].n_all_rows == len(trace.source)
    for one, other in zip(all_rows, some, strict=True):
        assert one.entropy == pytest.approx(other.entropy, abs=0.05)
        assert one.confidence == pytest.approx(other.confidence, abs=0.1)
