"""The mean of a run's last checkpoints, against sums of their files made by hand."""

from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file

from attnscope.cli.main import main
from attnscope.errors import LoadError, UserError
from attnscope.models import load
from attnscope.records.training import Evaluated
from attnscope.training import read_run, train
from attnscope.training.averaging import average_run

STEPS = (2, 4, 6)


@pytest.fixture
def run(tiny_recipe: str, tmp_path: Path) -> Path:
    """A run with checkpoints at the steps 0, 2, 4 and 6."""
    list(train(tiny_recipe, tmp_path / "run", "cpu", {"training.save_every": "2"}))
    return tmp_path / "run"


def weights(folder: Path) -> dict[str, np.ndarray]:
    return load_file(folder / "model.safetensors")


@pytest.mark.parametrize("last", [2, 3])
def test_that_every_weight_is_the_mean_of_the_last_checkpoints(run: Path, tmp_path: Path, last: int) -> None:
    found = average_run(run, last=last, device="cpu")
    assert found.steps == STEPS[-last:]
    found.model.save(tmp_path / "mean")
    parts = [weights(run / "checkpoints" / str(step)) for step in found.steps]
    mean = weights(tmp_path / "mean")
    assert mean.keys() == parts[0].keys()
    for name, values in mean.items():
        expected = np.mean([part[name].astype(np.float64) for part in parts], axis=0)
        np.testing.assert_allclose(values, expected, rtol=1e-6, atol=1e-8, err_msg=name)
    assert any((mean[name] != parts[-1][name]).any() for name in mean)
    assert load(tmp_path / "mean").own.card.training["averaged_steps"] == list(found.steps)


def test_that_held_out_losses_are_those_of_the_mean_and_of_the_last_alone(run: Path) -> None:
    found = average_run(run, last=2, device="cpu")
    seen = [event for event in read_run(run).events if isinstance(event, Evaluated)]
    assert found.last_alone is not None
    assert found.held_out is not None
    assert found.last_alone.loss == pytest.approx(seen[-1].loss, rel=1e-6)
    again = average_run(run, last=2, device="cpu")
    assert again.held_out == found.held_out
    assert found.held_out.loss != found.last_alone.loss
    assert not found.model.own.module.training


def test_that_a_run_without_its_data_is_averaged_and_says_what_is_missing(run: Path, text_file: Path) -> None:
    text_file.unlink()
    found = average_run(run, last=2, device="cpu")
    assert found.held_out is None
    assert "text.txt" in found.note


@pytest.mark.parametrize("last", [-1, 0, 1, 4])
def test_that_too_few_checkpoints_are_told(run: Path, last: int) -> None:
    with pytest.raises(UserError, match="3 checkpoints after the beginning"):
        average_run(run, last=last, device="cpu")


def test_that_a_folder_without_a_run_and_a_run_with_gates_are_refused(run: Path, tmp_path: Path) -> None:
    with pytest.raises(LoadError, match="holds no run"):
        average_run(tmp_path / "nowhere")
    recipe = run / "recipe.toml"
    recipe.write_text(recipe.read_text().replace("l0_penalty = 0.0", "l0_penalty = 0.1"))
    with pytest.raises(UserError, match="which heads to close"):
        average_run(run)


def test_that_the_command_tells_both_losses_and_writes_a_model(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["average", str(run), "-o", str(tmp_path / "mean"), "--last", "3"]) == 0
    told = capsys.readouterr().out
    assert "the mean of the steps 2, 4, 6" in told
    assert "nats per token" in told
    assert "the last alone" in told
    assert torch.isfinite(load(tmp_path / "mean").own.module.tokens.weight).all()
