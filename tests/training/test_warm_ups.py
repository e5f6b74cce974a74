"""Batch-size and length warm-up: what each step reads, against a slow reference; resuming; what it costs."""

import json
import math
import signal
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
import torch
from forked import start

from attnscope.cli.main import main
from attnscope.errors import RecipeError
from attnscope.models import read_model_folder
from attnscope.records import Evaluated, Step
from attnscope.training import (
    Batch,
    BatchMaker,
    Ranks,
    Recipe,
    RunFolder,
    TrainingRun,
    batches_of_step,
    begin,
    drawn_texts,
    drawn_tokens,
    first_batch,
    loop,
    mean_tokens,
    parse_recipe,
    plan_recipe,
    prepare,
    read_run,
    read_runs,
    step_flops,
    texts_at,
    texts_until,
    tokens_at,
    train,
    write_recipe,
)
from attnscope.viewmodels.training import RunCurves, texts_words, tokens_words, work_rows

RECIPES = Path(__file__).parents[2] / "resources" / "recipes"
BOTH = {
    "schedule.batch_warmup_steps": "3",
    "schedule.batch_start": "1",
    "schedule.length_warmup_steps": "4",
    "schedule.length_start": "9",
}
CPU = torch.device("cpu")


def _slow_size(step: int, n_warmup: int, first: int, last: int, rise: str = "linear") -> int:
    """A straight rise from the first step to the one after the warm-up, in exact fractions, rounded down."""
    if step > n_warmup:
        return last
    if rise == "jump":
        return first
    return math.floor(first + Fraction(last - first) * Fraction(step - 1, n_warmup))


@pytest.mark.parametrize("rise", ["linear", "jump"])
@pytest.mark.parametrize(("n_warmup", "first", "last"), [(1, 1, 8), (7, 3, 50), (100, 8, 9), (5, 4, 4)])
def test_that_sizes_grow_in_a_straight_line_or_at_once(
    n_warmup: int, first: int, last: int, rise: str
) -> None:
    recipe = _growing(
        n_steps=30, batch_warmup_steps=n_warmup, batch_start=first, batch_size=last, length_rise=rise
    )
    recipe = parse_recipe(
        write_recipe(recipe),
        overrides={
            "model.max_tokens": str(last + 8),
            "schedule.length_start": str(first + 8),
            "schedule.length_warmup_steps": str(n_warmup),
        },
        needs_data=False,
    )
    for step in range(1, 31):
        assert texts_at(step, recipe) == _slow_size(step, n_warmup, first, last)
        assert tokens_at(step, recipe) == _slow_size(step, n_warmup, first + 8, last + 8, rise)
        read = sum(_slow_size(k, n_warmup, first, last) for k in range(1, step + 1))
        assert texts_until(step, recipe) == read


def test_that_without_a_warm_up_nothing_of_a_recipe_grows(tiny_recipe: str) -> None:
    recipe = parse_recipe(tiny_recipe)
    assert (recipe.schedule.batch_warmup_steps, recipe.schedule.length_warmup_steps) == (0, 0)
    assert (texts_at(1, recipe), tokens_at(1, recipe)) == (4, 16)
    assert drawn_texts(recipe) == drawn_tokens(recipe) == ()
    plan = plan_recipe(recipe, CPU)
    assert (plan.texts, plan.lengths, plan.mean_share) == ((), (), 1.0)
    assert plan.flops == plan.flops_a_step * plan.n_steps


@pytest.mark.slow
@pytest.mark.parametrize("rise", ["linear", "jump"])
def test_that_each_step_on_running_text_reads_windows_of_its_own_size(
    tiny_recipe: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rise: str
) -> None:
    recipe = parse_recipe(
        tiny_recipe, overrides={**BOTH, "schedule.length_rise": rise, "training.accumulate": "2"}
    )
    read = _batches_of(recipe, tmp_path, monkeypatch)
    data = prepare(recipe)
    text = data.batches.training
    assert len(read) == 2 * 6
    for step in range(1, 7):
        n_texts, n_tokens = _slow_size(step, 3, 1, 4), _slow_size(step, 4, 9, 16, rise)
        rng = np.random.default_rng((3, step))
        for batch in read[2 * step - 2 : 2 * step]:
            starts = rng.integers(0, len(text) - n_tokens + 1, size=n_texts)
            expected = [
                [data.tokenizer.begin_id, *(int(text[start + j]) for j in range(n_tokens - 1))]
                for start in starts
            ]
            labels = [int(text[start + j]) for start in starts for j in range(n_tokens)]
            assert batch.ids.tolist() == expected
            assert batch.labels.tolist() == labels


@pytest.mark.slow
def test_that_each_step_on_examples_draws_those_that_are_short_enough(
    task_recipe: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    overrides = {
        **BOTH,
        "schedule.length_start": "5",
        "model.max_tokens": "7",
        "data.min_words": "2",
        "model.dropout": "0",
    }
    recipe = parse_recipe(task_recipe, overrides=overrides)
    read = _batches_of(recipe, tmp_path, monkeypatch)
    rows = prepare(recipe).batches.training
    own = [max(int(n) - 1, int(m)) for n, m in zip(rows.lengths, rows.source_lengths, strict=True)]
    widths = []
    for step, batch in enumerate(read, start=1):
        n_texts, n_tokens = _slow_size(step, 3, 1, 4), _slow_size(step, 4, 5, 7)
        short = [row for row, length in enumerate(own) if length <= n_tokens]
        rng = np.random.default_rng((3, step))
        chosen = [short[k] for k in rng.integers(0, len(short), size=n_texts)]
        expected = rows.batch(np.array(chosen))
        assert torch.equal(batch.ids, expected.ids)
        assert batch.target_ids is not None
        assert expected.target_ids is not None
        assert torch.equal(batch.target_ids, expected.target_ids)
        widths.append(max(batch.ids.shape[1], batch.target_ids.shape[1]))
        assert widths[-1] <= n_tokens
    assert widths[0] <= 5 < max(widths)


OF_TASKS = (
    "reverse",
    "induction",
    "reverse-labels",
    "sentiment-pooling",
    "entailment",
    "questions",
    "tagging",
)


@pytest.mark.parametrize(
    "name", [*OF_TASKS, "next-sentence", "brackets", "few-shot", "induction-memory", "reports"]
)
def test_that_a_bundled_task_has_its_short_examples_first(name: str) -> None:
    source = (RECIPES / f"{name}.toml").read_text()
    small = {"data.n_examples": "200", "training.batch_size": "16", "training.evaluation_batches": "1"}
    whole = prepare(parse_recipe(source, overrides=small)).batches
    lengths = _inner(whole).training.longest_lengths
    n_memory = parse_recipe(source).model.memory_tokens
    if len(set(lengths.tolist())) == 1:
        with pytest.raises(RecipeError, match="examples have"):
            prepare(parse_recipe(source, overrides={**small, **_length(int(lengths[0]) + n_memory)}))
        return
    middle = int(np.median(lengths)) if np.median(lengths) < lengths.max() else int(lengths.min())
    recipe = parse_recipe(source, overrides={**small, **_length(middle + n_memory)})
    shown = first_batch(recipe, n_rows=16)
    assert shown.n_rows == 16
    longest = max(max(len(row.cells), len(row.source)) for row in shown.rows)
    assert longest <= middle + n_memory


OF_TEXT = {
    "shakespeare": {},
    "shakespeare-masked": {},
    "shakespeare-spans": {},
    "shakespeare-pairs": {"objective.next_sentence": "true", "model.n_segments": "2"},
    "shakespeare-prefix": {"model.mask": "prefix", "model.prefix_tokens": "4"},
    "shakespeare-memory": {"model.memory_tokens": "3"},
}


@pytest.mark.slow
@pytest.mark.parametrize("name", list(OF_TEXT))
def test_that_every_objective_of_running_text_trains_on_short_texts_first(
    name: str, text_file: Path, tmp_path: Path
) -> None:
    base = {"shakespeare-pairs": "shakespeare-masked"}.get(
        name, name if name in list(OF_TEXT)[:3] else "shakespeare"
    )
    small = {
        "model.d_model": "8",
        "model.n_heads": "2",
        "model.d_ff": "8",
        "model.n_layers": "1",
        "model.max_tokens": "24",
        "tokenizer.vocab_size": "300",
        "data.path": str(text_file),
        "training.n_steps": "5",
        "training.batch_size": "4",
        "training.evaluate_every": "5",
        "training.evaluation_batches": "1",
        "schedule.batch_warmup_steps": "3",
        "schedule.length_warmup_steps": "3",
        "schedule.length_start": "12",
    }
    recipe = parse_recipe((RECIPES / f"{base}.toml").read_text(), overrides={**small, **OF_TEXT[name]})
    events = list(TrainingRun(recipe, tmp_path / "run", "cpu").events())
    steps = [event for event in events if isinstance(event, Step)]
    assert [step.n_texts for step in steps] == [1, 2, 3, 4, 4]
    assert [step.text_tokens for step in steps] == [12, 16, 20, 24, 24]
    n_stacks = 2 if recipe.model.form == "encoder-decoder" else 1
    for step in steps:
        assert step.n_texts is not None
        assert step.text_tokens is not None
        assert math.isfinite(step.loss)
        assert 0 < step.n_tokens <= n_stacks * step.n_texts * step.text_tokens
        if n_stacks == 1:
            assert step.n_tokens == step.n_texts * step.text_tokens
    assert any(isinstance(event, Evaluated) for event in events)


@pytest.mark.slow
@pytest.mark.parametrize("accumulate", ["1", "3"])
def test_that_a_run_stopped_while_it_warms_up_goes_on_to_the_same_bits(
    task_recipe: str, tmp_path: Path, accumulate: str
) -> None:
    wishes = {
        **BOTH,
        "schedule.length_start": "5",
        "model.max_tokens": "7",
        "training.accumulate": accumulate,
    }
    recipe = parse_recipe(task_recipe, overrides=wishes)
    straight = [e for e in TrainingRun(recipe, tmp_path / "straight", "cpu").events() if isinstance(e, Step)]
    for stop in (2, 4):
        run = TrainingRun(recipe, tmp_path / "parts", "cpu")
        for event in run.events():
            if isinstance(event, Step) and event.step == stop:
                run.request_stop()
    list(TrainingRun(recipe, tmp_path / "parts", "cpu").events())
    told = [event for event in read_run(tmp_path / "parts").events if isinstance(event, Step)]
    assert [(e.loss, e.n_tokens, e.n_texts) for e in told] == [
        (e.loss, e.n_tokens, e.n_texts) for e in straight
    ]
    a, b = (
        read_model_folder(tmp_path / name / "checkpoints" / "6").module.state_dict()
        for name in ("straight", "parts")
    )
    assert all(torch.equal(a[key], b[key]) for key in a)


_KILLED = """
import os, signal, sys
from pathlib import Path
from attnscope.records.runs import Step
from attnscope.training import read_recipe
from attnscope.training.loop import TrainingRun
for event in TrainingRun(read_recipe(sys.argv[1]), Path(sys.argv[2]), "cpu").events():
    if isinstance(event, Step) and event.step == 3:
        os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.slow
def test_that_a_run_killed_while_it_warms_up_goes_on_from_its_checkpoint(
    tiny_recipe: str, tmp_path: Path
) -> None:
    path = tmp_path / "recipe.toml"
    path.write_text(write_recipe(parse_recipe(tiny_recipe, overrides={**BOTH, "training.save_every": "2"})))
    killed, told = start(_KILLED, path, tmp_path / "run")
    with told:
        said = told.read()
    killed.join()
    assert killed.exitcode == -signal.SIGKILL, said
    straight = [e for e in train(path, tmp_path / "straight", "cpu") if isinstance(e, Step)]
    list(train(path, tmp_path / "run", "cpu"))
    told = [event for event in read_run(tmp_path / "run").events if isinstance(event, Step)]
    assert [(e.step, e.loss, e.n_texts, e.text_tokens) for e in told] == [
        (e.step, e.loss, e.n_texts, e.text_tokens) for e in straight
    ]


def test_that_another_warm_up_is_another_run(tiny_recipe: str, tmp_path: Path) -> None:
    first = {"training.n_steps": "1"}
    list(train(tiny_recipe, tmp_path / "run", "cpu", first))
    with pytest.raises(RecipeError, match=r"schedule\.batch_warmup_steps: was 0, now 3"):
        list(train(tiny_recipe, tmp_path / "run", "cpu", {**first, **BOTH}))


@pytest.mark.parametrize(
    ("wishes", "key", "told"),
    [
        (
            {"schedule.batch_warmup_steps": "5", "schedule.batch_start": "9"},
            "batch_start is 9",
            "at most .* 4",
        ),
        (
            {"schedule.length_warmup_steps": "5", "schedule.length_start": "17"},
            "length_start is 17",
            "at most",
        ),
        (
            {"schedule.length_warmup_steps": "5", "schedule.length_start": "7"},
            "length_start is 7",
            "at least 8",
        ),
        (
            {
                "schedule.length_warmup_steps": "5",
                "model.mask": "prefix",
                "model.prefix_tokens": "6",
                "schedule.length_start": "12",
            },
            "length_start is 12",
            "at least 14: .* beside 6",
        ),
        ({"schedule.length_rise": "steps"}, "length_rise", "linear"),
    ],
)
def test_that_a_warm_up_that_cannot_be_is_refused(
    tiny_recipe: str, wishes: dict[str, str], key: str, told: str
) -> None:
    with pytest.raises(RecipeError, match=rf"(?s){key}.*{told}"):
        parse_recipe(tiny_recipe, overrides=wishes)


def test_that_processes_that_train_together_each_need_a_row_from_the_first_step_on(
    tiny_recipe: str, tmp_path: Path
) -> None:
    recipe = parse_recipe(tiny_recipe, overrides={"schedule.batch_warmup_steps": "5"})
    with pytest.raises(RecipeError, match=r"schedule\.batch_start is 1 for 2 processes"):
        begin(recipe, RunFolder(tmp_path / "run"), CPU, Ranks(n=2))


def test_that_pictures_are_not_drawn_by_length() -> None:
    source = (RECIPES / "pictures.toml").read_text()
    with pytest.raises(RecipeError, match="one size"):
        parse_recipe(source, overrides={"schedule.length_warmup_steps": "5"})


def test_that_examples_without_short_ones_are_told_with_their_lengths(task_recipe: str) -> None:
    wishes = {"schedule.length_warmup_steps": "5", "schedule.length_start": "2"}
    with pytest.raises(RecipeError, match=r"5 to 7 tokens.*from 5 to 6"):
        prepare(parse_recipe(task_recipe, overrides=wishes))


def test_that_a_warm_up_longer_than_the_run_is_told_to_the_step(tiny_recipe: str) -> None:
    wishes = {"schedule.batch_warmup_steps": "1000", "training.n_steps": "900"}
    plan = plan_recipe(parse_recipe(tiny_recipe, overrides=wishes), CPU)
    sizes = [_slow_size(step, 1000, 1, 4) for step in range(1, 901)]
    assert texts_words(plan) == f"grows from 1 to {sizes[-1]} texts at step {1 + sizes.index(sizes[-1])}"


def test_that_a_plan_counts_the_smaller_steps(tiny_recipe: str) -> None:
    recipe = parse_recipe(tiny_recipe, overrides={**BOTH, "training.n_steps": "20"})
    plan = plan_recipe(recipe, CPU)
    total = 0.0
    for step in range(1, 21):
        n_texts, n_tokens = _slow_size(step, 3, 1, 4), _slow_size(step, 4, 9, 16)
        small = parse_recipe(
            tiny_recipe, overrides={"training.batch_size": str(n_texts), "model.max_tokens": str(n_tokens)}
        )
        total += step_flops(small, mean_tokens(small))
    assert plan.flops == pytest.approx(total, rel=1e-9)
    assert plan.mean_share < 1
    assert plan.memory == plan_recipe(parse_recipe(tiny_recipe), CPU).memory
    assert plan.texts[0] == (1, 1)
    assert plan.texts[-1] == (20, 4)
    assert texts_words(plan) == "grows from 1 to 4 texts at step 4"
    assert tokens_words(plan) == "grows from 9 to 16 tokens at step 5"
    rows = dict(work_rows(plan))
    assert rows["batch size"] == texts_words(plan)
    assert "on average" in rows["tokens a step"]


def test_that_a_jump_is_told_as_one(tiny_recipe: str) -> None:
    plan = plan_recipe(parse_recipe(tiny_recipe, overrides={**BOTH, "schedule.length_rise": "jump"}), CPU)
    assert tokens_words(plan) == "jumps from 9 to 16 tokens at step 5"
    assert dict(plan.lengths)[4] == 9


def test_that_a_warm_up_longer_than_the_run_is_told_as_far_as_it_comes(tiny_recipe: str) -> None:
    wishes = {"schedule.batch_warmup_steps": "12", "training.n_steps": "7"}
    plan = plan_recipe(parse_recipe(tiny_recipe, overrides=wishes), CPU)
    assert texts_words(plan) == "grows from 1 to 2 texts at step 5"


@pytest.mark.slow
def test_that_curves_and_sums_tell_what_each_step_read(tiny_recipe: str, tmp_path: Path) -> None:
    events = list(train(tiny_recipe, tmp_path / "run", "cpu", BOTH))
    curves = RunCurves()
    curves.add(events)
    assert curves.batch_texts.values.tolist() == [1, 2, 3, 4, 4, 4]
    assert curves.text_tokens.values.tolist() == [9, 10, 12, 14, 16, 16]
    (summary,), _ = read_runs([str(tmp_path / "run")])
    sizes = [(n, t) for n, t in zip([1, 2, 3, 4, 4, 4], [9, 10, 12, 14, 16, 16], strict=True)]
    assert summary.n_tokens == sum(n * t for n, t in sizes)
    assert texts_until(6, parse_recipe(summary.recipe)) == sum(n for n, _ in sizes)


@pytest.mark.slow
def test_that_the_command_plans_and_trains_with_a_warm_up(
    tiny_recipe: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "recipe.toml"
    path.write_text(tiny_recipe)
    wishes = [word for key, value in BOTH.items() for word in ("--set", f"{key}={value}")]
    assert main(["train", str(path), *wishes, "--plan"]) == 0
    out = capsys.readouterr().out
    assert "grows from 1 to 4 texts at step 4" in out
    assert "grows from 9 to 16 tokens at step 5" in out
    assert main(["train", str(path), *wishes, "--plan", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["texts"][0] == [1, 1]
    assert told["mean_share"] < 1


def test_that_the_kept_run_of_induction_warmup_reads_less_until_it_has_learned() -> None:
    kept = read_run(RECIPES.parent / "films" / "induction-warmup")
    recipe = parse_recipe((RECIPES / "induction-warmup.toml").read_text(encoding="utf-8"))
    assert parse_recipe(kept.recipe) == recipe
    steps = [event for event in kept.events if isinstance(event, Step)]
    assert [(e.n_texts, e.text_tokens) for e in steps] == [
        (_slow_size(k, 300, 8, 64), _slow_size(k, 300, 32, 64)) for k in range(1, 601)
    ]
    learned = next(e.step for e in kept.events if isinstance(e, Evaluated) and e.accuracy > 0.93)
    assert sum(e.n_tokens for e in steps if e.step <= learned) < 740_000


def _growing(*, n_steps: int, batch_size: int, **schedule: object) -> Recipe:
    keys = {f"schedule.{key}": str(value) for key, value in schedule.items()}
    source = (RECIPES / "shakespeare.toml").read_text()
    sizes = {"training.n_steps": str(n_steps), "training.batch_size": str(batch_size)}
    return parse_recipe(source, overrides={**keys, **sizes}, needs_data=False)


def _length(start: int) -> dict[str, str]:
    return {"schedule.length_warmup_steps": "10", "schedule.length_start": str(start)}


def _inner(batches: object) -> object:
    for name in ("batches", "pairs"):
        batches = getattr(batches, name, batches)
    return batches


def _batches_of(recipe: Recipe, folder: Path, monkeypatch: pytest.MonkeyPatch) -> list[Batch]:
    """The batches that the steps of a run read, in order."""
    read: list[Batch] = []

    class Recorded:
        """Another maker, whose batches are kept."""

        def __init__(self, batches: BatchMaker) -> None:
            self.batches = batches

        def draw(self, rng: np.random.Generator, progress: float) -> Batch:
            read.append(self.batches.draw(rng, progress))
            return read[-1]

    monkeypatch.setattr(loop, "batches_of_step", lambda *given: Recorded(batches_of_step(*given)))
    list(loop.TrainingRun(recipe, folder / "run", "cpu").events())
    return read
