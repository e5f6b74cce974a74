"""What the model reads first: the run's own first batch, in pieces."""

import json
from pathlib import Path

import numpy as np
import pytest

from attnscope.cli.main import main
from attnscope.errors import RecipeError
from attnscope.training import Recipe, TrainingRun, first_batch, parse_recipe, prepare
from attnscope.viewmodels.training import batch_lines

RECIPES = Path(__file__).parents[2] / "resources" / "recipes"
SMALL = {
    "model.d_model": "8",
    "model.n_heads": "2",
    "model.d_ff": "8",
    "training.n_steps": "1",
    "training.batch_size": "6",
    "training.evaluation_batches": "1",
}
OF_TEXT = {"tokenizer.vocab_size": "300", "model.max_tokens": "32", "data.held_out_by": "lines"}
SOME = (
    ("set-anomaly", {"data.n_examples": "20"}),
    ("sort", {"data.n_examples": "20"}),
    ("reverse-labels", {"data.n_examples": "20"}),
    ("sentiment-pooling", {"data.n_examples": "20"}),
    ("next-sentence", {"data.n_examples": "20"}),
    ("shakespeare", OF_TEXT),
    ("shakespeare-masked", {**OF_TEXT, "objective.next_sentence": "true", "model.n_segments": "2"}),
    ("shakespeare-spans", {**OF_TEXT, "model.dropout": "0.1"}),
)


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "text.txt"
    lines = [f"the {n} old men saw a cat, and it was not {n + 1} years old.\n" for n in range(300)]
    path.write_text("".join(lines), encoding="utf-8")
    return path


def _recipe(name: str, changes: dict[str, str], text: Path) -> Recipe:
    written = (RECIPES / f"{name}.toml").read_text(encoding="utf-8")
    is_of_text = 'kind = "text"' in written
    return parse_recipe(
        written, overrides={**SMALL, **changes, **({"data.path": str(text)} if is_of_text else {})}
    )


@pytest.mark.parametrize(("name", "changes"), SOME, ids=[name for name, _ in SOME])
def test_that_it_is_the_batch_that_the_run_draws(
    name: str, changes: dict[str, str], text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe = _recipe(name, changes, text)
    told = first_batch(recipe, n_rows=6)
    run = TrainingRun(recipe, tmp_path / "run", "cpu")
    drawn = []
    maker = type(run._begun.data.batches)
    draw = maker.draw

    def draw_and_keep(self: object, rng: np.random.Generator, progress: float) -> object:
        drawn.append(draw(self, rng, progress))
        return drawn[-1]

    monkeypatch.setattr(maker, "draw", draw_and_keep)
    list(run.events())
    batch, tokenizer = drawn[-1], prepare(recipe).tokenizer  # the ones before try how many threads are best
    ids = batch.ids if batch.target_ids is None else batch.target_ids
    assert told.n_rows == len(ids) == 6
    assert told.n_predicted == len(batch.labels)
    for row, given in zip(told.rows, ids.tolist(), strict=True):
        assert [cell.piece for cell in row.cells] == [tokenizer.token(id).piece for id in given]
    if batch.target_ids is not None:
        for row, given in zip(told.rows, batch.ids.tolist(), strict=True):
            assert [cell.piece for cell in row.source] == [tokenizer.token(id).piece for id in given]
    assert "of them padding" in batch_lines(told)[0]
    assert max(map(len, batch_lines(told))) <= 110


def test_that_hidden_tokens_are_masked_kept_or_exchanged_as_devlin_does(text: Path) -> None:
    changes = {**OF_TEXT, "training.batch_size": "400"}
    told = first_batch(_recipe("shakespeare-masked", changes, text), n_rows=400)
    scored = [cell for row in told.rows for cell in row.cells if cell.told is not None]
    assert len(scored) == told.n_predicted
    assert all(cell.told == cell.piece for cell in scored if cell.note == "kept")
    assert all(cell.told != cell.piece for cell in scored if cell.note == "random")
    assert all(cell.piece == "<mask>" for cell in scored if not cell.note)
    shares = [sum(cell.note == note for cell in scored) / len(scored) for note in ("", "kept", "random")]
    assert shares == pytest.approx([0.8, 0.1, 0.1], abs=0.04)


def test_that_pairs_show_their_segments_and_whether_the_second_follows(text: Path) -> None:
    told = first_batch(_recipe("next-sentence", {"data.n_examples": "20"}, text), n_rows=6)
    notes = {row.note for row in told.rows}
    assert notes == {"IsNext: B follows A", "NotNext: B is from elsewhere"}
    for row in told.rows:
        cells = [cell for cell in row.cells if not cell.is_padding]
        ends = [i for i, cell in enumerate(cells) if cell.piece == "</s>"]
        assert [cell.segment for cell in cells] == ["A"] * (ends[0] + 1) + ["B"] * (ends[1] - ends[0])
    lines = batch_lines(told)
    at = next(i for i, line in enumerate(lines) if line.startswith("  reads"))
    assert lines[at + 1].split()[0] == "segment"
    place = lines[at].index("</s>")
    assert lines[at + 1][place] == "A"
    assert lines[at + 1].split()[1:].count("A") == lines[at].split().index("</s>")
    whole = batch_lines(first_batch(_recipe("sentiment-pooling", {"data.n_examples": "20"}, text)))
    assert not any(line.lstrip().startswith("segment") for line in whole)


def test_that_memory_tokens_stand_in_front_and_predict_nothing(text: Path) -> None:
    changes = {"data.n_examples": "20", "model.memory_tokens": "2", "model.max_tokens": "24"}
    told, plain = (
        first_batch(_recipe("few-shot", some, text)) for some in (changes, {"data.n_examples": "20"})
    )
    assert told.n_predicted == plain.n_predicted
    for row, without in zip(told.rows, plain.rows, strict=True):
        assert [(cell.piece, cell.told) for cell in row.cells[:2]] == [("<m1>", None), ("<m2>", None)]
        assert row.cells[2:] == without.cells


def test_that_the_command_shows_it_and_writes_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    few = ("--set", "data.n_examples=20", "--set", "training.evaluation_batches=1")
    asked = ["train", "reverse-labels", *few, "--show-batch"]
    assert main(asked) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("128 texts and 2,304 tokens in the first batch, 0.0 % of them padding; 2,048")
    reads, predicts = (
        next(line for line in lines if line.lstrip().startswith(word)) for word in ("reads", "pred")
    )
    assert reads.split()[1:] == ["<s>", *reversed(predicts.split()[1:]), "</s>"]
    assert main([*asked, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["n_predicted"] == 2048
    assert not list(tmp_path.iterdir())
    with pytest.raises(RecipeError, match=r"data\.path is empty"):
        first_batch(parse_recipe((RECIPES / "english-french.toml").read_text(encoding="utf-8")))
