"""Pointing to tokens: loss and accuracy against a slow reference, what is shown, files, tasks, refusals."""

import json
import math
from itertools import product
from pathlib import Path

import numpy as np
import pytest
import torch

import attnscope
from attnscope.cli.main import main
from attnscope.errors import LoadError, RecipeError
from attnscope.nn import build_own, count_parameters, pointed
from attnscope.text import read_spans
from attnscope.text.tasks import make_task
from attnscope.training import Recipe, TrainingRun, loss_and_hits, loss_sum, parse_recipe, prepare, rows_of

RECIPES = Path(__file__).parents[2] / "resources" / "recipes"
SMALL = {
    "model.d_model": "8",
    "model.n_heads": "2",
    "model.n_layers": "1",
    "model.d_ff": "8",
    "training.n_steps": "2",
    "training.batch_size": "3",
    "training.evaluation_batches": "2",
    "training.evaluate_every": "2",
    "training.save_every": "2",
}


def _asking(**changes: str) -> Recipe:
    named = {name.replace("__", "."): value for name, value in changes.items()}
    text = (RECIPES / "questions.toml").read_text(encoding="utf-8")
    return parse_recipe(text, overrides={"data.n_examples": "30", **SMALL, **named})


def test_that_loss_and_accuracy_are_those_of_a_slow_reference() -> None:
    recipe = _asking()
    prepared = prepare(recipe)
    assert prepared.labels == ("start", "end")
    config = prepared.fitted(recipe.model)
    module = build_own(config, 0).double().eval()
    assert count_parameters(config).total == sum(p.numel() for p in module.parameters())
    batch = prepared.batches.draw(np.random.default_rng(3), 0.0)
    assert batch.valid is not None
    labels = batch.labels.view(-1, 2).tolist()
    loss, n_hits = 0.0, 0
    for row, places in enumerate(labels):
        n_read = int(batch.valid[row].sum())
        told = module.logits(module.encode(batch.ids[row : row + 1, :n_read]))[0]  # alone, without padding
        for k, place in enumerate(places):
            scores = told[1:-1, k].tolist()  # without <s> and </s>
            loss += math.log(sum(map(math.exp, scores))) - scores[place - 1]
            n_hits += scores.index(max(scores)) == place - 1
    assert loss_sum(module, batch).item() == pytest.approx(loss, rel=1e-5)
    told_at_once = loss_and_hits(module, batch)
    assert told_at_once.loss == pytest.approx(loss, rel=1e-5)
    assert told_at_once.n_hits == n_hits
    parts = [loss_sum(module, rows_of(batch, low, high)).item() for low, high in ((0, 1), (1, 3))]
    assert sum(parts) == pytest.approx(loss, rel=1e-5)


@pytest.mark.parametrize("n_places", [1, 2])
def test_that_a_token_belongs_to_the_answer_with_the_sum_over_all_answers(n_places: int) -> None:
    told = torch.tensor([[9.0, 9.0], [0.3, -1.0], [1.2, 0.4], [-0.7, 2.0], [9.0, 9.0]])[:, :n_places]
    may_be = [1, 2, 3]
    exps = [[math.exp(told[i, k]) for i in may_be] for k in range(n_places)]
    found = pointed(told, may_be).exp()
    assert found[0].tolist() == found[4].tolist() == [0.0, 1.0]
    if n_places == 1:
        expected = [value / sum(exps[0]) for value in exps[0]]
    else:
        pairs = {(i, j): exps[0][i] * exps[1][j] for i, j in product(range(3), repeat=2) if i <= j}
        expected = [
            sum(p for (i, j), p in pairs.items() if i <= t <= j) / sum(pairs.values()) for t in range(3)
        ]
    assert found[1:4, 0].tolist() == pytest.approx(expected, abs=1e-12)
    assert found.sum(dim=1).tolist() == pytest.approx([1.0] * 5)


def test_that_every_answer_of_the_task_is_the_part_of_the_sentence_that_was_asked_for() -> None:
    for example in make_task("questions").examples(300, seed=1):
        words = example.source.split()
        first, last = example.places
        answer, gave = words[first : last + 1], words.index("gave", words.index("?"))
        match words[:2]:
            case ["who", "gave"]:
                assert last == gave - 1
                assert answer[0] not in ("in", "on", "last", "the")
            case ["who", "got"]:
                assert words[first - 1] == "to"
                assert words[last + 1] in ("in", "on", "last", ".")
            case ["what", _]:
                assert first == gave + 1
                assert words[last + 1] == "to"
            case ["where", _]:
                assert answer[:2] == ["in", "the"]
            case ["when", _]:
                assert answer[0] in ("on", "last")


def test_that_a_run_is_saved_and_says_of_each_token_how_likely_it_is_meant(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    list(TrainingRun(_asking(), tmp_path / "run", "cpu").events())
    model = attnscope.load(str(tmp_path / "run"))
    assert model.info.labels == ("start", "end")
    text = "who got something ? anna gave the key to ben ."
    assert main(["--device", "cpu", "predict", str(tmp_path / "run"), "--text", text, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert len(told["predictions"]) == 11
    for place in told["predictions"]:
        assert {one["piece"] for one in place["before"]} == {"answer", "–"}
        assert sum(one["probability"] for one in place["before"]) == pytest.approx(1.0)


def test_that_a_file_with_answers_in_brackets_becomes_places_of_pieces(tmp_path: Path) -> None:
    path = tmp_path / "spans.txt"
    lines = [f"who came ?\tin {n} [[the old king]] came" for n in range(20)]
    path.write_text("\n".join(lines), encoding="utf-8")
    recipe = _asking(
        data__kind="spans", data__path=str(path), data__validation_share="0.2", tokenizer__kind="characters"
    )
    prepared = prepare(recipe)
    (batch, *_) = prepared.batches.evaluation()
    for row, (first, last) in enumerate(batch.labels.view(-1, 2).tolist()):
        pieces = [prepared.tokenizer.token(id).piece for id in batch.ids[row].tolist()]
        assert "".join(pieces[first : last + 1]).replace("␣", " ") == "the old king"


@pytest.mark.parametrize(
    "line", ["no answer", "[[two]] of [[them]]", "[[ ]] nothing", "un]]opened", "[[open"]
)
def test_that_a_line_without_exactly_one_answer_is_refused(tmp_path: Path, line: str) -> None:
    path = tmp_path / "spans.txt"
    path.write_text(f"a [[good]] line\n{line}\n", encoding="utf-8")
    with pytest.raises(LoadError, match=r"Line 2 of .* has not one answer"):
        read_spans(path)


@pytest.mark.parametrize(
    ("changes", "found"),
    [
        ({"model.pooling": "mean"}, "model.pooling is 'mean' though"),
        ({"model.n_segments": "2"}, "model.n_segments is 2"),
        ({"objective.kind": "labels"}, 'does not go with objective.kind "labels"'),
        ({"objective.label_smoothing": "0.1"}, "objective.label_smoothing is 0.1"),
    ],
)
def test_that_choices_that_do_not_go_with_pointing_are_refused(changes: dict[str, str], found: str) -> None:
    with pytest.raises(RecipeError, match=found):
        _asking(**{name.replace(".", "__"): value for name, value in changes.items()})
