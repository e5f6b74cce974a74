"""A model that sees the first tokens at once is not asked for what it sees."""

from pathlib import Path

import numpy as np
import pytest
import torch

from attnscope.models import load
from attnscope.records import Evaluated, Finished
from attnscope.training import AfterPrefix, Batch, train

pytestmark = pytest.mark.slow

RECIPE = """
[model]
d_model = 16
n_layers = 1
n_heads = 2
d_ff = 32
max_tokens = 32
mask = "prefix"
prefix_tokens = 6
[data]
kind = "task"
task = "induction"
n_examples = 50
[objective]
kind = "causal"
[training]
n_steps = 2
batch_size = 4
evaluate_every = 2
evaluation_batches = 1
[[watch]]
text = "a b c a b c"
"""


class Rows:
    """One batch of two rows of five tokens, all scored."""

    def draw(self, rng: np.random.Generator, progress: float) -> Batch:
        ids = torch.arange(10).reshape(2, 5)
        return Batch(ids=ids, scored=torch.arange(10), labels=torch.arange(10) + 1)

    def evaluation(self) -> tuple[Batch, ...]:
        return (self.draw(np.random.default_rng(0), 0.0),)


def test_that_only_tokens_after_the_prefix_are_told() -> None:
    batches = AfterPrefix(batches=Rows(), n_prefix=3)
    for batch in (batches.draw(np.random.default_rng(0), 0.0), *batches.evaluation()):
        assert batch.scored.tolist() == [2, 3, 4, 7, 8, 9]
        assert batch.labels.tolist() == [3, 4, 5, 8, 9, 10]


def test_that_a_model_with_a_prefix_is_trained_and_traced_with_it(tmp_path: Path) -> None:
    recipe = tmp_path / "prefix.toml"
    recipe.write_text(RECIPE, encoding="utf-8")
    events = list(train(recipe, tmp_path / "run", "cpu"))
    assert isinstance(events[-1], Finished)
    assert any(isinstance(event, Evaluated) for event in events)
    weights = load(tmp_path / "run").trace("q w e r t y u i o p").weights(0, 0)
    is_seen = ~np.isnan(weights)
    assert is_seen[:6, :6].all()
    assert not is_seen[:6, 6:].any()
    assert (is_seen[6:] == np.tril(np.ones_like(is_seen))[6:]).all()
