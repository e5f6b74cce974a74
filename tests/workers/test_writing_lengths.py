"""Models that write rows for the lab of lengths: what they are given, what they lose, how they take turns."""

import math

import pytest
import torch

from attnscope.records import WRITERS, WritingFinding, WritingQuestion
from attnscope.workers.experiments.writing_lengths import (
    BEGIN,
    END,
    N_ROWS,
    WritingCourse,
    compare_writers,
    draw_rows,
    mean_target_loss,
    new_writer,
)

TINY = WritingQuestion(n_trained=4, d_model=8, n_steps=2)


def test_that_a_row_is_to_be_written_backwards_or_again() -> None:
    for task, step in (("reverse", -1), ("copy", 1)):
        sources, targets = draw_rows(5, 4, task, torch.Generator().manual_seed(1))
        for source, target in zip(sources.tolist(), targets.tolist(), strict=True):
            assert source[-1] == target[-1] == END
            assert target[:-1] == source[:-1][::step]
            assert max(source[:-1]) < BEGIN


@pytest.mark.parametrize("writer", WRITERS)
def test_that_the_loss_is_that_of_each_token_after_the_right_ones(writer: str) -> None:
    module = new_writer(writer, TINY).double()
    sources, targets = draw_rows(2, 3, "reverse", torch.Generator().manual_seed(2))
    nats = []
    for source, target in zip(sources, targets.tolist(), strict=True):
        for k, token in enumerate(target):
            ids = torch.tensor([[BEGIN, *target[:k]]])
            logits = module.logits(module.decode(ids, memory=module.encode(source[None])))[0, -1].tolist()
            nats.append(math.log(sum(math.exp(x) for x in logits)) - logits[token])
    assert mean_target_loss(module, sources, targets).item() == pytest.approx(sum(nats) / len(nats), rel=1e-9)


@pytest.mark.slow
def test_that_every_model_is_trained_and_read_and_all_are_of_a_size() -> None:
    news = list(compare_writers(TINY))
    last = news[-1].finding
    assert isinstance(last, WritingFinding)
    assert [one.is_done for one in news] == [False] * (len(news) - 1) + [True]
    assert (news[-1].n_done, news[-1].n_total) == (8, 8)
    assert last.lengths == (3, 4, 5, 6)
    assert [curve.writer for curve in last.curves] == list(WRITERS)
    for curve in last.curves:
        assert len(curve.n_exact) == len(curve.token_shares) == 4
        assert all(0 <= n <= N_ROWS for n in curve.n_exact)
        assert curve.losses[0] == pytest.approx(math.log(18), abs=1.5)
    sizes = [sum(p.numel() for p in new_writer(w, WritingQuestion()).parameters()) for w in WRITERS]
    assert max(sizes) < 1.3 * min(sizes)


def test_that_equal_questions_are_trained_alike() -> None:
    courses = [WritingCourse("dot", TINY) for _ in range(2)]
    for course in courses:
        assert len(list(course.train(2))) == 1
    assert courses[0].losses == courses[1].losses
    assert courses[0].n_done == 2
