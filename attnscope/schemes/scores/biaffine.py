"""The biaffine score: a matrix for each head, and a term for each key alone (Dozat and Manning 2017).

q U k + w·k, the score of their dependency parser (section 2.2); U is all rows but the last of what is
learned, which is w. A term of the query alone would be the same for all keys of a row.
"""

import math
from typing import TYPE_CHECKING

from attnscope.schemes.scores.score import Score

if TYPE_CHECKING:
    from torch import Generator, Tensor


class Biaffine(Score):
    name, title, order = "biaffine", "biaffine", 70
    formula, source = "q U k + w·k", "Dozat and Manning 2017"
    is_bilinear = False
    learned = "biaffine"

    def learned_shape(self, d_head: int) -> tuple[int, ...]:
        return d_head + 1, d_head

    def fill(self, learned: "Tensor", generator: "Generator") -> None:
        """Start as the scaled product, with no key more likely than another."""
        import torch

        d_head = learned.shape[-1]
        learned.zero_()[:, :d_head] = torch.eye(d_head) / math.sqrt(d_head)

    def turned(self, q: "Tensor", learned: "Tensor") -> "Tensor":
        turned = q @ learned[:, :-1]
        return turned + learned[:, -1:].to(turned.dtype)

    def n_kept(self, n: int, k: int, n_heads: int) -> int:
        return 3 * n
