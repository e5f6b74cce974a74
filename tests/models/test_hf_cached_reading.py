"""Reading on with room in the cache gives the logits of reading again, past the end of the first room."""

import pytest
import torch

from attnscope.models.huggingface import CachedReading, cache_argument

library = pytest.importorskip("transformers")

N_PIECES, N_TOKENS = 17, 150


@pytest.fixture(scope="module")
def model():
    torch.manual_seed(0)
    config = library.GPT2Config(
        vocab_size=N_PIECES, n_embd=8, n_layer=2, n_head=2, n_positions=N_TOKENS, bos_token_id=None,
        eos_token_id=None,
    )  # fmt: skip
    return library.GPT2LMHeadModel(config).eval()


def whole(model, ids):
    with torch.no_grad():
        return model(torch.tensor([ids]), use_cache=False).logits[0]


def text(n: int, start: int = 0) -> list[int]:
    return [(start + 3 * i * i + i) % N_PIECES for i in range(n)]


def test_that_a_text_read_token_by_token_has_the_logits_of_the_whole(model, assert_close):
    reading, ids = CachedReading(model), text(N_TOKENS)
    read = [reading.read([ids[:5]])[:, 0]]
    read += [reading.read([[id]])[:, 0] for id in ids[5:]]
    assert_close(torch.cat(read), whole(model, ids)[4:], atol=1e-4)


def test_that_what_was_taken_back_is_forgotten(model, assert_close):
    reading, ids = CachedReading(model), text(80)
    reading.read([[*ids[:70], 1, 2, 3]])
    reading.take_back(3)
    for id in ids[70:]:
        last = reading.read([[id]])
    assert_close(last[0], whole(model, ids)[-1:], atol=1e-4)


def test_that_texts_that_change_places_keep_their_own_keys(model, assert_close):
    reading, ids = CachedReading(model), text(66)
    reading.read([ids])
    reading.select([0, 0])
    reading.read([[1], [2]])
    reading.select([1, 0, 1])
    logits = reading.read([[4], [5], [6]])
    texts = [[*ids, 2, 4], [*ids, 1, 5], [*ids, 2, 6]]
    assert_close(logits[:, 0], torch.stack([whole(model, one)[-1] for one in texts]), atol=1e-4)


def test_that_what_was_given_to_the_attention_is_never_written_again(model):
    reading, ids, kept = CachedReading(model), text(100), []
    caches: list = []
    hook = model.register_forward_pre_hook(
        lambda *given: caches.append(given[2][cache_argument(model)]), with_kwargs=True
    )
    for id in ids:
        reading.read([[id]])
        kept.append(caches[-1].layers[0].keys)  # what the attention read
    hook.remove()
    copies = [keys.clone() for keys in kept]
    reading.take_back(40)
    for id in text(40, start=9):
        reading.read([[id]])
    assert all(torch.equal(keys, copy) for keys, copy in zip(kept, copies, strict=True))
