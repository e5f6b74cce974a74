"""The sweep that the tab Scaling opens on: whole, of its recipe, with the numbers that the recipe says."""

from dataclasses import replace

import pytest

from attnscope.models import own_cost
from attnscope.nn import count_parameters
from attnscope.paths import resources_folder
from attnscope.training import parse_recipe
from attnscope.viewmodels.training import KEPT_SWEEP, fit_power_law, kept_sweep, scaling_points
from attnscope.viewmodels.training import runs_compared as place

WIDTHS = (8, 12, 16, 24, 32)


def test_that_each_kept_run_is_of_the_recipe_in_its_own_width_and_made_all_its_steps():
    path = resources_folder() / "recipes" / f"{KEPT_SWEEP}.toml"
    asked = parse_recipe(path.read_text(encoding="utf-8"), needs_data=False)
    runs = kept_sweep()
    assert [run.name for run in runs] == [f"d_model={width}" for width in WIDTHS]
    for run, width in zip(runs, WIDTHS, strict=True):
        made = parse_recipe(run.recipe)
        wanted = replace(
            asked,
            model=replace(asked.model, d_model=width),
            data=replace(asked.data, path=made.data.path),
            training=replace(asked.training, name=made.training.name),
        )
        assert made == wanted
        assert "/" not in made.data.path
        assert run.is_converged
        assert run.step == asked.training.n_steps


def test_that_sizes_tokens_and_operations_are_those_of_the_recipes():
    for run in kept_sweep():
        made = parse_recipe(run.recipe)
        n_characters = (run.n_parameters - run.n_body) // made.model.d_model
        config = replace(made.model, vocab_size=n_characters)
        assert count_parameters(config).total == run.n_parameters
        n_tokens = made.training.n_steps * made.training.batch_size * made.model.max_tokens
        assert run.n_tokens == n_tokens
        assert run.flops == pytest.approx(own_cost(config, made.model.max_tokens).training_a_token * n_tokens)


def test_that_the_law_through_them_is_one_to_be_trusted_and_the_one_that_the_recipe_states():
    points = scaling_points(kept_sweep(), "parameters")
    assert points.law == fit_power_law(points.xs, points.losses)
    assert points.law is not None
    assert points.law.is_trusted
    assert points.law.b == pytest.approx(0.14, abs=0.006)
    assert points.losses == pytest.approx([2.58, 2.32, 2.24, 2.12, 2.05], abs=0.005)


def test_that_without_its_file_there_is_no_kept_sweep(monkeypatch, tmp_path):
    monkeypatch.setattr(place, "kept_sweep_path", lambda: tmp_path / "missing.json")
    assert kept_sweep() == ()
    (tmp_path / "missing.json").write_text('{"runs": 3}', encoding="utf-8")
    assert kept_sweep() == ()
