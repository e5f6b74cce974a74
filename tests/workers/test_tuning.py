"""Fine-tuning with many seeds: what a seed changes, what begins anew, and how far layers have come."""

import math

import pytest
import torch

from attnscope.records import TuneFinding, TuneQuestion
from attnscope.training import layer_of
from attnscope.workers.experiments.tuning import (
    N_HELD_OUT,
    accuracy_of,
    fine_tune,
    first_of,
    moved_by_layer,
    shared_start,
)

QUESTION = TuneQuestion(n_inits=1, n_orders=1, n_examples=32, n_steps=2, reinit_layers=2)


@pytest.mark.slow
def test_that_seeds_draw_what_is_new_alone_and_top_layers_begin_anew() -> None:
    begun = shared_start(QUESTION)
    start = dict(begun.start.module.named_parameters())
    models = {way: first_of(begun, QUESTION, 0, is_anew=way) for way in (False, True)}
    other = dict(first_of(begun, QUESTION, 1, is_anew=False).named_parameters())
    drawn = {n for n, p in models[False].named_parameters() if not torch.equal(p, other[n])}
    assert drawn
    assert not drawn & set(start)
    changed = {
        layer_of(name)
        for name, parameter in models[True].named_parameters()
        if name in start and not torch.equal(parameter, start[name])
    }
    assert changed == {"encoder L2", "encoder L3"}
    module = models[False]
    first = {name: p.detach().clone() for name, p in module.named_parameters()}
    assert set(moved_by_layer(module, first).values()) == {0.0}
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(0.5)
    moved = moved_by_layer(module, first)
    n = sum(p.numel() for name, p in module.named_parameters() if layer_of(name) == "encoder L1")
    assert moved["encoder L1"] == pytest.approx(0.5 * math.sqrt(n), rel=1e-5)
    assert len(begun.data.batches.evaluation()) * 16 == N_HELD_OUT
    assert 0.0 <= accuracy_of(module, begun.data) <= 1.0


@pytest.mark.slow
def test_that_news_count_to_the_end_with_a_run_of_each_way() -> None:
    *_, last = fine_tune(QUESTION)
    assert last.is_done
    assert last.n_done == last.n_total == 4
    assert isinstance(last.finding, TuneFinding)
    assert [run.is_reinitialised for run in last.finding.runs] == [False, True]
    assert last.finding.layers[0] == "tokens"
    assert all(len(run.moved) == len(last.finding.layers) for run in last.finding.runs)
