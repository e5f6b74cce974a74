"""Pointing to tokens: a softmax over the tokens of the text, not over a vocabulary (Vinyals et al. 2015).

One place, or a start and an end (Devlin et al. 2018, section 4.2).

| symbol | meaning                                    | shape              |
|--------|--------------------------------------------|--------------------|
| told   | one number for each token and each place   | [n_tokens, 1 or 2] |
| p      | softmax of a column over the tokens        | [n_tokens]         |
"""

from collections.abc import Sequence

import torch
from torch import Tensor

ANSWER, NOT_MEANT = "answer", "–"
"""What a token is called that lies between start and end, and one that is not pointed to."""


def pointed(told: Tensor, may_point_to: Sequence[int]) -> Tensor:
    """Log P that a token belongs to the answer, and log P that it does not: [n_tokens, 2], float64.

    With one place P is the softmax over the tokens of `may_point_to`; with two, a start s and an end e, it is
    P(s ≤ token ≤ e) under p(s) p(e) over all pairs with s ≤ e.
    """
    p = torch.zeros_like(told, dtype=torch.float64)
    p[list(may_point_to)] = told[list(may_point_to)].double().softmax(dim=0)
    if p.shape[1] == 1:
        inside = p[:, 0]
    else:
        begun, not_over = p[:, 0].cumsum(0), p[:, 1].flip(0).cumsum(0).flip(0)
        inside = begun * not_over / (p[:, 0] * not_over).sum()
    inside = inside.clamp(0.0, 1.0)
    return torch.stack([inside, 1.0 - inside], dim=1).log()
