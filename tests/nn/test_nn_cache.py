"""A decoder with a cache computes new rows only, and says what it says without one."""

import pytest
import torch

from attnscope.nn import KeyValueCache, ModelConfig, Transformer


def decoder(fill_with_ramp, **choices) -> Transformer:
    values = {"form": "decoder", "vocab_size": 11, "d_model": 16, "n_heads": 4, "n_kv_heads": 2, "d_ff": 24}
    module = Transformer(ModelConfig.from_dict({**values, "max_tokens": 80, **choices})).eval()
    fill_with_ramp(module)
    return module


@pytest.mark.parametrize("position", ["learned", "sinusoidal", "rotary", "none"])
@pytest.mark.parametrize("form", ["decoder", "encoder-decoder"])
@torch.no_grad()
def test_that_a_text_read_in_parts_is_a_text_read_at_once(fill_with_ramp, assert_close, position, form):
    module = decoder(fill_with_ramp, position=position, form=form)
    ids = torch.arange(75)[None] % 11
    memory = module.encode(ids[:, :5]) if form == "encoder-decoder" else None
    whole = module.logits(module.decode(ids, memory=memory))
    cache = KeyValueCache()
    parts = [
        module.logits(module.decode(part, memory=memory, cache=cache))
        for part in ids.split([3, 1, 1, 2, 60, 1, 7], dim=1)
    ]
    assert cache.n_tokens == 75
    assert cache.n_bytes > 0
    assert_close(torch.cat(parts, dim=1), whole, atol=2e-5)


@torch.no_grad()
def test_that_sequences_go_on_from_their_parents(fill_with_ramp, assert_close):
    module = decoder(fill_with_ramp, position="rotary", form="encoder-decoder")
    memory = module.encode(torch.tensor([[4, 5, 6]]))
    cache = KeyValueCache()
    module.decode(torch.tensor([[1, 2]]), memory=memory, cache=cache)
    cache.select(torch.tensor([0, 0, 0]))
    module.decode(torch.tensor([[3], [4], [5]]), memory=memory, cache=cache)
    cache.select(torch.tensor([2, 0]))
    found = module.decode(torch.tensor([[6], [7]]), memory=memory, cache=cache)
    texts = torch.tensor([[1, 2, 5, 6], [1, 2, 3, 7]])
    whole = module.decode(texts, memory=memory.expand(2, -1, -1))
    assert_close(found, whole[:, -1:], atol=1e-5)


@torch.no_grad()
def test_that_more_tokens_than_positions_are_refused(fill_with_ramp):
    module = decoder(fill_with_ramp, max_tokens=4)
    cache = KeyValueCache()
    module.decode(torch.tensor([[1, 2, 3]]), cache=cache)
    with pytest.raises(ValueError, match="1 to 1"):
        module.decode(torch.tensor([[1, 2]]), cache=cache)


def test_that_keys_of_another_number_of_sequences_are_refused():
    cache = KeyValueCache()
    k = torch.zeros(1, 2, 3, 4)
    cache.extend(("decoder", 0), k, k)
    with pytest.raises(ValueError, match="2 sequences, expected 1"):
        cache.extend(("decoder", 0), k.expand(2, -1, -1, -1), k)
    with pytest.raises(ValueError, match="of 2 texts, values of 1"):
        cache.keep(("cross", 0), k.expand(2, -1, -1, -1), k)
    cache.keep(("cross", 0), k.expand(2, -1, -1, -1), k.expand(2, -1, -1, -1))
    with pytest.raises(ValueError, match="of 2 texts, and 3 sequences"):
        cache.find(("cross", 0), 3)
