"""Sets of vectors: files, the fixed table, the order of a set, drawn shapes, and how they are shown."""

import math
from pathlib import Path

import numpy as np
import pytest
import torch

import attnscope
from attnscope.errors import LoadError, RecipeError
from attnscope.nn import build_own, count_parameters
from attnscope.shapes import N_ANGLES, N_NUMBERS, SHAPES, outline, shape_vectors
from attnscope.text import read_vectors
from attnscope.text.tasks import make_task
from attnscope.training import Recipe, TrainingRun, parse_recipe, prepare

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
GOOD = {
    "vectors": np.linspace(-1, 1, 18).reshape(6, 3),
    "sets": np.array([[0, 1, 2], [3, 4, 5], [5, 1, 0], [2, 3, 4], [0, 2, 4], [1, 3, 5]]),
    "odd": np.array([2, 0, 1, 2, 0, 1]),
}


def _anomalies(**changes: str) -> Recipe:
    named = {name.replace("__", "."): value for name, value in changes.items()}
    text = (RECIPES / "set-anomaly.toml").read_text(encoding="utf-8")
    return parse_recipe(text, overrides={"data.n_examples": "30", **SMALL, **named})


def _of_file(folder: Path, **arrays: np.ndarray) -> Path:
    path = folder / "sets.npz"
    np.savez(path, **{**GOOD, **arrays})
    return path


def test_that_what_is_read_of_a_shape_is_its_fourier_descriptor_and_stays_as_it_is(tmp_path: Path) -> None:
    run = TrainingRun(_anomalies(), tmp_path / "run", "cpu")
    list(run.events())
    model = attnscope.load(str(tmp_path / "run"))
    module = model.own.module
    assert count_parameters(module.config).total == sum(p.numel() for p in module.parameters())
    for name in ("star_07", "oval_70"):
        corners = outline(name)
        assert corners is not None
        assert max(math.hypot(x, y) for x, y in corners) == pytest.approx(1.0)
        r = [math.hypot(x, y) for x, y in corners]
        expected = []
        for k in range(1, N_NUMBERS + 1):
            turned = [value * np.exp(-2j * np.pi * k * i / N_ANGLES) for i, value in enumerate(r)]
            expected.append(10.0 * abs(sum(turned)) / sum(r))
        read = module.tokens.weight[model.network.vocabulary.encode_ids(name)[0]].tolist()
        assert read == pytest.approx(expected, abs=1e-5)
    specials = [model.network.vocabulary.begin_id, model.network.vocabulary.end_id]
    assert not module.tokens.weight[specials].any()


def test_that_in_another_order_the_same_members_get_the_same_numbers() -> None:
    recipe = _anomalies()
    prepared = prepare(recipe)
    module = build_own(prepared.fitted(recipe.model), 0).double().eval()
    prepared.give_vectors(module)
    ids = prepared.batches.draw(np.random.default_rng(1), 0.0).ids[:1]
    order = torch.tensor([0, 4, 2, 9, 1, 10, 3, 8, 6, 5, 7, 11])
    told = module.logits(module.encode(ids)).detach()[0, :, 0]
    turned = module.logits(module.encode(ids[:, order])).detach()[0, :, 0]
    torch.testing.assert_close(turned, told[order], rtol=0.0, atol=1e-12)
    assert float((told[order] - told).abs().max()) > 1e-6


def test_that_one_shape_of_a_set_is_of_another_kind_and_shapes_held_out_are_in_no_other_set() -> None:
    task = make_task("set-anomaly")
    seen = {word for one in task.examples(200, seed=1) for word in one.source.split()}
    for example in task.examples(200, seed=1, held_out=True):
        members = example.source.split()
        assert not seen & {*members}
        kinds = [member.split("_")[0] for member in members]
        assert [kinds.count(kind) for kind in kinds] == [
            1 if i == example.places[0] else len(members) - 1 for i in range(len(members))
        ]
    assert shape_vectors().shape == (len(SHAPES), N_NUMBERS)
    assert outline("star") is outline("star_99") is outline("moon_01") is None


def test_that_sets_of_a_file_are_read_by_name_and_pointed_to(tmp_path: Path) -> None:
    names = np.array(["a", "b", "c", "d", "e", "f_1"])
    path = _of_file(tmp_path, names=names)
    recipe = _anomalies(data__kind="vectors", data__path=str(path), data__validation_share="0.4")
    prepared = prepare(recipe)
    assert prepared.labels == ("odd one",)
    assert prepared.vectors is not None
    n_rows = 0
    for batch in (*prepared.batches.evaluation(), prepared.batches.draw(np.random.default_rng(0), 0.0)):
        for ids, place in zip(batch.ids.tolist(), batch.labels.tolist(), strict=True):
            members = [prepared.tokenizer.token(id).piece for id in ids[1:-1]]
            row = [i for i, known in enumerate(names[GOOD["sets"]].tolist()) if known == members]
            assert GOOD["odd"][row].tolist() == [place - 1]
            assert prepared.vectors[ids[place]].tolist() == pytest.approx(
                GOOD["vectors"][names.tolist().index(members[place - 1])].tolist()
            )
            n_rows += 1
    assert n_rows > 3
    config = prepared.fitted(recipe.model)
    assert (config.n_numbers, config.n_labels) == (3, 1)


@pytest.mark.parametrize(
    ("arrays", "found"),
    [
        ({"vectors": np.array([[1.0, np.nan]] * 6)}, "NaN"),
        ({"vectors": np.zeros(6)}, r"vectors of shape \[6\]"),
        ({"vectors": np.array([["a"] * 3] * 6)}, "vectors of shape"),
        ({"sets": GOOD["sets"] + 1}, "sets of shape"),
        ({"sets": GOOD["sets"].astype(float)}, "float64"),
        ({"odd": GOOD["odd"] + 1}, "odd of shape"),
        ({"odd": np.array([0])}, r"odd of shape \[1\]"),
        ({"names": np.array(["a"] * 6)}, "names of shape"),
        ({"names": np.array(["a b", *"cdefg"])}, "names of shape"),
        ({"sets": np.array([[None, 1, 2]] * 6, dtype=object)}, "cannot be read as arrays"),
    ],
)
def test_that_a_file_with_a_wrong_array_is_refused(
    tmp_path: Path, arrays: dict[str, np.ndarray], found: str
) -> None:
    with pytest.raises(LoadError, match=found):
        read_vectors(_of_file(tmp_path, **arrays))


def test_that_what_is_no_npz_and_one_without_an_array_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "other.npz"
    path.write_bytes(b"PK\x03\x04 no archive")
    with pytest.raises(LoadError, match="cannot be read as arrays"):
        read_vectors(path)
    np.savez(path, vectors=GOOD["vectors"])
    with pytest.raises(LoadError, match="has no array sets"):
        read_vectors(path)


def test_that_only_models_that_point_read_vectors() -> None:
    with pytest.raises(RecipeError, match="does not go with"):
        _anomalies(objective__kind="labels")
    with pytest.raises(RecipeError, match=r"model\.n_numbers is set"):
        _anomalies(model__n_numbers="4")
