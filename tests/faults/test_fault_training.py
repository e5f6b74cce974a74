"""Training survives what machines do to it: F22, F33, F34, F37 to F43."""

import errno
import json
import os
from pathlib import Path

import pytest
import torch
from forked import start

from attnscope.errors import LoadError, RecipeError, SaveError
from attnscope.files import check_manifest
from attnscope.models import load, read_model_folder
from attnscope.records import Evaluated, Finished, Saved, SaveFailed, Step
from attnscope.training import TrainingRun, parse_recipe, read_run, train

RECIPE = """
[model]
d_model = 16
n_layers = 1
n_heads = 2
d_ff = 32
max_tokens = 24

[data]
kind = "task"
task = "copy"
max_words = 6
n_examples = 40

[objective]
kind = "translation"

[training]
n_steps = 6
batch_size = 4
seed = 3
evaluate_every = 100
evaluation_batches = 1
save_every = 2
"""


def _run(out: Path, **overrides: str) -> TrainingRun:
    changes = {name.replace("__", "."): value for name, value in overrides.items()}
    return TrainingRun(parse_recipe(RECIPE, overrides=changes), out, "cpu")


@pytest.mark.parametrize("values", [{"d_model": "65536", "d_ff": "262144", "n_layers": "1024"}])
def test_f22_that_a_model_too_large_for_this_machine_is_refused_on_paper(
    tmp_path: Path, values: dict[str, str]
) -> None:
    with pytest.raises(RecipeError) as caught:
        _run(tmp_path / "run", **{f"model__{name}": value for name, value in values.items()})
    assert "parameters" in str(caught.value)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        (b"", "empty"),
        (b"\n \n\r\n", "empty"),
        (b"one line", "too-short"),
        (b"good\n\xff\xfe bad\n", "not-utf-8"),
    ],
)
def test_f33_that_a_broken_text_is_refused_and_no_run_is_begun(
    tmp_path: Path, content: bytes, kind: str
) -> None:
    (tmp_path / "text.txt").write_bytes(content)
    overrides = {
        "data.kind": "text",
        "data.path": str(tmp_path / "text.txt"),
        "objective.kind": "causal",
        "tokenizer.kind": "characters",
    }
    recipe = RECIPE.replace('task = "copy"\nmax_words = 6\n', "")
    with pytest.raises(LoadError) as caught:
        TrainingRun(parse_recipe(recipe, overrides=overrides), tmp_path / "run", "cpu")
    assert caught.value.kind == kind
    assert not (tmp_path / "run").exists()


def test_f33_that_windows_line_ends_train_like_unix_ones(tmp_path: Path) -> None:
    losses = []
    for name, end in (("unix", b"\n"), ("windows", b"\r\n")):
        (tmp_path / f"{name}.txt").write_bytes(end.join([b"speak the speech I pray you"] * 20))
        recipe = RECIPE.replace('task = "copy"\nmax_words = 6\n', "")
        overrides = {
            "data.kind": "text",
            "data.path": str(tmp_path / f"{name}.txt"),
            "objective.kind": "causal",
            "tokenizer.kind": "characters",
            "tokenizer.vocab_size": "60",
            "training.n_steps": "2",
        }
        run = TrainingRun(parse_recipe(recipe, overrides=overrides), tmp_path / name, "cpu")
        losses.append([event.loss for event in run.events() if isinstance(event, Step)])
    assert losses[0] == losses[1]


def test_f34_that_a_loss_that_is_no_number_ends_the_run_and_keeps_the_last_good_checkpoint(
    tmp_path: Path,
) -> None:
    run = _run(tmp_path / "run")
    events = []
    for event in run.events():
        events.append(event)
        if isinstance(event, Step) and event.step == 3:
            with torch.no_grad():
                run.model.own.module.tokens.weight[5, 0] = float("nan")
                run.model.own.module.tokens.weight[:, 1] = float("nan")
    last = events[-1]
    assert isinstance(last, Finished)
    assert last.reason == "diverged"
    assert last.step == 3
    for part in ("Step 4", "loss is nan", "gradient norm nan", "learning rate", "checkpoint of step 2"):
        assert part in last.note
    assert [step for step, _ in read_run(tmp_path / "run").checkpoints] == [0, 2]
    assert all(p.isfinite().all() for p in load(tmp_path / "run").own.module.parameters())


@pytest.mark.slow
def test_f34_that_a_learning_rate_far_too_large_ends_in_words_or_in_numbers(tmp_path: Path) -> None:
    run = _run(
        tmp_path / "run", optimizer__learning_rate="100.0", training__n_steps="30", training__clip_norm="0"
    )
    *_, last = run.events()
    assert isinstance(last, Finished)
    assert all(p.isfinite().all() for p in run.model.own.module.parameters())


def test_f34_that_a_diverged_run_can_be_resumed_from_its_last_good_step(tmp_path: Path) -> None:
    run = _run(tmp_path / "run")
    for event in run.events():
        if isinstance(event, Step) and event.step == 3:
            with torch.no_grad():
                run.model.own.module.tokens.weight.fill_(float("inf"))
    again = list(_run(tmp_path / "run").events())
    assert [event.step for event in again if isinstance(event, Step)] == [3, 4, 5, 6]


CHILD = """
import sys
from pathlib import Path
from attnscope.records.runs import Saved
from attnscope.training import train
for event in train(Path(sys.argv[1]).read_text(), sys.argv[2], "cpu", {"training.save_every": "1",
                   "training.n_steps": "10000", "schedule.kind": '"constant"'}):
    if isinstance(event, Saved):
        print(event.step, flush=True)
"""


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="kill -9; runs again on POSIX")
def test_f37_that_a_run_killed_while_saving_resumes_from_a_whole_checkpoint(tmp_path: Path) -> None:
    (tmp_path / "recipe.toml").write_text(RECIPE)
    for n_saves in (3, 7):
        child, told = start(CHILD, tmp_path / "recipe.toml", tmp_path / "run")
        with told:
            for _ in range(n_saves):
                assert told.readline().strip().isdigit()
            child.kill()
        child.join()
        for _, folder in read_run(tmp_path / "run").checkpoints:
            check_manifest(folder)
            read_model_folder(folder)
    overrides = {"training__save_every": "1", "schedule__kind": '"constant"', "training__n_steps": "10000"}
    run = _run(tmp_path / "run", **overrides)
    assert run.step >= 2
    steps = (event for event in run.events() if isinstance(event, Step))
    assert next(steps).step == run.step


class Disk:
    """Makes the disk full from outside: every flush to it fails while `is_full`."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.is_full = False
        self._fsync = os.fsync
        monkeypatch.setattr(os, "fsync", self._sync)

    def _sync(self, descriptor: int) -> None:
        if self.is_full:
            raise OSError(errno.ENOSPC, "No space left on device")
        self._fsync(descriptor)


def test_f38_that_training_goes_on_while_the_disk_is_full_and_saves_when_it_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk, now = Disk(monkeypatch), [0.0]
    recipe = parse_recipe(RECIPE, overrides={"training.n_steps": "12"})
    run = TrainingRun(recipe, tmp_path / "run", "cpu", clock=lambda: now[0])
    events = []
    for event in run.events():
        events.append(event)
        now[0] += 1.0 if isinstance(event, Step) else 0.0
        if isinstance(event, Step):
            disk.is_full = 3 <= event.step < 11
    failed = [event.step for event in events if isinstance(event, SaveFailed)]
    assert failed == [4, 9]  # due at 4; tried again 5 s later; then 10 s later, were the run not over
    saved = [event.step for event in events if isinstance(event, Saved)]
    assert saved == [0, 2, 12]
    assert [event.step for event in events if isinstance(event, Step)] == list(range(1, 13))
    reasons = [event.reason for event in events if isinstance(event, SaveFailed)]
    assert "No space left on device" in reasons[0]
    assert "next attempt is in 5 s" in reasons[0]
    assert "next attempt is in 10 s" in reasons[1]
    assert read_run(tmp_path / "run").events == tuple(events)


def test_f38_that_a_run_that_ends_on_a_full_disk_says_that_its_model_is_only_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = Disk(monkeypatch)
    run = _run(tmp_path / "run")
    events = []
    for event in run.events():
        events.append(event)
        disk.is_full = event.step >= 2
    last = events[-1]
    assert isinstance(last, Finished)
    assert "could not be written" in last.note
    disk.is_full = False
    run.model.save(tmp_path / "elsewhere")
    assert load(tmp_path / "elsewhere").info.n_parameters > 0


def test_f39_that_a_folder_that_cannot_be_made_is_a_save_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(SaveError) as caught:
        _run(tmp_path / "file" / "run")
    assert "Choose another folder" in str(caught.value)


def test_f40_that_a_stop_ends_after_the_step_in_progress_with_a_checkpoint(tmp_path: Path) -> None:
    run = _run(tmp_path / "run", training__save_every="100")
    events = []
    for event in run.events():
        events.append(event)
        if isinstance(event, Step) and event.step == 3:
            run.request_stop()
    assert [type(event) for event in events[-2:]] == [Saved, Finished]
    assert [event.step for event in events[-2:]] == [3, 3]


def test_f40_that_a_generator_that_is_dropped_leaves_a_readable_run(tmp_path: Path) -> None:
    events = _run(tmp_path / "run").events()
    for event in events:
        if isinstance(event, Step) and event.step == 3:
            break
    events.close()
    record = read_run(tmp_path / "run")
    assert [event.step for event in record.events if isinstance(event, Step)] == [1, 2, 3]
    assert [step for step, _ in record.checkpoints] == [0, 2]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "shown"),
    [
        ({"optimizer__learning_rate": "0.5"}, "optimizer.learning_rate: was 0.001, now 0.5"),
        ({"model__d_ff": "64"}, "model.d_ff: was 32, now 64"),
        ({"data__max_words": "5"}, "data.max_words: was 6, now 5"),
        ({"training__seed": "4"}, "training.seed: was 3, now 4"),
    ],
)
def test_f41_that_a_resume_with_another_recipe_is_refused_and_the_difference_shown(
    tmp_path: Path, change: dict[str, str], shown: str
) -> None:
    list(_run(tmp_path / "run").events())
    before = (tmp_path / "run" / "recipe.toml").read_bytes()
    with pytest.raises(RecipeError) as caught:
        _run(tmp_path / "run", **change)
    assert shown in str(caught.value)
    assert (tmp_path / "run" / "recipe.toml").read_bytes() == before


def test_f41_that_a_resume_with_other_data_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "pairs.tsv"
    path.write_text("".join(f"a {i}\tb {i}\n" for i in range(30)))
    recipe = RECIPE.replace('task = "copy"\nmax_words = 6\n', "")
    overrides = {"data.kind": "pairs", "data.path": str(path), "tokenizer.kind": "words"}
    list(train(recipe, tmp_path / "run", "cpu", overrides))
    path.write_text("".join(f"a {i}\tb {i + 1}\n" for i in range(30)))
    with pytest.raises(RecipeError) as caught:
        list(train(recipe, tmp_path / "run", "cpu", overrides))
    assert "data has changed" in str(caught.value)


@pytest.mark.slow
@pytest.mark.parametrize("damage", ["missing", "cut", "checkpoint"])
def test_f41_that_a_resume_without_its_state_is_refused(tmp_path: Path, damage: str) -> None:
    list(_run(tmp_path / "run").events())
    other = tmp_path / "other"
    list(_run(other, training__seed="9").events())
    for step in ("4", "6"):
        checkpoint = tmp_path / "run" / "checkpoints" / step
        state = checkpoint / "state.safetensors"
        if damage == "missing":
            state.unlink()
        elif damage == "cut":
            state.write_bytes(state.read_bytes()[:-7])
        else:  # another run's weights, with a manifest that fits them
            digests = json.loads((checkpoint / "manifest.json").read_bytes())
            for file in (other / "checkpoints" / step).iterdir():
                if file.name not in (state.name, "manifest.json"):
                    (checkpoint / file.name).write_bytes(file.read_bytes())
            theirs = json.loads((other / "checkpoints" / step / "manifest.json").read_bytes())
            digests = {**theirs, state.name: digests[state.name]}
            (checkpoint / "manifest.json").write_text(json.dumps(digests))
    with pytest.raises(LoadError) as caught:
        _run(tmp_path / "run")
    assert caught.value.kind == "state"


@pytest.mark.slow
def test_f42_that_a_cut_line_is_set_aside_and_the_run_goes_on(tmp_path: Path) -> None:
    run = _run(tmp_path / "run")
    for event in run.events():
        if isinstance(event, Step) and event.step == 3:
            run.request_stop()
    path = tmp_path / "run" / "metrics.jsonl"
    path.write_bytes(path.read_bytes() + b'{"attempt": 1, "event": "step", "st' + b"\x00" * 9)
    assert read_run(tmp_path / "run").n_bad_lines == 1
    list(_run(tmp_path / "run").events())
    record = read_run(tmp_path / "run")
    assert record.n_bad_lines == 0
    assert [event.step for event in record.events if isinstance(event, Step)] == [1, 2, 3, 4, 5, 6]
    assert (tmp_path / "run" / "metrics.jsonl.corrupt").read_bytes().endswith(b"\x00")


def test_f43_that_steps_repeated_after_a_resume_are_told_once(tmp_path: Path) -> None:
    events = _run(tmp_path / "run").events()
    for event in events:
        if isinstance(event, Step) and event.step == 3:
            break
    events.close()  # step 3 is in the metrics, but the last checkpoint is of step 2
    list(_run(tmp_path / "run").events())
    record = read_run(tmp_path / "run")
    assert [event.step for event in record.events if isinstance(event, Step)] == [1, 2, 3, 4, 5, 6]
    lines = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert [(e["attempt"], e["step"]) for e in lines if e["event"] == "step"] == [
        *((1, n) for n in (1, 2, 3)),
        *((2, n) for n in (3, 4, 5, 6)),
    ]


def test_f45_that_a_run_without_looks_at_held_out_data_has_none(tmp_path: Path) -> None:
    events = list(_run(tmp_path / "run").events())
    assert [event.step for event in events if isinstance(event, Evaluated)] == [6]
