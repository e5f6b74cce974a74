"""Copying with a pointer: a word is generated from the vocabulary or copied from the source (See et al.
2017).

    symbol   meaning                                                        shape
    p_gen    probability that a token is written and not copied             [batch, n_tokens]
    a        weights of the last cross-attention, mean over its heads       [batch, n_tokens, n_source]
    copied   a, summed over the places of the source that hold the piece    [batch, n_tokens, n_extended]

P(w) = p_gen P_vocab(w) + (1 − p_gen) Σ_{i: w_i = w} a_i (equation 9). p_gen = σ(w · s + b) is told from the
decoder's last stream s alone: there the residuals have added up what their equation 8 reads one by one,
context vector, state and input. Their loss on coverage is left out.

The vocabulary is extended for each text (section 2.2): words of the source that the vocabulary lacks have the
ids vocab_size, vocab_size + 1, … in the order in which they first occur. They are read as <unk>, and can be
copied, but not written: P_vocab of them is 0. n_extended counts those of the text of a batch that has most.

What stands for a row of such a decoder is s and behind it `copied`, [.., d_model + n_extended]; a memory is
the encoder's stream and behind it the ids of its tokens, [.., d_model + 3], since the decoder has to know
them: three digits of base 256, which bfloat16 holds exactly.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from attnscope.nn.attention import Probe
from attnscope.nn.edits import Edits, QuietProbe
from attnscope.records.sites import SiteKey

N_DIGITS, _BASE = 3, 256
UNKNOWN_ID = 1
"""The id of <unk> in every tokenizer that is trained here (`schemes/tokenizers`)."""
_LEAST = 1e-30
"""Stands for a share of 0, whose logarithm has no gradient."""


class Unseen(QuietProbe):
    """A probe whose gates and edits act, but which records nothing: for the same attention again."""

    def __init__(self, probe: Probe) -> None:
        self._probe = probe

    def gate(self, site: SiteKey) -> Tensor | None:
        """The probe's gate."""
        return self._probe.gate(site)

    def edits(self, site: SiteKey) -> Edits | None:
        return self._probe.edits(site)


def with_ids(stream: Tensor, ids: Tensor) -> Tensor:
    """A memory that knows its tokens: [B, S, d_model + 3] from [B, S, d_model] and [B, S]."""
    digits = [ids // _BASE**k % _BASE for k in range(N_DIGITS)]
    return torch.cat([stream, torch.stack(digits, dim=-1).to(stream)], dim=-1)


def ids_of(memory: Tensor) -> Tensor:
    """The ids of a memory's tokens, int64 [B, S]."""
    digits = memory[..., -N_DIGITS:].detach().long()
    return (digits * digits.new_tensor([_BASE**k for k in range(N_DIGITS)])).sum(dim=-1)


def as_read(ids: Tensor, vocab_size: int) -> Tensor:
    """Ids for the embedding: that of <unk> for words outside the vocabulary."""
    return torch.where(ids < vocab_size, ids, UNKNOWN_ID)


def copied_pieces(weights: Tensor, ids: Tensor, vocab_size: int) -> Tensor:
    """Probability of copying each piece, [B, T, n_extended]; `weights` of each head [B, H, T, S]."""
    mean = weights.mean(dim=1)  # [B, T, S]
    places = ids[:, None].expand(len(mean), *mean.shape[1:])
    n_extended = max(vocab_size, int(ids.max()) + 1)
    return mean.new_zeros(*mean.shape[:2], n_extended).scatter_add(2, places, mean)


def joined_logits(logits: Tensor, gate: Tensor, copied: Tensor) -> Tensor:
    """Ln P of each piece, [.., n_extended], from the generator's logits and σ⁻¹(p_gen) [.., 1]; its softmax
    is P. If no head is left to copy, that of the generator alone.
    """
    gate, copied = gate.float(), copied.float()
    written = F.logsigmoid(gate) + logits.float().log_softmax(dim=-1)
    written = F.pad(written, (0, copied.shape[-1] - written.shape[-1]), value=-torch.inf)
    return torch.logaddexp(written, F.logsigmoid(-gate) + (copied + _LEAST).log())
