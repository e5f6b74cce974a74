"""Positions in the tree of brackets: against a tree that is built and walked, and in a model."""

import math

import numpy as np
import pytest
import torch
from tiny_models import SENTENCE, tiny_model

from attnscope.analysis import attribute_logits
from attnscope.errors import RecipeError
from attnscope.nn import ModelConfig, build_transformer
from attnscope.schemes.positions import POSITIONS
from attnscope.training import parse_recipe, prepare

OPEN, CLOSE = (3, 5), (4, 6)
DECAY = 0.7
TEXTS = (
    [1, 3, 7, 8, 3, 9, 4, 5, 3, 7, 4, 6, 8, 4, 2],
    [4, 4, 3, 7, 4, 7, 4],  # closed too often
    [3, 3, 3, 3, 3, 3, 7],  # never closed, and deeper than there is room for
    [7] * 12,  # no brackets, and more children than are told apart
    [3],
)


def path_encodings(ids: list[int], *, width: int, n_levels: int, d_model: int) -> np.ndarray:
    """What a model with these brackets adds to a text."""
    config = ModelConfig(
        form="encoder", vocab_size=12, d_model=d_model, position="tree", tree_width=width,
        tree_depth=n_levels, opening=OPEN, closing=CLOSE,
    )  # fmt: skip
    (found,) = POSITIONS["tree"].of_rows(torch.tensor([ids]), config)
    return found.double().numpy()


def slow_vectors(ids: list[int], width: int, n_levels: int) -> np.ndarray:
    """T by the recursion of the paper, in float64: T(root) = 0, T(child b) = (e_b, T(list)[:−w])."""
    n = width * n_levels

    def pushed(vector: np.ndarray, child: int) -> np.ndarray:
        unit = np.zeros(width)
        unit[min(child, width - 1)] = 1.0
        return np.concatenate([unit, vector])[:n]

    found, lists = [], [(np.zeros(n), 0)]  # the vector of each open list, and its children so far
    for id in ids:
        if id in OPEN:
            vector, n_children = lists[-1]
            lists[-1] = (vector, n_children + 1)
            lists.append((pushed(vector, n_children), 0))
        vector, n_children = lists[-1]
        found.append(pushed(vector, n_children))
        lists[-1] = (vector, n_children + 1)
        if id in CLOSE and len(lists) > 1:
            lists.pop()
    sizes = np.repeat(DECAY ** np.arange(n_levels), width) * math.sqrt((1 - DECAY**2) * n / 2)
    return np.array(found) * sizes


@pytest.mark.parametrize("ids", TEXTS)
@pytest.mark.parametrize(("width", "n_levels", "d_model"), [(8, 8, 64), (3, 3, 10), (2, 1, 2), (5, 2, 24)])
def test_that_each_token_has_the_vector_of_its_path(
    ids: list[int], width: int, n_levels: int, d_model: int
) -> None:
    made = path_encodings(ids, width=width, n_levels=n_levels, d_model=d_model)
    slow = slow_vectors(ids, width, n_levels)
    np.testing.assert_allclose(made[:, : slow.shape[1]], slow, rtol=1e-6)
    assert not made[:, slow.shape[1] :].any()


def test_that_one_matrix_takes_every_list_to_its_child() -> None:
    """The vectors of a list's brackets and of its first member differ by the same matrix at every depth."""
    ids, width, d_model = [3, 7, 3, 7, 3, 7, 4, 4, 4], 4, 24
    table = path_encodings(ids, width=width, n_levels=6, d_model=d_model)
    down = np.zeros((d_model, d_model))
    down[width:, :-width] = DECAY * np.eye(d_model - width)
    deeper = [2, 4]  # the opening brackets of the second and the third list: child 2 of the list before
    size = math.sqrt((1 - DECAY**2) * d_model / 2)
    for at, before in zip(deeper, [0, 2], strict=True):
        list_itself = table[before].copy()
        list_itself[:width] = 0.0  # the path to the list: the bracket is its child 0
        to_list = np.concatenate([list_itself[width:], np.zeros(width)]) / DECAY
        expected = down @ (down @ to_list + size * np.eye(d_model)[2]) + size * np.eye(d_model)[0]
        np.testing.assert_allclose(table[at], expected, atol=1e-6)


def test_that_a_model_adds_them_to_its_embeddings_of_every_text_by_itself() -> None:
    values = {"form": "encoder", "vocab_size": 12, "d_model": 24, "n_layers": 1, "n_heads": 2, "d_ff": 8}
    more = {"position": "tree", "tree_width": 4, "opening": list(OPEN), "closing": list(CLOSE)}
    config = ModelConfig.from_dict({**values, **more})
    assert ModelConfig.from_dict(config.to_dict()) == config
    with_tree, without = build_transformer(config, 0), build_transformer(
        ModelConfig.from_dict({**values, "position": "none"}), 0
    )  # fmt: skip
    ids = torch.tensor([TEXTS[0], [*TEXTS[1], *TEXTS[2], 7]])
    tables = np.stack([slow_vectors(row, 4, 6) for row in ids.tolist()])
    embed = without.tokens.forward
    without.tokens.forward = lambda given: embed(given) + torch.tensor(tables).float()
    torch.testing.assert_close(with_tree.encode(ids), without.encode(ids), atol=1e-5, rtol=0)
    assert POSITIONS["tree"].reads_row
    assert not with_tree.can_cache


def test_that_an_embedding_says_what_its_path_added() -> None:
    model = tiny_model("encoder", position="tree", tree_width=3, opening=[6], closing=[7])
    found = attribute_logits(model, SENTENCE, position=3, answer=7, other=5)
    assert found.total == pytest.approx(found.difference, abs=2e-5)
    (position,) = (one for one in found.contributions if one.label == "position")
    assert position.value != 0.0


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"model.tree_width": "128"}, "tree_width"),
        ({"model.tree_depth": "3"}, "tree_width"),
        ({"data.task": '"tagging"'}, "no token that is an opening"),
        ({"model.opening": "[3]"}, "model.opening is set"),
    ],
)
def test_that_what_has_no_tree_is_refused(changes: dict[str, str], said: str) -> None:
    written = """
    [model]
    d_model = 16
    n_heads = 2
    d_ff = 16
    position = "tree"
    [data]
    kind = "task"
    task = "nested-lists"
    n_examples = 20
    [objective]
    kind = "labels"
    [training]
    n_steps = 1
    """

    def fitted() -> None:
        recipe = parse_recipe(written, overrides=changes)
        prepare(recipe).fitted(recipe.model)

    with pytest.raises(RecipeError) as caught:
        fitted()
    assert said in str(caught.value)
