"""Models that learn from pictures: their batches, every way of looking at one, and what the page shows."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import attnscope as at
from attnscope import importance
from attnscope.errors import LoadError, RecipeError, UserError
from attnscope.models import Model, picture_of_tokens
from attnscope.nn import patch_numbers
from attnscope.records import Picture
from attnscope.shapes import drawn_picture
from attnscope.text.tasks import make_task
from attnscope.training import (
    Recipe,
    TrainingRun,
    first_batch,
    longest_tokens,
    mean_tokens,
    parse_recipe,
    prepare,
)

RECIPES = Path(__file__).parents[2] / "resources" / "recipes"
NAME = "star x12 y20 r9 t30 s7"
SMALL = {
    "model.d_model": "8",
    "model.n_heads": "2",
    "model.n_layers": "2",
    "model.d_ff": "8",
    "data.n_examples": "12",
    "training.n_steps": "2",
    "training.batch_size": "3",
    "training.evaluation_batches": "2",
    "training.evaluate_every": "2",
    "training.save_every": "2",
}


def _recipe(**changes: str) -> Recipe:
    named = {name.replace("__", "."): value for name, value in changes.items()}
    text = (RECIPES / "pictures.toml").read_text(encoding="utf-8")
    return parse_recipe(text, overrides={**SMALL, **named})


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pictures") / "run"
    list(TrainingRun(_recipe(), folder, "cpu").events())
    return folder


@pytest.fixture(scope="module")
def model(run: Path) -> Model:
    return at.load(str(run))


def test_that_a_batch_holds_the_drawn_pictures_with_their_labels() -> None:
    recipe = _recipe()
    prepared = prepare(recipe)
    task = make_task("drawn-shapes")
    known = {
        patch_numbers(drawn_picture(one.source)[None, :, :, None], 4).tobytes(): one.label
        for one in task.examples(12, seed=0)
    }
    batch = prepared.batches.draw(np.random.default_rng(0), 0.0)
    assert (tuple(batch.ids.shape), batch.n_tokens) == ((3, 65, 16), 195)
    assert batch.scored.tolist() == [0, 65, 130]
    for ids, label in zip(batch.ids, batch.labels.tolist(), strict=True):
        assert known[ids[None].numpy().tobytes()] == prepared.labels[label]
    assert [len(one.ids) for one in prepared.batches.evaluation()] == [3, 3]
    assert not any(
        one[None].numpy().tobytes() in known for b in prepared.batches.evaluation() for one in b.ids
    )
    assert prepare(recipe).sha256 == prepared.sha256 != prepare(_recipe(training__seed="1")).sha256
    assert longest_tokens(recipe) == mean_tokens(recipe) == 65


def test_that_a_trained_model_names_its_patches_and_tells_a_label(model: Model) -> None:
    info = model.info
    assert (info.reads, info.form, info.labels) == ("picture", "encoder", make_task("drawn-shapes").labels)
    trace = model.trace(NAME)
    assert trace.source.pieces[:3] == ("[CLS]", "0,0", "0,1")
    assert len(trace.source) == 65
    assert trace.weights(("encoder", 1, 0)).shape == (65, 65)
    told = model.predict(NAME).predictions
    assert len(told) == 1
    assert sum(one.probability for one in told[0].candidates) == pytest.approx(1.0, abs=1e-5)
    numbers = torch.from_numpy(patch_numbers(drawn_picture(NAME)[None, :, :, None], 4))
    with torch.no_grad():
        expected = model.own.module.eval()(numbers).softmax(dim=-1)[0].tolist()
    named = {one.token.piece: one.probability for one in told[0].candidates}
    assert [named[label] for label in info.labels] == pytest.approx(expected, abs=1e-6)


def test_that_what_the_model_sees_lies_under_its_maps(model: Model) -> None:
    seen = at.picture(model, NAME)
    assert (seen.pixels == drawn_picture(NAME)[..., None]).all()
    assert (seen.n_rows, seen.n_columns, seen.n_first, seen.n_tokens) == (8, 8, 1, 65)
    kept = picture_of_tokens(model.trace(NAME).source)
    assert isinstance(kept, Picture)
    assert (kept.pixels == seen.pixels).all()
    assert (kept.n_rows, kept.n_columns, kept.n_first) == (8, 8, 1)
    words = at.load("grammar").trace("the cat sleeps").source
    assert picture_of_tokens(words) is None


def test_that_a_file_of_another_size_is_cut_to_the_models_own(model: Model, tmp_path: Path) -> None:
    path = tmp_path / "some.npz"
    np.savez(path, pictures=np.full((2, 64, 128, 3), 90, dtype=np.uint8))
    seen = at.picture(model, f"{path}#1")
    assert seen.pixels.shape == (32, 32, 3)
    assert (seen.pixels == 90).all()
    with pytest.raises(UserError, match="There is no picture"):
        model.trace("hello")
    with pytest.raises(UserError, match="reads one picture"):
        model.trace(NAME, "another")


def test_that_gates_close_and_heads_are_removed_as_elsewhere(model: Model) -> None:
    gates = {("encoder", 0, 1): 0.0}
    gated = model.compare(NAME, gates=gates)
    smaller = model.prune(_table(model, gates), NAME)
    assert smaller.info.reads == "picture"
    before, after = (
        {c.token.piece: c.probability for c in out.predictions[0].candidates}
        for out in (gated.after, smaller.predict(NAME))
    )
    assert after == pytest.approx(before, abs=1e-5)
    assert gated.kl_nats[0] > 0


def _table(model: Model, gates: dict[Any, float]) -> Any:
    table = model.gates()
    for head, value in gates.items():
        table[head] = value
    return table


def test_that_heads_are_ranked_by_the_labels_of_the_task(model: Model) -> None:
    examples = make_task("drawn-shapes").examples(4, seed=0, held_out=True)
    found = importance(model, examples)
    assert len(found.scores) == 4
    assert all(np.isfinite(one.value) for one in found.scores)


def test_that_pictures_of_a_file_are_learned_and_their_size_is_the_models(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    pictures = rng.integers(0, 256, (9, 8, 12, 3), dtype=np.uint8)
    path = tmp_path / "some.npz"
    np.savez(path, pictures=pictures, labels=np.array([0, 1, 0, 1, 1, 0, 0, 1, 0]))
    given = {"data__kind": "pictures", "data__path": str(path), "data__validation_share": "0.3"}
    recipe = _recipe(**given)
    prepared = prepare(recipe)
    config = prepared.fitted(recipe.model)
    assert (config.picture_height, config.picture_width, config.n_numbers, config.n_labels) == (8, 12, 48, 2)
    sides = prepared.batches.training.pixels, prepared.batches.held_out.pixels
    assert [len(side) for side in sides] == [6, 3]
    assert not {one.tobytes() for one in sides[0]} & {one.tobytes() for one in sides[1]}
    list(TrainingRun(recipe, tmp_path / "run", "cpu").events())
    model = at.load(str(tmp_path / "run"))
    assert (at.picture(model, f"{path}#2").pixels == pictures[2]).all()
    assert (len(model.trace(f"{path}#2").source), model.info.labels) == (7, ("0", "1"))
    with pytest.raises(RecipeError, match=r"model\.patch_size is 5"):
        list(TrainingRun(_recipe(**given, model__patch_size="5"), tmp_path / "other", "cpu").events())
    with pytest.raises(RecipeError, match=r"model\.patch_size is 5"):
        first_batch(_recipe(**given, model__patch_size="5"))
    with pytest.raises(RecipeError, match=r"model\.max_tokens is 6"):
        list(TrainingRun(_recipe(**given, model__max_tokens="6"), tmp_path / "third", "cpu").events())
    np.savez(path, pictures=pictures, labels=np.array([0, 1]))
    with pytest.raises(LoadError, match="labels of shape"):
        prepare(recipe)


def test_that_patches_are_of_pictures_and_pictures_are_read_in_patches(tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match=r"model\.patch_size is 0 and the task"):
        _recipe(model__patch_size="0")
    with pytest.raises(RecipeError, match=r"model\.patch_size is 4 and data.kind"):
        _recipe(data__kind="labelled", data__path=str(tmp_path))
    with pytest.raises(RecipeError, match=r"model\.max_tokens is 64"):
        _recipe(model__max_tokens="64")
    with pytest.raises(RecipeError, match=r"model\.picture_height is set"):
        _recipe(model__picture_height="32")
    with pytest.raises(RecipeError, match="does not go with"):
        _recipe(objective__kind="labels", model__pooling="none", model__patch_size="0")


def test_that_the_batch_read_first_shows_the_patches_and_the_label() -> None:
    shown = first_batch(_recipe(), n_rows=2)
    assert (shown.n_rows, shown.n_tokens, shown.n_padding, shown.n_predicted) == (3, 195, 0, 3)
    cells = shown.rows[0].cells
    assert len(cells) == 65
    assert cells[0].piece == "[CLS]"
    assert cells[0].told in make_task("drawn-shapes").labels
    assert [cell.piece for cell in cells[1:3]] == ["0,0", "0,1"]
