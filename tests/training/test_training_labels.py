"""Learning labels: recipes that go together, batches, and what the data add to a model."""

from pathlib import Path

import numpy as np
import pytest
import torch

from attnscope.cli.sweep import table_of_runs, values_of_runs
from attnscope.errors import LoadError, RecipeError
from attnscope.figures import shown_charts
from attnscope.paths import resources_folder
from attnscope.training import (
    TrainingRun,
    loss_and_hits,
    parse_recipe,
    prepare,
    read_recipe,
    read_run,
    read_runs,
    rows_of,
    train,
    write_recipe,
)
from attnscope.viewmodels.training import Drawing, RunAxis, RunCurves, ShownRun

RECIPE = """
[model]
d_model = 8
n_layers = 1
n_heads = 2
d_ff = 8
max_tokens = 12
{model}
[data]
{data}
[objective]
kind = "{objective}"
[training]
n_steps = 2
batch_size = 4
evaluation_batches = 2
"""
TASK = 'kind = "task"\ntask = "{}"\nn_examples = 40'


def recipe_text(
    model: str = "", data: str = TASK.format("sentiment"), objective: str = "classification"
) -> str:
    return RECIPE.format(model=model, data=data, objective=objective)


def write_file(folder: Path, *, has_second: bool = False) -> str:
    rows = [
        f"{'odd' if i % 2 else 'even'}\ttext number {i} . so it is !" + (f"\tand {i}" if has_second else "")
        for i in range(12)
    ]
    path = folder / "texts.tsv"
    path.write_text("\n".join(rows), encoding="utf-8")
    return f'kind = "labelled"\npath = "{path}"'


@pytest.mark.parametrize("name", ["sentiment-pooling", "reviews-hierarchical", "entailment"])
def test_that_a_built_in_recipe_of_labels_is_written_and_read_again(name: str) -> None:
    recipe = read_recipe(name)
    assert recipe.model.n_labels == (2 if name == "reviews-hierarchical" else 3)
    assert parse_recipe(write_recipe(recipe)) == recipe


@pytest.mark.parametrize(
    ("text", "match"),
    [
        (recipe_text(objective="masked"), 'task "sentiment" does not go with'),
        (recipe_text(data=TASK.format("brackets")), 'task "brackets" does not go with'),
        (recipe_text(data='kind = "text"\npath = "a.txt"'), "data.kind is"),
        (recipe_text(data='kind = "labelled"\npath = "a.txt"', objective="causal"), "objective.kind is"),
        (recipe_text(model="n_labels = 3"), "model.n_labels is set"),
        (recipe_text(model="sentence_ends = [3]"), "model.sentence_ends is set"),
        (recipe_text(model='form = "encoder-decoder"'), "model.form is set"),
        (recipe_text(model='form = "decoder"', objective="causal"), "model.form is set"),
    ],
)
def test_that_choices_that_do_not_go_with_labels_are_named(text: str, match: str) -> None:
    with pytest.raises(RecipeError, match=match):
        parse_recipe(text)


@pytest.mark.parametrize(("has_second", "reads_pair"), [(False, "true"), (True, "false")])
def test_that_the_model_must_read_as_many_texts_as_the_data_have(
    has_second: bool, reads_pair: str, tmp_path: Path
) -> None:
    data = write_file(tmp_path, has_second=has_second)
    recipe = parse_recipe(recipe_text(model=f"reads_pair = {reads_pair}", data=data))
    with pytest.raises(RecipeError, match=f"reads_pair is {reads_pair}"):
        prepare(recipe)


def test_that_a_file_gives_labels_sentences_and_batches(tmp_path: Path) -> None:
    words = '[tokenizer]\nkind = "words"\n'
    text = recipe_text(model='pooling = "hierarchical"', data=write_file(tmp_path)) + words
    recipe = parse_recipe(text)
    prepared = prepare(recipe)
    config = prepared.fitted(recipe.model)
    pieces = [prepared.tokenizer.token(id).piece for id in config.sentence_ends]
    assert (prepared.labels, sorted(pieces), config.n_labels) == (("even", "odd"), ["!", "."], 2)
    batch = prepared.batches.draw(np.random.default_rng(1), 0.0)
    for row, label in zip(batch.ids, batch.labels, strict=True):
        shown = prepared.tokenizer.decode(row.tolist())
        number = next((int(word) for word in shown.split() if word.isdigit()), None)
        assert number is None or ("odd" if number % 2 else "even") == prepared.labels[int(label)]


def test_that_rows_of_a_batch_of_pairs_keep_their_labels() -> None:
    text = recipe_text(model="reads_pair = true", data=TASK.format("entailment"))
    batch = prepare(parse_recipe(text)).batches.draw(np.random.default_rng(1), 0.0)
    part = rows_of(batch, 1, 3)
    assert part.labels.tolist() == batch.labels[1:3].tolist()
    assert batch.target_ids is not None
    assert part.target_ids is not None
    torch.testing.assert_close(part.target_ids, batch.target_ids[1:3])


@pytest.mark.slow
def test_that_a_run_of_labels_is_saved_and_resumed_with_them(tmp_path: Path) -> None:
    recipe = parse_recipe(recipe_text(model='form = "decoder"\npooling = "last"'))
    assert recipe.model.form == "decoder"
    list(TrainingRun(recipe, tmp_path / "run", "cpu").events())
    again = TrainingRun(recipe, tmp_path / "run", "cpu")
    assert (again.step, again.model.info.labels) == (2, ("negative", "neutral", "positive"))
    output = again.model.predict("the old singer gave us a song .")
    assert (output.kind, len(output.predictions)) == ("class", 1)
    list(again.events())


def test_that_a_bad_line_ends_the_run_before_it_begins(tmp_path: Path) -> None:
    (tmp_path / "bad.tsv").write_text("a\tx\nb\ty\nno tab here\n", encoding="utf-8")
    recipe = parse_recipe(recipe_text(data=f'kind = "labelled"\npath = "{tmp_path / "bad.tsv"}"'))
    with pytest.raises(LoadError, match=r"Line 3 of .*bad\.tsv"):
        TrainingRun(recipe, tmp_path / "run", "cpu")


@pytest.mark.slow
def test_that_losses_of_labels_are_told_per_text_wherever_they_are_shown(tmp_path: Path) -> None:
    list(train(recipe_text(), tmp_path / "labels", "cpu", {"training.tensorboard": "true"}))
    copies = recipe_text(data=TASK.format("copy"), objective="translation")
    list(train(copies, tmp_path / "copies", "cpu"))
    runs, _ = read_runs([str(tmp_path)])
    assert [run.objective for run in runs] == ["translation", "classification"]
    assert table_of_runs(runs[1:]).endswith("Losses are in nats per text.")
    assert table_of_runs(runs).endswith("Losses are in nats per target token or text.")
    assert [run["loss_unit"] for run in values_of_runs(runs)] == ["nats per target token", "nats per text"]
    curves = RunCurves()
    curves.add(read_run(tmp_path / "labels").events)
    shown = (ShownRun(folder="", name="", colour=0, curves=curves, axis=RunAxis(curves)),)
    assert shown_charts(shown, Drawing(), is_log=False)[0].y_label == "nats per text"
    (mirror,) = (tmp_path / "labels" / "tensorboard").iterdir()
    assert mirror.read_bytes().count(b"nats per text") == 2  # with the first value of training and held-out


@pytest.mark.slow
def test_that_two_texts_are_read_as_one_in_two_segments_as_the_model_reads_them_when_asked(
    tmp_path: Path,
) -> None:
    data = write_file(tmp_path, has_second=True) + "\nvalidation_share = 0.4"
    with pytest.raises(RecipeError, match=r"model\.n_segments = 2 to read both as one text"):
        prepare(parse_recipe(recipe_text(data=data)))
    recipe = parse_recipe(recipe_text("n_segments = 2", data))
    assert parse_recipe(write_recipe(recipe)) == recipe
    run = TrainingRun(recipe, tmp_path / "run", "cpu")
    list(run.events())
    model, batch = run.model, prepare(recipe).batches.evaluation()[0]
    assert batch.target_ids is None
    assert batch.segments is not None
    vocabulary = model.own.vocabulary
    for row, segments in zip(batch.ids, batch.segments, strict=True):
        text, second = (vocabulary.decode(row[segments == k].tolist()) for k in (0, 1))
        inputs = model.encode(text, second)
        n = len(inputs.source)
        assert list(inputs.source.ids) == row[:n].tolist()
        assert list(inputs.segments) == segments[:n].tolist()
        assert (row[n:] == vocabulary.pad_id).all()
        assert row[n - 1] == vocabulary.end_id
    assert model.info.takes_target
    trace = model.trace("text number 3 .", "and 3")
    assert {token.segment for token in trace.source.tokens} == {0, 1}
    alone = model.own.module(batch.ids[:1], valid=None if batch.valid is None else batch.valid[:1],
                             segments=batch.segments[:1])  # fmt: skip
    torch.testing.assert_close(loss_and_hits(model.own.module, rows_of(batch, 0, 1)).loss,
                               float(-alone.log_softmax(-1)[0, batch.labels[0]].detach()))  # fmt: skip
    assert model.trace("text number 3 .").logits.shape == trace.logits.shape


def test_that_the_chart_of_a_share_ends_at_one_in_a_figure_too() -> None:
    run = read_run(resources_folder() / "films" / "agreement-lora")
    curves = RunCurves()
    curves.add(run.events)
    shown = (ShownRun(folder="", name="", colour=0, curves=curves, axis=RunAxis(curves)),)
    ranges = {chart.title: chart.y_range for chart in shown_charts(shown, Drawing(), is_log=False)}
    assert ranges["Accuracy"][1] == 1.0
    assert 0.0 < ranges["Accuracy"][0] < min(curves.accuracy.values)
    assert ranges["Loss"] is None
