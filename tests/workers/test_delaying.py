"""Models that say again a token some positions back: what they can know, and when they stop."""

from dataclasses import replace

import pytest
import torch

from attnscope.labs import LABS
from attnscope.records import DISTANCES, READERS, DelayFinding, DelayQuestion
from attnscope.workers.experiments.delaying import (
    N_CONVOLUTIONS,
    N_READ,
    PATIENCE,
    SCORED,
    DelayCourse,
    Gru,
    compare_readers,
    has_settled,
    new_reader,
)

TINY = DelayQuestion(d_model=16, n_steps=2)


@pytest.mark.parametrize("reader", READERS)
def test_that_a_token_is_told_from_those_up_to_it_as_far_as_the_model_reads(reader: str) -> None:
    distance = 48
    module = new_reader(reader, distance, TINY).double().eval()
    ids = torch.randint(16, (1, distance + SCORED), generator=torch.Generator().manual_seed(1))
    at, told = 60, module(ids)
    for place in (at - 48, at - 31, at - 30, at - 1, at, at + 1):
        other = ids.clone()
        other[0, place] = (other[0, place] + 1) % 16
        is_changed = bool((module(other)[0, at] != told[0, at]).any())
        can_know = place <= at and (reader != "convolution" or at - place <= 30)
        assert is_changed == can_know, (reader, at - place)


def test_that_the_lab_draws_the_convolution_that_is_trained() -> None:
    lab = LABS["Accuracy by distance"]
    assert N_CONVOLUTIONS == len(lab.cells(lab.resolve(lab.example))[0].rows) - 1
    for width in (2, 3, 4):
        question = DelayQuestion(d_model=16, kernel_width=width)
        module = new_reader("convolution", 48, question)
        mixers = [block.attention for block in module.decoder]
        assert (
            sum((m.kernel.shape[1] - 1) * m.step for m in mixers)
            == lab.resolve(replace(lab.example, kernel_width=width)).reach
        )


def test_that_a_gru_is_the_equation_of_its_gates() -> None:
    """Cho et al. 2014, as torch writes it: gates r and z, the new state, and what is kept of the old one."""
    module = Gru(4, seed=3).double()
    ids = torch.tensor([[3, 7, 1]])
    x = module.tokens(ids)[0]
    for layer in range(2):
        w_i, w_h, b_i, b_h = (
            getattr(module.cells, f"{name}_l{layer}")
            for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
        )
        h, rows = torch.zeros(4, dtype=torch.float64), []
        for row in x:
            of_x, of_h = (w_i @ row + b_i).chunk(3), (w_h @ h + b_h).chunk(3)
            r, z = torch.sigmoid(of_x[0] + of_h[0]), torch.sigmoid(of_x[1] + of_h[1])
            h = (1 - z) * torch.tanh(of_x[2] + r * of_h[2]) + z * h
            rows.append(h)
        x = torch.stack(rows)
    expected = x @ module.head.weight.T + module.head.bias
    torch.testing.assert_close(module(ids)[0], expected, atol=1e-12, rtol=0)


def test_that_training_ends_when_nothing_more_is_learned() -> None:
    rising = [0.1 * k for k in range(1, 9)]
    assert not has_settled(rising)
    assert not has_settled([*rising, *[0.8] * (PATIENCE - 1)])
    assert has_settled([*rising, *[0.8] * PATIENCE])
    assert has_settled([*rising, *[0.805] * PATIENCE])
    assert not has_settled([0.06] * PATIENCE)


def test_that_equal_questions_are_trained_alike_and_the_easiest_stops_before_its_last_step() -> None:
    question = DelayQuestion(n_steps=1000)
    courses = [DelayCourse("attention", 1, question) for _ in range(2)]
    for course in courses:
        assert list(course.train())
    assert courses[0].point() == courses[1].point()
    assert courses[0].n_done < 1000
    assert courses[0].n_right >= 0.999 * N_READ * SCORED


@pytest.mark.slow
def test_that_every_model_is_trained_for_every_distance() -> None:
    news = list(compare_readers(TINY))
    last = news[-1].finding
    assert isinstance(last, DelayFinding)
    assert [one.is_done for one in news] == [False] * (len(news) - 1) + [True]
    assert news[-1].n_done == news[-1].n_total == 2 * len(DISTANCES) * len(READERS)
    assert [(p.distance, p.reader) for p in last.points] == [(d, r) for d in DISTANCES for r in READERS]
    assert {point.n_steps for point in last.points} == {2}
    assert all(0 <= point.n_right <= last.n_read == N_READ * SCORED for point in last.points)
