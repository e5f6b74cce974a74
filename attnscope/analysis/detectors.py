"""Detectors: how far a head's weights follow a pattern known beforehand.

| symbol | meaning                                  | shape                       |
|--------|------------------------------------------|-----------------------------|
| a      | weights; NaN where the mask forbids      | [..., n_tokens, n_tokens]   |
| P      | pattern, 1 where the head should look    | [n_tokens, n_tokens]        |

- previous: P[i, i−1] = 1
- duplicate: P[i, j] = 1 where token j equals token i and j < i
- induction: P[i, j] = 1 where token j−1 equals token i and 1 ≤ j ≤ i: the token *after* an earlier
  occurrence (Olsson et al. 2022)

Scores: "mul" Σ(a∘P)/Σa, "abs" 1 − n · mean|a − P| (the detectors of TransformerLens, Nanda and Bloom
2022). On text repeated once, the induction stripe is the mean weight at offset 1 − s.
"""

from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor

from attnscope.errors import UserError

PatternName = Literal["previous", "duplicate", "induction"]
Scoring = Literal["mul", "abs"]


def pattern(name: PatternName, ids: Sequence[int]) -> Tensor:
    """The pattern P of a text: float32 [n_tokens, n_tokens]."""
    tokens = torch.tensor(list(ids), dtype=torch.int64)
    n = len(tokens)
    if name == "previous":
        return torch.eye(n).roll(-1, dims=1).tril(-1)
    same = tokens[:, None] == tokens[None, :]  # [i, j]: token i equals token j
    if name == "duplicate":
        return same.float().tril(-1)
    if name != "induction":
        raise UserError(f"There is no pattern {name!r}.", expected="previous, duplicate or induction")
    after = torch.zeros(n, n)
    after[:, 1:] = same[:, :-1].float()  # [i, j]: token i equals token j−1
    return after.tril(0)


def detect(weights: Tensor, expected: Tensor, scoring: Scoring = "mul") -> Tensor:
    """The score of each head; `weights` is [..., n, n] and never written to."""
    if weights.shape[-2:] != expected.shape:
        raise ValueError(f"weights {list(weights.shape)} against a pattern {list(expected.shape)}")
    a = weights.nan_to_num(nan=0.0)
    expected = expected.to(a)
    if scoring == "mul":
        return (a * expected).sum(dim=(-2, -1)) / a.sum(dim=(-2, -1))
    if scoring != "abs":
        raise UserError(f"There is no scoring {scoring!r}.", expected="'mul' or 'abs'")
    return 1.0 - expected.shape[-1] * (a - expected).abs().mean(dim=(-2, -1))


def induction_stripe(weights: Tensor, n_period: int) -> Tensor:
    """Mean weight, over the second half of a text repeated once, on the token after the same one before.

    Query i looks at key i + 1 − s, where s = `n_period` is the length of one copy; weights [..., n, n]
    start at the first token of the first copy. Near 1 for an induction head.
    """
    stripe = weights.diagonal(1 - n_period, dim1=-2, dim2=-1)  # queries from s − 1 on
    return stripe.nan_to_num(nan=0.0)[..., 1:].mean(dim=-1)
