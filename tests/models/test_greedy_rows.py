"""Many texts written greedily at once, against one token at a time without a cache."""

import pytest
import torch

from attnscope.models.writing import count_right, write_rows
from attnscope.nn import ModelConfig, build_own

BODIES = (
    {"body": "gru", "has_attention": False, "tie_embeddings": False},
    {"body": "gru", "score": "additive", "tie_embeddings": False},
    {"n_heads": 2, "position": "sinusoidal", "tie_embeddings": False},
)


@pytest.mark.parametrize("body", BODIES)
def test_that_rows_are_what_the_model_says_token_by_token(body: dict[str, object]) -> None:
    config = ModelConfig.from_dict(
        {
            "form": "encoder-decoder",
            "vocab_size": 9,
            "d_model": 8,
            "n_layers": 1,
            "n_heads": 1,
            "max_tokens": 12,
            **body,
        }
    )
    module = build_own(config, 3)
    for weight in module.parameters():
        weight.data.mul_(5.0)  # so that the likeliest token changes along a text
    sources = torch.tensor([[1, 2, 3, 8], [4, 4, 0, 8], [6, 5, 1, 8]])
    slow = []
    for source in sources:
        ids = [7]
        for _ in range(6):
            hidden = module.decode(torch.tensor([ids]), memory=module.encode(source[None]))
            ids.append(int(module.logits(hidden)[0, -1].argmax()))
        slow.append(ids[1:])
    assert write_rows(module, sources, 7, 6).tolist() == slow
    assert len({token for row in slow for token in row}) > 1
    assert module.training


def test_that_a_row_counts_when_it_is_right_to_its_end() -> None:
    right = torch.tensor([[1, 2, 9], [3, 4, 9], [5, 6, 9], [7, 8, 9]])
    written = torch.tensor([[1, 2, 9], [3, 4, 4], [6, 5, 9], [7, 8, 9]])
    found = count_right(written, right)
    assert (found.n_texts, found.n_exact) == (4, 2)
    assert found.token_share == pytest.approx((3 + 2 + 1 + 3) / 12)
