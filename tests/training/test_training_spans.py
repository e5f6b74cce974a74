"""Spans in a run: they are learned, kept in their range, told at each look, and drawn as they grow."""

from pathlib import Path

import numpy as np
import pytest

from attnscope.models import load
from attnscope.nn import sites_with_spans
from attnscope.records import Evaluated
from attnscope.training import parse_recipe, read_run, train
from attnscope.viewmodels.training import RunCurves


@pytest.mark.slow
def test_that_spans_are_told_at_each_look_and_drawn(tiny_recipe: str, tmp_path: Path) -> None:
    changes = {
        "model.span_limit": "8", "model.span_ramp": "2", "training.n_steps": "4",
        "training.evaluate_every": "2", "optimizer.learning_rate": "0.05",
    }  # fmt: skip
    for penalty in ("0", "1000"):
        folder = tmp_path / penalty
        events = list(train(tiny_recipe, folder, "cpu", changes | {"model.span_penalty": penalty}))
        looks = [event for event in events if isinstance(event, Evaluated)]
        assert [look.spans for look in looks] == [
            look.spans for look in read_run(folder).events if isinstance(look, Evaluated)
        ]
        last = dict(looks[-1].spans or ())
        sites = sites_with_spans(load(folder, "cpu").own.module)
        learned = {
            f"{name}H{h}": z for name, one in sites.items() for h, z in enumerate(one.spans().tolist())
        }
        assert last == pytest.approx(learned, abs=1e-5)
        assert all(0.0 <= site.span.min() and site.span.max() <= 1.0 for site in sites.values())
        curves = RunCurves()
        curves.add(events)
        assert list(curves.spans) == list(learned)
        for name, curve in curves.spans.items():
            assert curve.steps.tolist() == [2.0, 4.0]
            np.testing.assert_allclose(curve.values[-1], learned[name], atol=1e-5)
    assert not any(last.values())  # nothing is worth a thousand nats a token


def test_that_a_recipe_names_spans(tiny_recipe: str) -> None:
    recipe = parse_recipe(tiny_recipe, overrides={"model.span_limit": "8", "model.span_penalty": "0.5"})
    assert (recipe.model.span_limit, recipe.model.span_penalty) == (8, 0.5)
