"""From a text's hidden states to one row: first, last, mean, max, or a learned query.

    symbol     meaning                                              shape
    hidden, h  the stream of an encoder or decoder                  [batch, n_tokens, d_model]
    valid      False where a token is padding                       [batch, n_tokens], None: none is
    u          the learned query                                    [d_model]
    α          weights of the summary on the tokens, rows sum to 1  [batch, n_tokens]
    s          the summary, Σ_t α_t h_t                             [batch, d_model]

α = softmax(tanh(W h + b) · u) (Yang et al. 2016, "Hierarchical Attention Networks for Document
Classification", equations 5 to 7): a dot product of u with the keys tanh(W h + b) at scale 1, whose values
are h itself, so that it goes through `attend` like any other head. The hierarchical summary pools the words
of each sentence, then the sentences (equations 8 to 10); between the two there may be an encoder.

Two sentences read side by side: each word of one looks for its like in the other, both ways.

    symbol    meaning                                          shape
    a, b      hidden states of the first and second text       [batch, n_source or n_target, d_model]
    e         a_i · b_j                                        [batch, n_source, n_target]
    ã, b̃      what each word finds in the other text           as a, b

ã_i = Σ_j softmax_j(e_ij) b_j and b̃_j = Σ_i softmax_i(e_ij) a_i; m = relu(F [a; ã; a − ã; a ⊙ ã]) (Chen et
al. 2017, "Enhanced LSTM for Natural Language Inference", equations 11 to 15). Their second LSTM is left out.
The scores are not divided by √d: with the division the alignment stayed blurred (weight 0.34 on the opposite
of an adjective in the task `entailment`, without it 0.65).

Both texts pass through the same encoder. What it does with the second is told to the probe under names of
its own: encoder → second, pool → second-pool.

Cells that read texts of different lengths in one batch, each from its own beginning and its own end.

symbol    meaning                                        shape
x         what is read, padding at the end of a text     [batch, n_tokens, n_in]
lengths   tokens of each text, 1 at least                [batch], int64
turned    where the token of a place stands backwards    [batch, n_tokens], its own inverse
"""

from abc import abstractmethod
from collections.abc import Sequence
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from attnscope.nn.attention import Probe, attend
from attnscope.nn.config import ModelConfig
from attnscope.nn.edits import Call, Edits
from attnscope.nn.masks import Intervals, MaskRule, build_rule
from attnscope.records.sites import SiteKey, Stack

_PACKING = ("cpu", "cuda")


def read_padded(cells: nn.RNNBase, x: Tensor, lengths: Tensor) -> Tensor:
    """The states of all tokens, both directions concatenated; 0 at padding: [batch, n_tokens, width].

    Packed sequences have their lengths on the CPU: with `lengths` elsewhere the device is waited for. On MPS
    packed sequences give no gradients or crash (pytorch/pytorch issue 102911; drop `_read_turned` when it is
    closed), so there texts are turned round instead.
    """
    if x.device.type not in _PACKING:
        return _read_turned(cells, x, lengths.to(x.device))
    packed = pack_padded_sequence(x, lengths.cpu(), batch_first=True, enforce_sorted=False)
    return pad_packed_sequence(cells(packed)[0], batch_first=True, total_length=x.shape[1])[0]


def _read_turned(cells: nn.RNNBase, x: Tensor, lengths: Tensor) -> Tensor:
    place = torch.arange(x.shape[1], device=x.device)
    is_there = place < lengths[:, None]
    turned = torch.where(is_there, lengths[:, None] - 1 - place, place)[..., None]  # [B, T, 1]
    for layer in range(cells.num_layers):
        forwards = _read_one(cells, x, f"l{layer}")
        backwards = _read_one(cells, x.gather(1, turned.expand_as(x)), f"l{layer}_reverse")
        backwards = backwards.gather(1, turned.expand_as(backwards))
        x = torch.cat((forwards, backwards), dim=-1) * is_there[..., None]
        if layer + 1 < cells.num_layers and cells.dropout:
            x = F.dropout(x, cells.dropout, training=cells.training)
    return x


def _read_one(cells: nn.RNNBase, x: Tensor, part: str) -> Tensor:
    """Run one layer in one direction, from zero states."""
    names = ("weight_ih", "weight_hh", *(("bias_ih", "bias_hh") if cells.bias else ()))
    weights = [cast("Tensor", getattr(cells, f"{name}_{part}")) for name in names]
    start = x.new_zeros(1, len(x), cells.hidden_size)
    if isinstance(cells, nn.LSTM):
        return torch.lstm(x, [start, start], weights, cells.bias, 1, 0.0, cells.training, False, True)[0]
    read = torch.gru if isinstance(cells, nn.GRU) else torch.rnn_tanh
    return read(x, start, weights, cells.bias, 1, 0.0, cells.training, False, True)[0]


# What stands between the two poolings of a hierarchical summary: each sentence learns of the others.


class SentenceEncoder(nn.Module):
    """Encodes sentence rows, as `ModelConfig.sentence_encoder` says."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        d, bias = config.d_model, config.bias
        is_gru = config.sentence_encoder == "gru"
        self.cells = nn.GRU(d, d // 2, bias=bias, batch_first=True, bidirectional=True) if is_gru else None
        self.dense = None if is_gru else nn.Linear(d, d, bias=bias)

    def forward(self, rows: Tensor, is_there: Tensor) -> Tensor:
        """The encoded rows; `is_there` [batch, n_sentences] marks the sentences of each text."""
        if self.cells is None:
            dense: nn.Module | None = self.dense
            return torch.tanh(dense(rows)) if dense is not None else rows
        return read_padded(self.cells, rows, is_there.sum(dim=1))


class AttentionPool(nn.Module):
    """One learned query over rows; every group of rows visible under a rule has its own sum."""

    def __init__(self, d_model: int, site: SiteKey, *, bias: bool) -> None:
        super().__init__()
        self.site = site
        self.key = nn.Linear(d_model, d_model, bias=bias)
        self.query = nn.Parameter(torch.zeros(d_model))

    def forward(
        self, hidden: Tensor, *, rule: MaskRule, n_queries: int = 1, probe: Probe | None = None
    ) -> Tensor:
        """`n_queries` sums over the rows of `hidden`, all with the same query: [B, n_queries, d_model]."""
        k = self.key(hidden).tanh()[:, None]  # [B, 1, T, d_model]
        q = self.query.to(k).expand(len(hidden), 1, n_queries, -1)  # [B, 1, Q, d_model]
        v = hidden.to(k)[:, None]  # [B, 1, T, d_model]
        out = attend(q, k, v, rule=rule, score=1.0, site=self.site, probe=probe, is_training=self.training)
        return out[:, 0]

    def fill(self, generator: torch.Generator) -> None:
        """Initialise the query: normal, so that its products with keys of variance 1 have variance 1."""
        self.query.normal_(std=self.query.shape[0] ** -0.5, generator=generator)


class _AsTheyAre(nn.Module):
    """The identity, between the two poolings."""

    def forward(self, rows: Tensor, _is_there: Tensor) -> Tensor:
        return rows


def make_summary(config: ModelConfig) -> "Summary":
    """Module that reduces a text to one row, as `ModelConfig.pooling` says."""
    match config.pooling:
        case "hierarchical":
            return SentenceSummary(config)
        case "attention":
            return LearnedSummary(config)
        case _:
            return EvenSummary(config)


class Summary(nn.Module):
    """One row for a text."""

    @abstractmethod
    def forward(
        self, hidden: Tensor, ids: Tensor, *, valid: Tensor | None = None, probe: Probe | None = None
    ) -> Tensor:
        """The summary of each text, [B, d_model]."""


class EvenSummary(Summary):
    """The first token's row, the last one's, the mean or the maximum of each column."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.pooling = config.pooling

    def forward(
        self, hidden: Tensor, ids: Tensor, *, valid: Tensor | None = None, probe: Probe | None = None
    ) -> Tensor:
        if self.pooling == "first":
            return hidden[:, 0]
        if self.pooling == "last":
            if valid is None:
                return hidden[:, -1]
            return hidden[torch.arange(len(hidden), device=hidden.device), valid.sum(dim=1) - 1]
        return pooled_evenly(hidden, valid, is_max=self.pooling == "max")


class LearnedSummary(Summary):
    """Summary of all tokens by a learned query."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.pool = AttentionPool(config.d_model, ("pool", 0), bias=config.bias)

    def forward(
        self, hidden: Tensor, ids: Tensor, *, valid: Tensor | None = None, probe: Probe | None = None
    ) -> Tensor:
        rule = build_rule(is_causal=False, key_valid=valid)
        row: Tensor = self.pool(hidden, rule=rule, probe=probe)[:, 0]
        return row


class SentenceSummary(Summary):
    """Summary of the sentences by a learned query, each first summarised from its words by another; ids mark
    their ends.
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        d, bias = config.d_model, config.bias
        self.ends = config.sentence_ends
        self.words = AttentionPool(d, ("sentence", 0), bias=bias)
        self.between = _AsTheyAre() if config.sentence_encoder == "none" else SentenceEncoder(config)
        self.pool = AttentionPool(d, ("pool", 0), bias=bias)

    def forward(
        self, hidden: Tensor, ids: Tensor, *, valid: Tensor | None = None, probe: Probe | None = None
    ) -> Tensor:
        reach = sentence_reach(ids, self.ends, valid)
        n_sentences = reach.first.shape[1]
        rows = self.words(hidden, rule=MaskRule(pattern=reach), n_queries=n_sentences, probe=probe)
        is_there = reach.first <= reach.last
        rule = build_rule(is_causal=False, key_valid=is_there)
        row: Tensor = self.pool(self.between(rows, is_there), rule=rule, probe=probe)[:, 0]
        return row


def pooled_evenly(hidden: Tensor, valid: Tensor | None, *, is_max: bool) -> Tensor:
    """The mean or the maximum of each column over the tokens other than padding: [B, d_model]."""
    if valid is None:
        return hidden.amax(dim=1) if is_max else hidden.mean(dim=1)
    if is_max:
        return hidden.masked_fill(~valid[..., None], float("-inf")).amax(dim=1)
    shares = valid.to(hidden) / valid.sum(dim=1, keepdim=True)  # [B, T]
    return torch.einsum("bt,btd->bd", shares, hidden)


def sentence_reach(ids: Tensor, ends: Sequence[int], valid: Tensor | None = None) -> Intervals:
    """The first and last token of each sentence, [B, S] with S the most sentences of a text of the batch.

    A sentence ends with each token of `ends`; the last token of a text, `</s>`, belongs to the sentence
    before it. Where a text has fewer sentences than S the rest see no token at all.
    """
    valid = torch.ones_like(ids, dtype=torch.bool) if valid is None else valid
    is_end = torch.zeros_like(valid)
    for end in ends:  # a tensor of them would have to be copied to the device
        is_end = is_end | (ids == end)
    is_end = is_end & valid
    number = is_end.cumsum(dim=1) - is_end.to(torch.int64)  # [B, T]: the sentence of each token
    last = valid.sum(dim=1, keepdim=True) - 1  # [B, 1]
    number = number.scatter(1, last, number.gather(1, (last - 1).clamp(min=0)))
    n_sentences = int(number.masked_fill(~valid, 0).max()) + 1
    number = number.masked_fill(~valid, n_sentences)
    counts = F.one_hot(number, n_sentences + 1)[..., :n_sentences].sum(dim=1)  # [B, S]
    last_token = counts.cumsum(dim=1) - 1
    return Intervals(first=last_token - counts + 1, last=last_token)


_OF_SECOND: dict[Stack, Stack] = {"encoder": "second", "pool": "second-pool"}


class OfSecond:
    """A probe for the reading of the second text: the same modules under other names."""

    def __init__(self, probe: Probe) -> None:
        self._probe = probe

    def gate(self, site: SiteKey) -> Tensor | None:
        return self._probe.gate(_renamed(site))

    def edits(self, site: SiteKey) -> Edits | None:
        """Changes of single heads."""
        return self._probe.edits(_renamed(site))

    def wants(self, site: SiteKey) -> bool:
        return self._probe.wants(_renamed(site))

    def record(self, site: SiteKey, call: Call, *, lse: Tensor, out: Tensor, is_training: bool) -> None:
        self._probe.record(_renamed(site), call, lse=lse, out=out, is_training=is_training)


class Matching(nn.Module):
    """The alignment of two texts and its use; see the module's legend."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        d = config.d_model
        self.compose = nn.Linear(4 * d, d, bias=config.bias)
        self.join = nn.Linear(2 * d, d, bias=config.bias)

    def forward(
        self,
        first: Tensor,
        second: Tensor,
        *,
        valid: Tensor | None = None,
        second_valid: Tensor | None = None,
        probe: Probe | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Each text with its aligned part of the other: [B, n_source, d_model], [B, n_target, d_model]."""
        of_first = self._look(first, second, second_valid, "back", probe)
        of_second = self._look(second, first, valid, "cross", probe)
        return self._composed(first, of_first), self._composed(second, of_second)

    def joined(self, first: Tensor, second: Tensor) -> Tensor:
        """One row of two summaries, [B, d_model]."""
        row: Tensor = self.join(torch.cat((first, second), dim=-1))
        return row.tanh()

    def _look(
        self, own: Tensor, other: Tensor, other_valid: Tensor | None, stack: Stack, probe: Probe | None
    ) -> Tensor:
        q, kv = own[:, None], other[:, None]  # [B, 1, T, d_model]
        rule = build_rule(is_causal=False, key_valid=other_valid)
        site: SiteKey = (stack, 0)
        out = attend(q, kv, kv, rule=rule, score=1.0, site=site, probe=probe, is_training=self.training)
        return out[:, 0]

    def _composed(self, own: Tensor, found: Tensor) -> Tensor:
        return F.relu(self.compose(torch.cat((own, found, own - found, own * found), dim=-1)))


def _renamed(site: SiteKey) -> SiteKey:
    return _OF_SECOND.get(site[0], site[0]), site[1]
