"""A label for every token: batches, loss and accuracy against a slow reference, training, what is shown."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

import attnscope
from attnscope.cli.main import main
from attnscope.errors import RecipeError
from attnscope.nn import ModelConfig, build_own, count_parameters
from attnscope.records import Evaluated
from attnscope.training import (
    Recipe,
    TrainingRun,
    first_module,
    loss_and_hits,
    loss_sum,
    parse_recipe,
    prepare,
    read_start,
)

RECIPES = Path(__file__).parents[2] / "resources" / "recipes"
TEXT = "the/DET old/ADJ man/NOUN runs/VERB\na/DET dog/NOUN\nhe/PRON sees/VERB the/DET old/ADJ dog/NOUN\n" * 7
SMALL = {
    "model.d_model": "8",
    "model.d_ff": "8",
    "training.n_steps": "2",
    "training.batch_size": "3",
    "training.evaluation_batches": "2",
    "training.evaluate_every": "1",
    "training.save_every": "2",
}


def _reversing(**changes: str) -> Recipe:
    named = {name.replace("__", "."): value for name, value in changes.items()}
    text = (RECIPES / "reverse-labels.toml").read_text(encoding="utf-8")
    return parse_recipe(text, overrides={"data.n_examples": "40", **SMALL, **named})


def _tagging(folder: Path, **changes: str) -> Recipe:
    path = folder / "tagged.txt"
    lines = [f"{i}/NUM {line}" for i, line in enumerate(TEXT.splitlines())]  # no two alike
    path.write_text("\n".join(lines), encoding="utf-8")
    named = {name.replace("__", "."): value for name, value in changes.items()}
    text = (RECIPES / "part-of-speech.toml").read_text(encoding="utf-8")
    small = {
        "tokenizer.kind": "words",
        "data.validation_share": "0.3",
        "data.path": str(path),
        "model.n_heads": "2",
    }
    return parse_recipe(text, overrides={**small, **SMALL, **named})


@pytest.mark.parametrize("kind", ["words", "characters"])
def test_that_loss_and_accuracy_are_those_of_a_slow_reference(tmp_path: Path, kind: str) -> None:
    recipe = _tagging(tmp_path, tokenizer__kind=kind)
    prepared = prepare(recipe)
    assert prepared.labels == ("ADJ", "DET", "NOUN", "NUM", "PRON", "VERB")
    config = prepared.fitted(recipe.model)
    module = build_own(config, 0).double().eval()
    assert count_parameters(config).total == sum(p.numel() for p in module.parameters())
    batch = prepared.batches.draw(np.random.default_rng(3), 0.0)
    loss, n_hits, n = 0.0, 0, 0
    for row in range(len(batch.ids)):
        n_read = int(batch.valid[row].sum()) if batch.valid is not None else batch.ids.shape[1]
        logits = module.logits(module.encode(batch.ids[row : row + 1, :n_read]))[0]  # alone, without padding
        for flat, label in zip(batch.scored.tolist(), batch.labels.tolist(), strict=True):
            if flat // batch.ids.shape[1] == row:
                told = logits[flat % batch.ids.shape[1]]
                exps = (told - told.max()).exp().tolist()
                loss -= float(np.log(exps[label] / sum(exps)))
                n_hits += int(told.argmax()) == label
                n += 1
    assert n == len(batch.labels)
    assert loss_sum(module, batch).item() == pytest.approx(loss, rel=1e-5)
    told_at_once = loss_and_hits(module, batch)
    assert told_at_once.loss == pytest.approx(loss, rel=1e-5)
    assert told_at_once.n_hits == n_hits


def test_that_every_word_is_scored_once_at_its_first_token(tmp_path: Path) -> None:
    recipe = _tagging(tmp_path, tokenizer__kind="characters")
    prepared = prepare(recipe)
    for batch in prepared.batches.evaluation():
        for flat, label in zip(batch.scored.tolist(), batch.labels.tolist(), strict=True):
            row = batch.ids.flatten().tolist()
            first = prepared.tokenizer.token(row[flat]).piece
            if prepared.labels[label] == "NUM":
                assert first.strip().isdigit()
            before = prepared.tokenizer.token(row[flat - 1])
            assert before.is_special or before.piece in (" ", "␣")


@pytest.mark.parametrize(
    ("changes", "found", "expected"),
    [
        ({"model.pooling": "mean"}, "model.pooling is 'mean' though", "labels of single tokens"),
        ({"model.form": "decoder"}, "model.form is set", "follow from objective.kind"),
        ({"model.n_segments": "2"}, "model.n_segments is 2", "one text"),
        ({"objective.kind": "masked"}, 'does not go with objective.kind "masked"', '"labels"'),
        ({"objective.kind": "classification"}, "does not go with", '"labels"'),
        ({"data.form": "decoder"}, 'does not go with objective.kind "labels"', '"causal"'),
        ({"data.task": "addition"}, "data.form is 'encoder'", "decoder"),
    ],
)
def test_that_choices_that_do_not_go_with_labels_are_refused(
    changes: dict[str, str], found: str, expected: str
) -> None:
    text = (RECIPES / "reverse-labels.toml").read_text(encoding="utf-8")
    if "data.task" in changes:
        text = "\n".join(
            line for line in text.splitlines() if "words =" not in line and "n_letters" not in line
        )
    with pytest.raises(RecipeError) as caught:
        parse_recipe(text, overrides=changes)
    assert found in str(caught.value)
    assert expected in str(caught.value)


def test_that_labelled_words_need_the_objective_labels(tmp_path: Path) -> None:
    with pytest.raises(RecipeError) as caught:
        _tagging(tmp_path, objective__kind="masked")
    assert caught.value.expected == '"labels", since data.kind is "tagged"'
    with pytest.raises(RecipeError) as caught:
        _tagging(tmp_path, data__kind="text")
    assert caught.value.expected == '"tagged" or "task", since objective.kind is "labels"'


def test_that_a_text_label_needs_one_row_and_a_decoder_labels_no_token() -> None:
    sizes = {"vocab_size": 9, "d_model": 8, "n_heads": 2, "n_labels": 3, "pooling": "none"}
    with pytest.raises(RecipeError, match="only an encoder of one text labels each token"):
        ModelConfig.from_dict({**sizes, "form": "decoder"})
    assert ModelConfig.from_dict({**sizes, "form": "encoder"}).labels_tokens


def test_that_a_trained_model_says_a_label_for_every_word(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = TrainingRun(_tagging(tmp_path), tmp_path / "run", "cpu")
    assert [event.step for event in run.events() if isinstance(event, Evaluated)] == [1, 2]
    model = attnscope.load(str(tmp_path / "run"))
    assert model.info.objective == "labels"
    text = "the old man runs"
    assert main(["--device", "cpu", "predict", str(tmp_path / "run"), "--text", text, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["kind"] == "class"
    assert [one["position"] for one in told["predictions"]] == [1, 2, 3, 4]
    assert [one["context"] for one in told["predictions"]] == [f'at "{word}"' for word in text.split()]
    module = model.own.module
    source = model.encode(text).source
    with torch.no_grad():
        expected = module.logits(module.encode(torch.tensor([source.ids])))[0].double().softmax(-1)
    for one in told["predictions"]:
        for candidate in one["before"]:
            label = model.info.labels.index(candidate["piece"])
            assert candidate["probability"] == pytest.approx(
                float(expected[one["position"], label]), rel=1e-4
            )


def test_that_a_run_goes_on_where_it_was_bit_for_bit(tmp_path: Path) -> None:
    recipe = _reversing(training__save_every="1", training__n_steps="4", schedule__kind="constant")
    straight = TrainingRun(recipe, tmp_path / "straight", "cpu")
    list(straight.events())
    first = TrainingRun(recipe, tmp_path / "parts", "cpu")
    for event in first.events():
        if type(event).__name__ == "Step" and event.step == 2:
            first.request_stop()
    second = TrainingRun(recipe, tmp_path / "parts", "cpu")
    assert second.step == 2
    list(second.events())
    for one, other in zip(
        straight.model.own.module.parameters(), second.model.own.module.parameters(), strict=True
    ):
        assert torch.equal(one, other)


def test_that_the_samples_are_rows_of_its_own_letters(tmp_path: Path) -> None:
    recipe = _reversing()
    run = TrainingRun(recipe, tmp_path / "run", "cpu")
    list(run.events())
    model = attnscope.load(str(tmp_path / "run"))
    assert model.info.samples
    assert all(set(sample.text.split()) <= set("abcdefghij") for sample in model.info.samples)


@pytest.mark.long
@pytest.mark.slow
def test_that_the_recipe_reverses_every_unseen_row_by_the_other_diagonal(tmp_path: Path) -> None:
    text = (RECIPES / "reverse-labels.toml").read_text(encoding="utf-8")
    run = TrainingRun(parse_recipe(text), tmp_path / "run", "cpu")
    last = [event for event in run.events() if isinstance(event, Evaluated)][-1]
    assert last.accuracy == 1.0
    weights = run.model.trace("c a b e d j i h g f a a b c d e").weights(("encoder", 0), 0)
    inner = weights[1:-1, 1:-1]  # without <s> and </s>
    assert inner.argmax(axis=1).tolist() == list(range(15, -1, -1))


@pytest.mark.parametrize(("source", "stack"), [("stories-masked", "encoder"), ("stories", "decoder")])
def test_that_a_tagger_begins_with_the_weights_of_a_language_model(
    tmp_path: Path, source: str, stack: str
) -> None:
    path = tmp_path / "tagged.txt"
    path.write_text(TEXT.splitlines()[0] + "\na/DET dog/NOUN\nhe/PRON sees/VERB\n" * 2, encoding="utf-8")
    recipe = parse_recipe(
        f'[start]\nfrom = "{source}"\n[data]\nkind = "tagged"\npath = "{path}"\nvalidation_share = 0.4\n'
        '[objective]\nkind = "labels"\n[training]\nn_steps = 1\nbatch_size = 2\n'
    )
    start = read_start(recipe)
    prepared = prepare(recipe, start.tokenizer)
    module = first_module(recipe, prepared.fitted(recipe.model), start)
    assert module.config.labels_tokens
    before = dict(start.module.named_parameters())[f"{stack}.1.attention.qkv.weight"]
    assert torch.equal(dict(module.named_parameters())["encoder.1.attention.qkv.weight"], before)
    assert tuple(module.head.labels.weight.shape) == (len(prepared.labels), recipe.model.d_model)
