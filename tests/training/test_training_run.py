"""The loop as a generator of events, its run folder, and a resume that changes nothing."""

import json
import math
from pathlib import Path

import numpy as np
import pytest
import torch

from attnscope.errors import LoadError, RecipeError
from attnscope.models import load, read_model_folder
from attnscope.records import Evaluated, Finished, Saved, Started, Step, TrainingEvent, Watched
from attnscope.trace import load_traces
from attnscope.training import (
    Metrics,
    TrainingRun,
    in_order,
    line_from_event,
    load_state,
    mend_metrics,
    parse_recipe,
    read_metric_lines,
    read_run,
    train,
)

pytestmark = pytest.mark.slow


def _weights(folder: Path) -> dict[str, torch.Tensor]:
    return read_model_folder(folder).module.state_dict()


def _assert_same_bits(a: dict[str, torch.Tensor], b: dict[str, torch.Tensor]) -> None:
    assert a.keys() == b.keys()
    for name in a:
        assert torch.equal(a[name], b[name]), f"{name} differs by {(a[name] - b[name]).abs().max()}"


def test_that_a_run_tells_started_steps_evaluations_saves_and_finished(
    tiny_recipe: str, tmp_path: Path
) -> None:
    events = list(train(tiny_recipe, tmp_path / "run", "cpu"))
    kinds = [type(event) for event in events]
    assert kinds == [
        Started,
        Saved,
        Step,
        Step,
        Step,
        Evaluated,
        Step,
        Step,
        Step,
        Evaluated,
        Saved,
        Finished,
    ]
    assert [event.step for event in events if isinstance(event, Step)] == [1, 2, 3, 4, 5, 6]
    assert isinstance(events[-1], Finished)
    assert events[-1].reason == "done"


def test_that_the_first_loss_is_that_of_guessing(tiny_recipe: str, tmp_path: Path) -> None:
    run = TrainingRun(parse_recipe(tiny_recipe), tmp_path / "run", "cpu")
    first = next(event for event in run.events() if isinstance(event, Step))
    assert first.loss == pytest.approx(math.log(run.model.own.config.vocab_size), abs=0.1)
    assert first.learning_rate == pytest.approx(0.5e-3)
    assert first.gradient_norm > 0
    assert first.tokens_per_s > 0


def test_that_a_run_learns(tiny_recipe: str, tmp_path: Path) -> None:
    fast = {"training.n_steps": "60", "optimizer.learning_rate": "0.01", "schedule.kind": "constant"}
    losses = [e.loss for e in train(tiny_recipe, tmp_path / "run", "cpu", fast) if isinstance(e, Step)]
    assert losses[-1] < 0.6 * losses[0]


@pytest.mark.parametrize("optimizer", ["adamw", "radam", "muon"])
@pytest.mark.parametrize(
    "values",
    [
        {},
        {"training.accumulate": "2"},
        {"model.dropout": "0", "model.attention_dropout": "0.3"},
        {"objective.guided_head": "L0H1"},
    ],
    ids=["plain", "accumulated", "weights dropped", "guided"],
)
def test_that_stopping_and_resuming_gives_the_same_bits(
    task_recipe: str, tmp_path: Path, optimizer: str, values: dict[str, str]
) -> None:
    overrides = {"optimizer.kind": optimizer, **values}
    recipe = parse_recipe(task_recipe, overrides=overrides)
    straight = [e for e in TrainingRun(recipe, tmp_path / "straight", "cpu").events() if isinstance(e, Step)]
    run = TrainingRun(recipe, tmp_path / "halves", "cpu")
    first: list[TrainingEvent] = []
    for event in run.events():
        first.append(event)
        if event.step == 3 and isinstance(event, Step):
            run.request_stop()
            run.model.trace("a b c", "c b a")  # looking does not disturb
            torch.rand(5)
    assert isinstance(first[-1], Finished)
    assert first[-1].reason == "stopped"
    second = list(TrainingRun(recipe, tmp_path / "halves", "cpu").events())
    assert isinstance(second[0], Started)
    assert second[0].step == 3
    losses = [e.loss for e in [*first, *second] if isinstance(e, Step)]
    assert losses == [e.loss for e in straight]
    _assert_same_bits(
        _weights(tmp_path / "straight" / "checkpoints" / "6"),
        _weights(tmp_path / "halves" / "checkpoints" / "6"),
    )


def test_that_accumulating_equals_one_large_batch_of_the_same_examples(
    tiny_recipe: str, tmp_path: Path
) -> None:
    run = TrainingRun(
        parse_recipe(tiny_recipe, overrides={"training.accumulate": "3", "training.precision": "float32"}),
        tmp_path / "a",
        "cpu",
    )
    step = next(event for event in run.events() if isinstance(event, Step))
    rng = np.random.default_rng((3, 1))
    batches = [run._begun.data.batches.draw(rng, 0.0) for _ in range(3)]
    fresh = TrainingRun(parse_recipe(tiny_recipe), tmp_path / "b", "cpu").model.own.module
    ids, labels = (torch.cat([getattr(b, name) for b in batches]) for name in ("ids", "labels"))
    logits = fresh(ids).flatten(0, 1)
    expected = torch.nn.functional.cross_entropy(logits, labels)
    expected.backward()
    norm = torch.stack([p.grad.norm() for p in fresh.parameters() if p.grad is not None]).norm()
    assert step.loss == pytest.approx(expected.item(), rel=1e-5)
    assert step.gradient_norm == pytest.approx(norm.item(), rel=1e-4)


def test_that_the_model_in_training_can_be_traced_between_two_events(
    tiny_recipe: str, tmp_path: Path
) -> None:
    run = TrainingRun(parse_recipe(tiny_recipe), tmp_path / "run", "cpu")
    seen = []
    for event in run.events():
        if isinstance(event, Step):
            trace = run.model.trace("Speak, speak.")
            assert trace.check().is_good
            seen.append(trace.weights(("decoder", 0), 0))
    assert not np.array_equal(seen[0], seen[-1], equal_nan=True)


def test_that_the_run_folder_holds_what_the_design_says(tiny_recipe: str, tmp_path: Path) -> None:
    recipe = tiny_recipe + '[[watch]]\ntext = "Speak, speak."\n[[watch]]\ntext = ""\n'
    events = tuple(train(recipe, tmp_path / "run", "cpu", {"training.save_every": "2"}))
    record = read_run(tmp_path / "run")
    assert record.events == events
    assert record.n_bad_lines == 0
    assert [step for step, _ in record.checkpoints] == [0, 2, 4, 6]
    assert parse_recipe(record.recipe) == parse_recipe(recipe, overrides={"training.save_every": "2"})
    for step, folder in record.checkpoints:
        assert load(folder).own.card.training["step"] == step
        trace = load_traces(tmp_path / "run" / "probes" / f"{step}.safetensors")[0]
        assert trace.tokens(0)[0][1].piece == "S"
    assert load(tmp_path / "run").own.card.training["step"] == 6


def test_that_a_finished_run_has_nothing_more_to_do(tiny_recipe: str, tmp_path: Path) -> None:
    list(train(tiny_recipe, tmp_path / "run", "cpu"))
    again = list(train(tiny_recipe, tmp_path / "run", "cpu"))
    assert [type(event) for event in again] == [Started, Finished]


def test_that_a_run_goes_on_with_more_steps_where_the_schedule_allows_it(
    tiny_recipe: str, tmp_path: Path
) -> None:
    constant = {"schedule.kind": "constant"}
    list(train(tiny_recipe, tmp_path / "run", "cpu", constant))
    longer = list(train(tiny_recipe, tmp_path / "run", "cpu", {**constant, "training.n_steps": "8"}))
    assert [event.step for event in longer if isinstance(event, Step)] == [7, 8]
    steps = [event.step for event in read_run(tmp_path / "run").events if isinstance(event, Step)]
    assert steps == list(range(1, 9))


def test_that_bfloat16_trains_and_keeps_weights_in_float32(tiny_recipe: str, tmp_path: Path) -> None:
    run = TrainingRun(
        parse_recipe(tiny_recipe, overrides={"training.precision": "bfloat16"}), tmp_path / "r", "cpu"
    )
    losses = [event.loss for event in run.events() if isinstance(event, Step)]
    plain = [e.loss for e in train(tiny_recipe, tmp_path / "p", "cpu") if isinstance(e, Step)]
    assert losses == pytest.approx(plain, rel=0.02)
    assert {p.dtype for p in run.model.own.module.parameters()} == {torch.float32}


def test_that_a_masked_model_trains_on_the_same_text(tiny_recipe: str, tmp_path: Path) -> None:
    masked = {"objective.kind": "masked", "data.repeated_share": "0.3"}
    events = list(train(tiny_recipe, tmp_path / "run", "cpu", masked))
    assert sum(isinstance(event, Evaluated) for event in events) == 2
    assert load(tmp_path / "run").info.objective == "masked"


def test_that_pairs_of_sentences_train_a_translation_model(tmp_path: Path) -> None:
    pairs = "".join(f"the cat number {i}\tle chat numéro {i}\n" for i in range(40))
    (tmp_path / "pairs.tsv").write_text(pairs, encoding="utf-8")
    recipe = f"""
[model]
d_model = 16
d_ff = 32
max_tokens = 8
[tokenizer]
kind = "bpe"
vocab_size = 120
[data]
kind = "pairs"
path = "{tmp_path / "pairs.tsv"}"
[objective]
kind = "translation"
[training]
n_steps = 2
batch_size = 4
"""
    list(train(recipe, tmp_path / "run", "cpu"))
    assert load(tmp_path / "run").info.objective == "translation"


def test_that_a_recipe_file_that_is_not_there_is_a_load_error(tmp_path: Path) -> None:
    with pytest.raises(LoadError) as caught:
        list(train(tmp_path / "none.toml", tmp_path / "run"))
    assert caught.value.kind == "recipe"


def test_that_a_folder_without_a_run_is_a_load_error(tmp_path: Path) -> None:
    with pytest.raises(LoadError) as caught:
        read_run(tmp_path)
    assert caught.value.kind == "run"


def test_that_too_little_text_is_a_recipe_error(tmp_path: Path, tiny_recipe: str, text_file: Path) -> None:
    text_file.write_text("\n\nword\n")
    with pytest.raises((RecipeError, LoadError)):
        list(train(tiny_recipe, tmp_path / "run", "cpu"))
    assert not (tmp_path / "run" / "recipe.toml").exists()


# -- metrics.jsonl ------------------------------------------------------------------------------


def _step(step: int, loss: float = 1.0) -> Step:
    return Step(step=step, loss=loss, learning_rate=1e-3, gradient_norm=0.5, tokens_per_s=10.0)


def _started(step: int) -> Started:
    return Started(folder="f", step=step, n_steps=9, n_parameters=1, device="cpu")


def test_that_events_are_told_by_attempt_and_step_whatever_their_order_in_the_file() -> None:
    lines: list[tuple[int, TrainingEvent]] = [
        (2, _step(4, 0.2)),
        (1, _step(5, 0.9)),
        (1, _started(0)),
        (1, _step(3, 0.3)),
        (2, _started(3)),
        (1, _step(4, 0.8)),
    ]
    story = in_order(lines)
    assert [(type(e).__name__, e.step) for e in story] == [
        ("Started", 0),
        ("Step", 3),
        ("Started", 3),
        ("Step", 4),
    ]
    assert isinstance(story[-1], Step)
    assert story[-1].loss == 0.2


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_that_a_loss_that_is_no_number_is_strict_json(tmp_path: Path, value: float) -> None:
    line = line_from_event(1, _step(1, value))
    assert json.loads(line)["loss"] is None
    (tmp_path / "m").write_text(line + "\n")
    ((_, event),), n_bad = read_metric_lines(tmp_path / "m")
    assert n_bad == 0
    assert isinstance(event, Step)
    assert math.isnan(event.loss)


def test_that_each_opening_of_the_metrics_begins_a_new_attempt(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    for attempt in (1, 2, 3):
        metrics = Metrics(path)
        metrics.open()
        assert metrics.attempt == attempt
        metrics.add(_started(0))
        assert metrics.flush()


@pytest.mark.parametrize(
    "tail",
    [
        b'{"attempt": 1, "event": "st',
        b"\x00" * 40,
        b"\x00" * 40 + b"\n",
        b"[1]\n",
        b'{"attempt": 1, "event": "step", "step": "x"}\n',
        b'{"attempt": 1, "event": "flown", "step": 1}\n',
        b"\xff\xfe\n",
        b"[" * 3000 + b"\n",
    ],
)
def test_that_a_broken_tail_moves_to_a_file_ending_in_corrupt(tmp_path: Path, tail: bytes) -> None:
    path = tmp_path / "metrics.jsonl"
    good = (line_from_event(1, _started(0)) + "\n").encode()
    path.write_bytes(good + tail)
    (_, event), *_ = read_metric_lines(path)[0]
    assert event == _started(0)
    assert mend_metrics(path) == 1
    assert path.read_bytes() == good
    assert (tmp_path / "metrics.jsonl.corrupt").read_bytes() == tail


def test_that_a_process_that_gets_its_parts_elsewhere_reads_only_the_shapes_of_a_state(
    tiny_recipe: str, tmp_path: Path
) -> None:
    list(train(tiny_recipe, tmp_path / "run", "cpu", {"training.n_steps": "1"}))
    path = tmp_path / "run" / "checkpoints" / "1" / "state.safetensors"
    (state, whole), (same, shapes) = load_state(path), load_state(path, has_values=False)
    assert state == same
    assert {n: (t.shape, t.dtype) for n, t in whole.items()} == {
        n: (t.shape, t.dtype) for n, t in shapes.items()
    }
    counters = {name for name, tensor in whole.items() if not tensor.ndim}
    assert counters
    assert all(shapes[name] == whole[name] for name in counters)
    path.write_bytes(path.read_bytes()[:-5])
    with pytest.raises(LoadError, match="damaged"):
        load_state(path, has_values=False)


def test_that_early_steps_keep_the_attention_of_watched_sentences_and_no_model(
    tiny_recipe: str, tmp_path: Path
) -> None:
    recipe = tiny_recipe + '[[watch]]\ntext = "Speak, speak."\n'
    events = tuple(train(recipe, tmp_path / "run", "cpu", {"training.save_every": "4"}))
    record = read_run(tmp_path / "run")
    assert [step for step, _ in record.checkpoints] == [0, 4, 6]
    assert [event.step for event in events if isinstance(event, Watched)] == [1, 2, 5]
    assert [step for step, _ in record.probes] == [0, 1, 2, 4, 5, 6]
    alike = load(tmp_path / "run").trace("Speak, speak.")
    kept = load_traces(record.probes[-1][1])[0]
    assert np.array_equal(kept.weights(0, 0), alike.weights(0, 0), equal_nan=True)


def test_that_what_the_model_made_of_a_watched_sentence_is_kept_with_its_attention(
    tiny_recipe: str, tmp_path: Path
) -> None:
    recipe = tiny_recipe + '[[watch]]\ntext = "Speak, speak."\n'
    list(train(recipe, tmp_path / "run", "cpu", {"training.save_every": "4"}))
    said = load_traces(tmp_path / "run" / "probes" / "6.safetensors")[0].said
    assert said is not None
    output = load(tmp_path / "run").predict("Speak, speak.", top=1)
    assert said.predictions[-1].candidates[0].token.piece == output.predictions[-1].candidates[0].token.piece
    assert said.predictions[-1].candidates[0].probability == pytest.approx(
        output.predictions[-1].candidates[0].probability, rel=1e-6
    )
    assert said.generated == output.generated


def test_that_looking_at_early_steps_changes_nothing_of_a_run(tiny_recipe: str, tmp_path: Path) -> None:
    watching = tiny_recipe + '[[watch]]\ntext = "Speak, speak."\n'
    losses = [
        [event.loss for event in train(text, tmp_path / name, "cpu") if isinstance(event, Step)]
        for name, text in (("with", watching), ("without", tiny_recipe))
    ]
    assert losses[0] == losses[1]
