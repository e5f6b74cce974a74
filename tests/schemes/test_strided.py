"""The strided mask of the Sparse Transformer against its definition, cell by cell."""

import pytest
import torch
from slow_site import filled, seen_and_slow
from tiny_models import SENTENCE, tiny_model

from attnscope.cli.main import main
from attnscope.errors import RecipeError
from attnscope.models import own_cost
from attnscope.nn import ModelConfig, Sparse, attention, build_self_mask

SIZES = {
    "vocab_size": 13, "d_model": 12, "n_layers": 1, "n_heads": 4, "n_kv_heads": 2, "d_ff": 10,
    "max_tokens": 60, "mask": "strided",
}  # fmt: skip


def is_seen(i: int, j: int, window: int) -> bool:
    return abs(i - j) <= window or (i - j) % window == 0


@pytest.mark.parametrize("window", [1, 2, 3, 5, 11, 30])
@pytest.mark.parametrize("is_causal", [False, True])
def test_that_a_query_sees_its_window_and_every_key_at_the_stride(window: int, is_causal: bool) -> None:
    config = ModelConfig.from_dict({**SIZES, "form": "decoder" if is_causal else "encoder", "window": window})
    mask = build_self_mask(config, 60)
    for n_queries, n_keys in ((11, 11), (1, 1), (3, 14), (1, 20)):
        rule = mask.rule(n_queries, n_keys, is_causal=is_causal)
        found = rule.allowed(n_queries, n_keys)[0, 0]
        for row in range(n_queries):
            i = n_keys - n_queries + row
            expected = [is_seen(i, j, window) and (j <= i or not is_causal) for j in range(n_keys)]
            assert found[row].tolist() == expected
    for n in (1, 2, 7, 12, 37):
        assert mask.count(n) == sum(is_seen(i, j, window) for i in range(n) for j in range(n))


@pytest.mark.parametrize("form", ["encoder", "decoder"])
@pytest.mark.parametrize("window", [1, 3, 4])
def test_that_attention_is_that_of_the_cells_that_are_seen(form: str, window: int) -> None:
    config = ModelConfig.from_dict({**SIZES, "form": form, "window": window, "position": "none"})
    found, expected = seen_and_slow(
        filled(config),
        torch.arange(12)[None],
        lambda q, k, head, i, j: q @ k * config.head_width**-0.5,
        lambda i, j: is_seen(i, j, window),
    )
    torch.testing.assert_close(found.double(), expected, atol=2e-5, rtol=0)


@pytest.mark.parametrize("form", ["encoder", "decoder"])
@torch.no_grad()
def test_that_keys_picked_out_for_long_texts_change_nothing(form: str, monkeypatch) -> None:
    model = filled(ModelConfig.from_dict({**SIZES, "form": form, "window": 9}))
    read, ids = model.decode if form == "decoder" else model.encode, torch.arange(60)[None] * 3 % 13
    expected = read(ids)
    monkeypatch.setattr(attention, "_LEAST_GATHERED", 1)
    monkeypatch.setattr(attention, "_GATHERED_ROWS", 3)
    torch.testing.assert_close(read(ids), expected, atol=2e-5, rtol=0)
    pattern = model.self_mask.rule(60, 60, is_causal=False).pattern
    for start in (0, 17, 57):
        picked = pattern.columns(range(start, start + 3), 60)
        wanted = [j for j in range(60) if any(is_seen(i, j, 9) for i in range(start, start + 3))]
        assert picked.tolist() == wanted


def test_that_two_layers_join_any_two_tokens_at_a_third_of_the_cost() -> None:
    n, window = 36, 6
    seen = torch.tensor([[is_seen(i, j, window) and j <= i for j in range(n)] for i in range(n)]).double()
    assert ((seen @ seen)[torch.tril_indices(n, n).unbind()] > 0).all()
    strided, full = (
        own_cost(ModelConfig.from_dict({**SIZES, "form": "encoder", "mask": name, "window": window}), n)
        for name in ("strided", "full")
    )
    n_seen = sum(is_seen(i, j, window) for i in range(n) for j in range(n))
    assert full.forward - strided.forward == 4 * 12 * (n * n - n_seen)
    assert n_seen < 0.45 * n * n


def test_that_impossible_numbers_are_refused() -> None:
    with pytest.raises(RecipeError) as caught:
        ModelConfig.from_dict({**SIZES, "form": "encoder", "window": 0})
    assert caught.value.expected == "at least 1 beside the mask strided"
    for numbers in ([2, 2, 0, 1, 0, 0, 3], [2, 1, 1, 1, 0, 0, 3], [2, 1, 0, 1, 0, 0, -3]):
        pattern = Sparse(numbers=torch.tensor(numbers), links=torch.zeros(0, 0, dtype=torch.int64))
        with pytest.raises(ValueError, match="stride"):
            pattern.check(4, 4)


def test_that_a_recipe_trains_with_it(tmp_path) -> None:
    sets = ("model.mask=strided", "model.window=3", "model.d_model=16", "model.d_ff=16", "training.n_steps=2")
    more = ("data.n_examples=50", "training.batch_size=2", "training.evaluate_every=2")
    words = [word for one in (*sets, *more) for word in ("--set", one)]
    assert main(["--device", "cpu", "train", "copy", "--out", str(tmp_path / "run"), *words]) == 0
    assert tiny_model("encoder", mask="strided", window=2).trace(SENTENCE).check().is_good
