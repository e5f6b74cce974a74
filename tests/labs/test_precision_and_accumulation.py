"""The lab on precision and accumulation: gradients add up, numbers are rounded, bytes are counted."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from attnscope.labs import LABS
from attnscope.records import STEP_WAYS, ExperimentAnswer, StepsQuestion
from attnscope.workers.experiments.stepping import (
    N_STEPS,
    LiveBytes,
    add_gradients,
    batches_of,
    gradient_of,
    measure_steps,
    new_module,
)

LAB = LABS["Precision and accumulation"]

SMALL = StepsQuestion(n_parts=4, batch=6, n_tokens=5, d_model=8, n_layers=2)


def slow_loss(question: StepsQuestion, direction: torch.Tensor, size: float) -> float:
    """The loss of the first batch a step along a direction, token by token, in float64."""
    module, at = new_module(question, "whole").double(), 0
    with torch.no_grad():
        for p in module.parameters():
            p += size * direction[at : at + p.numel()].view_as(p)
            at += p.numel()
        ids, total = next(batches_of(question)), 0.0
        for row in ids:
            logits = module(row[None, :-1])[0]
            for t, label in enumerate(row[1:].tolist()):
                largest = float(logits[t].max())
                total += largest + math.log(sum(math.exp(float(z) - largest) for z in logits[t]))
                total -= float(logits[t, label])
    return total / (ids.shape[0] * (ids.shape[1] - 1))


def test_that_the_gradient_in_float64_is_the_slope_of_the_loss() -> None:
    exact = gradient_of(SMALL, "whole", torch.float64)
    direction = torch.randn(len(exact), generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    slope = (slow_loss(SMALL, direction, 1e-6) - slow_loss(SMALL, direction, -1e-6)) / 2e-6
    assert float(exact @ direction) == pytest.approx(slope, rel=1e-6)


@pytest.mark.parametrize("n_parts", [2, 4, 8])
def test_that_gradients_of_parts_add_up_to_that_of_the_batch(n_parts: int) -> None:
    """Also where the parts are not of one size: 6 texts in 4 parts."""
    question = StepsQuestion(n_parts=n_parts, batch=6, n_tokens=5, d_model=8, n_layers=2)
    whole, parts = (gradient_of(question, way, torch.float64) for way in ("whole", "parts"))
    torch.testing.assert_close(parts, whole, rtol=1e-12, atol=1e-16)
    whole, parts = (gradient_of(question, way) for way in ("whole", "parts"))
    torch.testing.assert_close(parts, whole, rtol=1e-4, atol=1e-7)
    assert not torch.equal(parts, whole), "sums in another order"


def test_that_checkpointing_changes_no_digit_and_bfloat16_the_third() -> None:
    whole, twice, coarse = (gradient_of(SMALL, way) for way in ("whole", "checkpointed", "bfloat16"))
    assert torch.equal(twice, whole)
    assert 1e-4 < float((coarse - whole).norm() / whole.norm()) < 3e-2


def test_that_a_number_of_bfloat16_is_the_nearest_with_eight_digits() -> None:
    lab = LABS["Precision and accumulation"]
    drawn = {series.name: series for series in lab.charts(lab.resolve(lab.example))[3].series}
    numbers = drawn["bfloat16"].xs.astype(np.float32)
    found = drawn["bfloat16"].ys
    np.testing.assert_array_equal(drawn["float32"].ys, drawn["float32"].xs)
    halves = [x for x in numbers.tolist() if math.frexp(x)[0] * 256 % 1 == 0.5]
    assert len(numbers) > 500
    assert halves, "some are as near to two"
    slow = []
    for x in numbers.tolist():
        fraction, exponent = math.frexp(x)  # of 0.5 … 1: 8 digits are whole numbers of 2⁻⁸
        slow.append(math.ldexp(round(fraction * 256), exponent - 8))  # round is to even
    np.testing.assert_array_equal(found, np.array(slow, np.float32))
    np.testing.assert_array_equal(found, torch.tensor(numbers).bfloat16().float().numpy())


def test_that_a_tensor_counts_from_its_operation_until_nothing_holds_it() -> None:
    x = torch.ones(1000, requires_grad=True)
    with LiveBytes() as live:
        y = x.exp()
        z = y * y
        assert live.now == 8000
        flat = z.view(10, 100)  # no memory of its own
        assert live.now == 8000
        torch.autograd.backward(flat.sum())
        del y, z, flat
        assert live.now == 4000  # the gradient of x
    assert live.most >= 12_000


def test_that_every_way_is_told_and_parts_need_less_memory() -> None:
    *_, last = measure_steps(SMALL)
    assert last.is_done
    rows = {row.way: row for row in last.finding.rows}
    assert tuple(rows) == STEP_WAYS
    assert all(len(row.losses) == N_STEPS for row in rows.values())
    whole = rows["whole"]
    assert rows["checkpointed"].losses == whole.losses
    np.testing.assert_allclose(rows["parts"].losses, whole.losses, rtol=1e-4)
    assert rows["parts"].most_bytes < whole.most_bytes
    assert rows["checkpointed"].most_bytes < whole.most_bytes
    assert rows["bfloat16"].gradient_error > 100 * whole.gradient_error
    assert whole.losses[-1] < whole.losses[0]
    first = add_gradients(new_module(SMALL, "whole"), next(batches_of(SMALL)), SMALL, "whole")
    assert whole.losses[0] == first
    shown = LAB.resolve(replace(LAB.example, answer=ExperimentAnswer(finding=last.finding, is_exact=True)))
    assert "checkpointing the very same losses" in shown.words.sentence
    lab = LABS["Precision and accumulation"]
    apart, losses, costs, _ = lab.charts(shown)
    of_parts = next(one for one in apart.series if one.name == "accumulated").ys
    expected = np.abs(np.subtract(rows["parts"].losses, whole.losses))
    np.testing.assert_array_equal(np.nan_to_num(of_parts), expected)
    np.testing.assert_array_equal(losses.series[0].ys, whole.losses)
    memory, time = (series.ys for series in costs.series)
    np.testing.assert_allclose(memory * whole.most_bytes, [rows[way].most_bytes for way in STEP_WAYS])
    np.testing.assert_allclose(time * whole.step_ms, [rows[way].step_ms for way in STEP_WAYS])


def test_that_before_there_is_an_answer_the_claim_stands_there() -> None:
    shown = LAB.resolve(LAB.example)
    assert "add up" in shown.words.sentence
    assert all(
        np.isnan(series.ys).all() for series in LABS["Precision and accumulation"].charts(shown)[1].series
    )
