"""Techniques of training: the same gradients from less memory, memory that runs out, compiling, looking."""

import math
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

from attnscope.errors import RecipeError
from attnscope.models import read_model_folder
from attnscope.nn import ModelConfig, Norm, build_own, build_transformer
from attnscope.records import UPDATE_BINS, Finished, Saved, Started, Step
from attnscope.training import (
    Inspector,
    TrainingRun,
    count_updates,
    differences,
    layer_of,
    loss_sum,
    norm_name,
    parse_recipe,
    prepare,
    read_inspections,
    train,
    write_recipe,
)


def _assert_same_bits(a: Path, b: Path) -> None:
    one, other = (read_model_folder(folder).module.state_dict() for folder in (a, b))
    assert all(torch.equal(one[name], other[name]) for name in one)


@pytest.mark.parametrize("form", ["tiny", "task"])
def test_that_recomputing_gives_the_same_gradients(form: str, tiny_recipe: str, task_recipe: str) -> None:
    recipe = parse_recipe(tiny_recipe if form == "tiny" else task_recipe)
    data = prepare(recipe)
    batch = data.batches.draw(np.random.default_rng(0), 0.0)
    gradients = []
    for is_recomputing in (False, True):
        module = build_own(data.fitted(recipe.model), 0).train()
        module.is_recomputing = is_recomputing
        torch.manual_seed(0)  # for the dropout of the task's recipe
        torch.autograd.backward(loss_sum(module, batch))
        gradients.append({name: p.grad for name, p in module.named_parameters()})
    for name, gradient in gradients[0].items():
        assert torch.equal(gradient, gradients[1][name]), name


@pytest.mark.slow
@pytest.mark.parametrize(
    "changes",
    [
        {"training.checkpointing": "true"},
        {"optimizer.kind": "adam"},
        {"optimizer.kind": "sgd", "start.layer_decay": "0.5"},
        {"objective.kind": "span-corruption"},
        {"objective.kind": "masked", "objective.next_sentence": "true"},
    ],
)
def test_that_stopping_and_resuming_changes_nothing(
    tiny_recipe: str, tmp_path: Path, changes: dict[str, str]
) -> None:
    changes = {"schedule.kind": "constant", **changes}
    straight = [e.loss for e in train(tiny_recipe, tmp_path / "a", "cpu", changes) if isinstance(e, Step)]
    list(train(tiny_recipe, tmp_path / "b", "cpu", {**changes, "training.n_steps": "3"}))
    rest = [e.loss for e in train(tiny_recipe, tmp_path / "b", "cpu", changes) if isinstance(e, Step)]
    assert rest == straight[3:]
    _assert_same_bits(tmp_path / "a" / "checkpoints" / "6", tmp_path / "b" / "checkpoints" / "6")


def test_that_what_changes_no_weight_is_no_difference(tiny_recipe: str) -> None:
    plain = parse_recipe(tiny_recipe)
    free = {"training.checkpointing": "true", "training.inspect_every": "2"}
    assert differences(plain, parse_recipe(tiny_recipe, overrides=free)) == ()
    weighty = {
        "start.layer_decay": "0.5",
        "gates.l0_penalty": "0.1",
        "training.compile": '"on"',
        "objective.mean_span": "2.0",
        "start.from": "grammar",
    }
    changed = parse_recipe(tiny_recipe, overrides=weighty)
    assert {line.split(":")[0] for line in differences(plain, changed)} >= set(weighty)
    assert parse_recipe(write_recipe(changed)) == changed


# -- memory that runs out -----------------------------------------------------------------------------


@pytest.mark.slow
def test_that_a_device_without_memory_ends_the_run_with_what_would_fit(
    tiny_recipe: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe = parse_recipe(tiny_recipe, overrides={"training.save_every": "2"})
    run = TrainingRun(recipe, tmp_path / "run", "cpu")
    steps = 0

    def fake(*arguments: object) -> torch.Tensor:
        nonlocal steps
        steps += 1
        if steps > 3:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")
        return loss_sum(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(run._begun.loss, "compute", fake)
    events = list(run.events())
    last = events[-1]
    assert isinstance(last, Finished)
    assert (last.reason, last.step) == ("out-of-memory", 3)
    assert "training.batch_size 2 and training.accumulate 2" in last.note
    assert "The checkpoint of step 2 is kept" in last.note
    assert [e.step for e in events if isinstance(e, Saved)] == [0, 2]
    assert all(p.grad is None for p in run.model.own.module.parameters())
    assert run.model.trace("Speak, speak.").check().is_good


def test_that_another_error_is_none_of_memory(
    tiny_recipe: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = TrainingRun(parse_recipe(tiny_recipe), tmp_path / "run", "cpu")

    def fake(*_: object) -> torch.Tensor:
        raise RuntimeError("shapes do not fit")

    monkeypatch.setattr(run._begun.loss, "compute", fake)
    with pytest.raises(RuntimeError, match="shapes do not fit"):
        list(run.events())


# -- compiling ------------------------------------------------------------------------------------------


def _first_note(recipe: str, folder: Path) -> str:
    events = list(train(recipe, folder, "cpu", {"training.compile": '"on"'}))
    assert isinstance(events[-1], Finished)
    assert events[-1].reason == "done"
    assert isinstance(events[0], Started)
    return events[0].note


@pytest.mark.slow
def test_that_a_compiled_loss_is_used_and_one_that_fails_is_not(
    tiny_recipe: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = []

    def counting(*arguments: object) -> torch.Tensor:
        calls.append(arguments)
        return loss_sum(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(torch, "compile", lambda _function: counting)
    assert "Compiled in" in _first_note(tiny_recipe, tmp_path / "good")
    assert len(calls) == 1 + 6

    def failing(*_: object) -> torch.Tensor:
        raise RuntimeError("no such operator\nand a long story")

    monkeypatch.setattr(torch, "compile", lambda _function: failing)
    note = _first_note(tiny_recipe, tmp_path / "bad")
    assert "Not compiled: no such operator" in note
    assert "story" not in note
    list(train(tiny_recipe, tmp_path / "plain", "cpu"))
    for other in ("good", "bad"):
        _assert_same_bits(tmp_path / "plain" / "checkpoints" / "6", tmp_path / other / "checkpoints" / "6")


def test_that_a_computer_without_compiler_trains_without(
    tiny_recipe: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "which", lambda _name: None)
    assert "there is no C++ compiler" in _first_note(tiny_recipe, tmp_path / "run")


# -- looking at single steps -----------------------------------------------------------------------------


@pytest.mark.slow
def test_that_inspected_steps_tell_norms_and_updates_and_change_nothing(
    tiny_recipe: str, tmp_path: Path
) -> None:
    looked, plain = tmp_path / "looked", tmp_path / "plain"
    often = {"training.inspect_every": "2", "training.save_every": "1"}
    steps = [e for e in train(tiny_recipe, looked, "cpu", often) if isinstance(e, Step)]
    list(train(tiny_recipe, plain, "cpu"))
    _assert_same_bits(looked / "checkpoints" / "6", plain / "checkpoints" / "6")
    found = read_inspections(looked)
    assert [i.step for i in found] == [2, 4, 6]
    assert read_inspections(plain) == ()
    for inspection in found:
        step = steps[inspection.step - 1]
        assert math.hypot(*inspection.gradient_norms) == pytest.approx(step.gradient_norm, rel=1e-4)
        before, after = (
            read_model_folder(looked / "checkpoints" / str(n)).module.state_dict()
            for n in (inspection.step - 1, inspection.step)
        )
        updates = dict(zip(inspection.layers, inspection.update_norms, strict=True))
        for layer in updates:
            names = [name for name in after if layer_of(name) == layer]
            slow = math.sqrt(sum(float((after[n] - before[n]).double().square().sum()) for n in names))
            assert updates[layer] == pytest.approx(slow, rel=1e-5)
        first = read_model_folder(looked / "checkpoints" / "0").module.state_dict()
        for layer, moved in zip(inspection.layers, inspection.moved_norms, strict=True):
            names = [name for name in after if layer_of(name) == layer]
            slow = math.sqrt(sum(float((after[n] - first[n]).double().square().sum()) for n in names))
            assert moved == pytest.approx(slow, rel=1e-5)
        n_weights = sum(tensor.numel() for tensor in after.values())
        assert sum(inspection.update_counts) + inspection.n_still == n_weights


@pytest.mark.slow
def test_that_a_resumed_run_counts_what_has_added_up_from_its_first_weights(
    tiny_recipe: str, tmp_path: Path
) -> None:
    often = {"training.inspect_every": "2", "training.save_every": "1"}
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    list(train(tiny_recipe, whole, "cpu", often))
    for event in train(tiny_recipe, parts, "cpu", often):
        if isinstance(event, Step) and event.step == 3:
            break
    list(train(tiny_recipe, parts, "cpu", often))
    once, again = read_inspections(whole), read_inspections(parts)
    assert [i.step for i in again] == [2, 4, 6]
    for a, b in zip(once, again, strict=True):
        np.testing.assert_allclose(b.moved_norms, a.moved_norms, rtol=1e-6)
    shutil.rmtree(parts / "checkpoints" / "0")
    longer = {**often, "training.n_steps": "8"}
    list(train(tiny_recipe, parts, "cpu", longer, may_lengthen=True))
    last = read_inspections(parts)[-1]
    assert (last.step, last.moved_norms) == (8, ())
    assert len(last.norm_inputs) == len(last.norms) > 0


def test_that_the_size_of_what_a_norm_reads_is_the_root_of_the_mean_square(tmp_path: Path) -> None:
    config = ModelConfig(
        form="encoder-decoder", vocab_size=11, d_model=8, n_layers=2, n_heads=2, d_ff=16, max_tokens=8
    )
    module = build_transformer(config, 0)
    read: dict[str, list[torch.Tensor]] = {}
    inspector = Inspector(module, tmp_path, 2)
    for step in (1, 2):
        with inspector.reading(step):
            for ids in (torch.tensor([[1, 2, 3]]), torch.tensor([[4, 5], [6, 7]])):  # two batches of a step
                stream = module.encode(ids)
                module.decode(ids, memory=stream)
        with inspector.looking_at(step, 1e-3, 0.0):
            pass
    (found,) = read_inspections(tmp_path)
    handles = [
        norm.register_forward_pre_hook(lambda _m, x, name=name: read.setdefault(name, []).append(x[0]))
        for name, norm in module.named_modules()
        if isinstance(norm, Norm)
    ]
    for ids in (torch.tensor([[1, 2, 3]]), torch.tensor([[4, 5], [6, 7]])):
        module.decode(ids, memory=module.encode(ids))
    for handle in handles:
        handle.remove()
    assert found.norms[:3] == ("encoder L0 attention", "encoder L0 feed-forward", "encoder L1 attention")
    assert found.norms[-1] == "decoder norm"
    assert set(found.norms) == set(map(norm_name, read))
    told = dict(zip(found.norms, found.norm_inputs, strict=True))
    for name, parts in read.items():
        value = told[norm_name(name)]
        numbers = [v for part in parts for v in part.double().flatten().tolist()]
        assert value == pytest.approx(math.sqrt(sum(v * v for v in numbers) / len(numbers)), rel=1e-6)
    assert not any(m._forward_pre_hooks for m in module.modules())
    assert norm_name("encoder.3.feed_forward_end") == "encoder L3 feed-forward, after"


def test_that_updates_are_counted_by_their_order_of_magnitude() -> None:
    changes = [torch.tensor([0.0, 1.1e-3, -1.1e-3]), torch.tensor([[5.0, 1e-30], [1e9, 0.0]])]
    counts, n_still = count_updates(changes)
    slow = [0] * (len(UPDATE_BINS) - 1)
    for value in (1.1e-3, 1.1e-3, 5.0, 1e-30, 1e9):
        log = math.log10(value)
        slow[next((i for i in range(len(slow)) if log < UPDATE_BINS[i + 1]), len(slow) - 1)] += 1
    assert list(counts) == slow
    assert n_still == 2


def test_that_broken_lines_of_inspections_are_passed_over(tiny_recipe: str, tmp_path: Path) -> None:
    list(train(tiny_recipe, tmp_path / "run", "cpu", {"training.inspect_every": "3"}))
    path = tmp_path / "run" / "inspections.jsonl"
    whole = path.read_bytes()
    path.write_bytes(whole + b'[1]\n{"step": 9}\n\xff\n' + whole.splitlines()[0][:40])
    assert [i.step for i in read_inspections(tmp_path / "run")] == [3, 6]
    path.write_bytes(whole + whole.splitlines(keepends=True)[0])  # resumed at step 2
    assert [i.step for i in read_inspections(tmp_path / "run")] == [3]


@pytest.mark.parametrize(
    ("changes", "found"),
    [
        ({"training.compile": '"fast"'}, 'training.compile is "fast"'),
        ({"training.checkpointing": "1"}, "training.checkpointing is 1"),
        ({"training.inspect_every": "-1"}, "training.inspect_every is -1"),
        ({"optimizer.kind": '"adamm"'}, 'optimizer.kind is "adamm"'),
    ],
)
def test_that_impossible_techniques_are_refused(
    tiny_recipe: str, changes: dict[str, str], found: str
) -> None:
    with pytest.raises(RecipeError) as caught:
        parse_recipe(tiny_recipe, overrides=changes)
    assert found in str(caught.value)
