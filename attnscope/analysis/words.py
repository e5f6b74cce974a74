"""From tokens to words, by the places of both in the text, for a whole batch at once.

| symbol   | meaning                                        | shape                                |
|----------|------------------------------------------------|--------------------------------------|
| to_query | 1 / pieces of the word, where a piece is its   | [n_words, n_queries]                 |
| to_key   | 1 where a piece is of the word                 | [n_words, n_keys]                    |
| between  | to_query · weights · to_keyᵀ                   | [batch, n_heads, n_words, n_words]   |

Weights to a word are summed over its pieces, weights from a word averaged over them (Clark et al. 2019,
section 4.1). Special tokens are of no word: their rows and columns fall away, and the largest weight
among words is the same whether the rest is renormalised or not.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from attnscope.analysis.model_adapter import QuietProbe
from attnscope.nn.edits import Call
from attnscope.nn.scores import log_weights
from attnscope.records.sites import SiteKey, Stack
from attnscope.records.tokens import Token
from attnscope.trace.record import finite_weights

Span = tuple[int, int]
"""First character and the one after the last."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class WordMaps:
    """Which pieces belong to which words: both float32, see the module's legend."""

    to_query: Tensor
    to_key: Tensor


class WordProbe(QuietProbe):
    """Weights between the words of a batch at the sites of some stacks; read `between` after the pass.

    `between` is [batch, n_heads, n_words, n_words], padded with 0. Where a rule is causal, a word sees the
    words before it and itself: `is_causal` says so of each site.
    """

    def __init__(self, stacks: Collection[Stack], maps: WordMaps) -> None:
        self._stacks, self._maps = stacks, maps
        self.between: dict[SiteKey, Tensor] = {}
        self.is_causal: dict[SiteKey, bool] = {}

    def wants(self, site: SiteKey) -> bool:
        return site[0] in self._stacks

    def record(self, site: SiteKey, call: Call, *, lse: Tensor, out: Tensor, is_training: bool) -> None:
        """Keep the weights between words."""
        logs = log_weights(call.q, call.k, lse, rule=call.rule, score=call.score)
        weights = finite_weights(logs.exp_())  # [B, H, Q, T]
        self.between[site] = (
            self._maps.to_query[:, None] @ weights @ self._maps.to_key[:, None].transpose(2, 3)
        )  # [B, H, W, W]
        self.is_causal[site] = call.rule.is_causal


def find_spans(text: str, words: Sequence[str]) -> list[Span] | None:
    """Where words stand one after the other in a text; None when one of them is not found.

    Nothing but blanks may lie between two words.
    """
    spans: list[Span] = []
    place = 0
    for word in words:
        start = text.find(word, place)
        if start < 0 or text[place:start].strip():
            return None
        place = start + len(word)
        spans.append((start, place))
    return spans


def piece_matrix(tokens: Sequence[Token], spans: Sequence[Span]) -> Tensor:
    """1 where a token and a word share characters: float32 [n_words, n_tokens]."""
    starts = torch.tensor([t.start for t in tokens], dtype=torch.int64)
    ends = torch.tensor([-1 if t.is_special else t.end for t in tokens], dtype=torch.int64)
    firsts = torch.tensor([start for start, _ in spans], dtype=torch.int64)[:, None]
    lasts = torch.tensor([end for _, end in spans], dtype=torch.int64)[:, None]
    return ((starts < lasts) & (ends > firsts)).float()


def word_maps(
    queries: Sequence[Token],
    query_spans: Sequence[Span],
    keys: Sequence[Token],
    key_spans: Sequence[Span],
    *,
    shift: int = 0,
) -> WordMaps:
    """The maps between the words of two texts, or of one.

    `shift` 1 lets the row before a piece stand for it: the row that predicts it.
    """
    to_query = piece_matrix(queries, query_spans)
    if shift:
        to_query = torch.cat([to_query[:, shift:], torch.zeros(len(query_spans), shift)], dim=1)
    n_pieces = to_query.sum(dim=1, keepdim=True).clamp(min=1.0)
    return WordMaps(to_query=to_query / n_pieces, to_key=piece_matrix(keys, key_spans))


def stack_maps(maps: Sequence[WordMaps], device: torch.device | str = "cpu") -> WordMaps:
    """The maps of a batch, filled up with 0: [batch, n_words, n_queries] and [batch, n_words, n_keys]."""
    return WordMaps(
        to_query=_stacked([one.to_query for one in maps]).to(device),
        to_key=_stacked([one.to_key for one in maps]).to(device),
    )


def _stacked(matrices: Sequence[Tensor]) -> Tensor:
    n_rows, n_columns = max(m.shape[0] for m in matrices), max(m.shape[1] for m in matrices)
    filled = torch.zeros(len(matrices), n_rows, n_columns)
    for index, matrix in enumerate(matrices):
        filled[index, : matrix.shape[0], : matrix.shape[1]] = matrix
    return filled
