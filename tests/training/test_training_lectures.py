"""Recipes of the lectures' last thirds reach what their first lines say, in seconds and from a fixed seed."""

from pathlib import Path

import pytest

from attnscope.models import load
from attnscope.nn import sites_with_spans
from attnscope.paths import resources_folder
from attnscope.records import Evaluated
from attnscope.training import train

RECIPES = resources_folder() / "recipes"


def last_look(name: str, folder: Path, **changes: str) -> Evaluated:
    events = train(RECIPES / f"{name}.toml", folder, "cpu", changes)
    return [event for event in events if isinstance(event, Evaluated)][-1]


@pytest.mark.slow
def test_that_a_summary_copies_names_that_no_report_to_learn_from_has(tmp_path: Path) -> None:
    short = {"training.n_steps": "200", "training.evaluate_every": "200", "training.save_every": "200"}
    short |= {"training.evaluation_batches": "2", "data.n_examples": "6000"}
    look = last_look("reports", tmp_path / "run", **short)
    assert look.accuracy is not None
    assert look.accuracy > 0.99


@pytest.mark.slow
def test_that_heads_learn_at_which_offsets_to_look(tmp_path: Path) -> None:
    short = {"training.evaluate_every": "300", "training.save_every": "300", "data.n_examples": "6000"}
    look = last_look("copy-offsets", tmp_path / "run", **short)
    assert look.accuracy is not None
    assert look.accuracy > 0.99
    sites = sites_with_spans(load(tmp_path / "run", "cpu").own.module).values()
    masks = [row for site in sites for row in site.mask().detach()]
    assert sum(float(row[1:].sum()) for row in masks) < 24
    assert any(row[7] for row in masks)
    assert look.spans is not None
    assert sum(z for _, z in look.spans) == pytest.approx(
        sum(float(s.spans().detach().sum()) for s in sites), rel=0.01
    )


@pytest.mark.slow
def test_that_a_mood_is_heard_through_four_latents(tmp_path: Path) -> None:
    short = {"training.n_steps": "150", "training.evaluate_every": "150", "training.save_every": "150"}
    look = last_look("sentiment-latents", tmp_path / "run", **short)
    assert look.accuracy is not None
    assert look.accuracy > 0.98
    trace = load(tmp_path / "run", "cpu").trace("the old waiter brought us a wonderful soup before lunch .")
    told = [token.piece for token in trace.source.tokens].index("wonderful")
    weights = [trace.weights(("read-in", layer), head) for layer in (0, 1) for head in (0, 1)]
    assert max(float(one[:, told].max()) for one in weights) > 0.5
