"""Many runs read from their folders: what each reached, at which cost, and how they differ."""

from pathlib import Path

import numpy as np
import pytest

from attnscope.errors import LoadError
from attnscope.models import own_cost
from attnscope.paths import resources_folder
from attnscope.records import Evaluated, Finished, Started, Step, TrainingEvent, loss_at
from attnscope.training import (
    RunsReader,
    find_runs,
    line_from_event,
    parse_recipe,
    read_runs,
    short_names,
    train,
    write_recipe,
)


def _write_run(folder: Path, recipe: str, *events: tuple[int, TrainingEvent]) -> Path:
    folder.mkdir(parents=True)
    (folder / "recipe.toml").write_text(write_recipe(parse_recipe(recipe)))
    lines = [line_from_event(attempt, event) for attempt, event in events]
    (folder / "metrics.jsonl").write_text("".join(f"{line}\n" for line in lines))
    return folder


def _step(step: int, loss: float = 2.0, n_tokens: int = 0) -> Step:
    values = {"learning_rate": 0.1, "gradient_norm": 1.0, "tokens_per_s": 32.0}
    return Step(step=step, loss=loss, n_tokens=n_tokens, **values)


def _started(step: int) -> Started:
    return Started(folder="", step=step, n_steps=6, n_parameters=1000, device="cpu")


@pytest.mark.slow
def test_that_a_summary_is_what_the_run_told(tiny_recipe: str, tmp_path: Path) -> None:
    told = list(train(tiny_recipe, tmp_path / "run", "cpu"))
    ((run,), left_out) = read_runs([str(tmp_path / "run")])
    looks = [e for e in told if isinstance(e, Evaluated)]
    started = next(e for e in told if isinstance(e, Started))
    assert not left_out
    assert (run.end, run.step, run.n_steps, run.is_converged) == ("done", 6, 6, True)
    assert run.last_accuracy == looks[-1].accuracy
    assert (run.last_loss, run.best_loss) == (looks[-1].loss, min(e.loss for e in looks))
    assert run.n_tokens == 6 * 4 * 16  # steps · batch · max_tokens
    assert run.n_parameters == started.n_parameters
    assert run.n_body == 4 * (16 * 16 + 16) + (16 * 32 + 32 + 32 * 16 + 16) + 3 * 2 * 16  # no embeddings
    np.testing.assert_array_equal(run.validation.values, [e.loss for e in looks])
    # Kaplan et al. 2020: about 6 operations a token for each parameter in a matrix; scores come on top
    assert 6.0 * (run.n_body + 300 * 16) * run.n_tokens * 0.8 < run.flops < 12.0 * 8000 * run.n_tokens


def test_that_a_later_attempt_replaces_what_it_does_again(tiny_recipe: str, tmp_path: Path) -> None:
    first = [
        (1, _started(0)),
        *((1, _step(i, 3.0)) for i in (1, 2, 3)),
        (1, Evaluated(step=3, loss=0.1, accuracy=0)),
    ]
    second = [
        (2, _started(2)),
        (2, _step(3, 1.0, n_tokens=100)),
        (2, Evaluated(step=3, loss=0.9, accuracy=0)),
    ]
    folder = _write_run(tmp_path / "run", tiny_recipe, *first, *second)
    ((run,), _) = read_runs([str(folder)])
    assert (run.best_loss, run.end, run.step) == (0.9, "broken off", 3)
    assert run.n_tokens == 2 * 4 * 16 + 100  # older metrics do not say: text fills its batches
    assert run.seconds == pytest.approx(run.n_tokens / 32.0)


def test_that_the_operations_of_pairs_are_those_of_both_texts(tmp_path: Path) -> None:
    recipe = (resources_folder() / "recipes" / "entailment.toml").read_text()
    read = [(1, _step(k, n_tokens=64 * (11 + 11))) for k in (1, 2)]
    ((run,), _) = read_runs([str(_write_run(tmp_path / "run", recipe, (1, _started(0)), *read))])
    both = own_cost(parse_recipe(recipe).model, 11).forward  # of two texts, each of 11 tokens
    assert run.flops == pytest.approx(3 * both * 64 * 2)


def test_that_only_what_was_appended_is_read_again(tiny_recipe: str, tmp_path: Path) -> None:
    folder = _write_run(tmp_path / "run", tiny_recipe, (1, _started(0)), (1, _step(1)))
    reader = RunsReader()
    *_, before = reader.read([str(folder)])
    with (folder / "metrics.jsonl").open("a") as stream:
        stream.write(
            line_from_event(1, _step(2)) + "\n" + line_from_event(1, Finished(step=2, reason="stopped"))
        )
        stream.write("\n")
    *_, after = reader.read([str(folder)])
    assert not isinstance(before, str)
    assert not isinstance(after, str)
    assert [before[0][0].step, after[0][0].step] == [1, 2]
    assert after[0][0].end == "stopped"


def test_that_runs_tell_in_what_they_differ_and_come_in_order(tiny_recipe: str, tmp_path: Path) -> None:
    for width in (128, 64, 8):
        recipe = tiny_recipe.replace("d_model = 16", f"d_model = {width}")
        _write_run(tmp_path / f"d_model={width}", recipe, (1, _started(0)))
    (tmp_path / "notes").mkdir()
    runs, left_out = read_runs([str(tmp_path), str(tmp_path / "notes")])
    assert [run.name for run in runs] == ["d_model=8", "d_model=64", "d_model=128"]
    assert [run.settings for run in runs] == [(("model.d_model", str(w)),) for w in (8, 64, 128)]
    assert left_out == (f"{tmp_path / 'notes'}: no run there or below",)


def test_that_a_run_whose_recipe_is_damaged_is_left_out_with_the_reason(
    tiny_recipe: str, tmp_path: Path
) -> None:
    _write_run(tmp_path / "a", tiny_recipe, (1, _started(0)))
    broken = _write_run(tmp_path / "b", tiny_recipe, (1, _started(0)))
    (broken / "recipe.toml").write_text("[model]\nd_model = 0\n")
    runs, left_out = read_runs([str(tmp_path)])
    assert [run.name for run in runs] == ["a"]
    assert left_out[0].startswith(f"{broken}: ")


def test_that_a_folder_without_runs_is_a_load_error(tmp_path: Path) -> None:
    with pytest.raises(LoadError, match="There is no run in"):
        find_runs([str(tmp_path)])


def test_that_names_are_as_long_as_it_takes_to_differ(tmp_path: Path) -> None:
    folders = [tmp_path / "one" / "run", tmp_path / "two" / "run"]
    assert list(short_names(folders).values()) == ["one/run", "two/run"]


def test_that_a_sweep_chooses_by_the_loss_that_was_told_however_many_there_were(
    tiny_recipe: str, tmp_path: Path
) -> None:
    n = 1500
    looks = [(1, Evaluated(step=k, loss=9.0 if k % 2 else 1.0, accuracy=0)) for k in range(1, n + 1)]
    folder = _write_run(tmp_path / "run", tiny_recipe, (1, _started(0)), *looks)
    ((run,), _) = read_runs([str(folder)])
    assert [loss_at(run, step) for step in (3, 700, 701, n)] == [9.0, 1.0, 9.0, 1.0]
