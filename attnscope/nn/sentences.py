"""What stands between the two poolings of a hierarchical summary: each sentence learns of the others.

    symbol   meaning                                          shape
    s        one row for each sentence                        [batch, n_sentences, d_model]
    lengths  how many sentences each text has, 1 at least     [batch]

gru      h_i = [GRU forwards (s_1 … s_i); GRU backwards (s_i … s_L)], half of d_model each (Yang et al. 2016,
         equations 8 and 9)
dense    h_i = tanh(W s_i + b), each sentence by itself: a deep averaging network's layer over what was
         averaged (Iyyer et al. 2015, "Deep Unordered Composition Rivals Syntactic Methods", equation 3)
"""

import torch
from torch import Tensor, nn

from attnscope.nn.config import ModelConfig
from attnscope.nn.padded_cells import read_padded


class SentenceEncoder(nn.Module):
    """Sentence rows to sentence rows, by the way of `ModelConfig.sentence_encoder`."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        d, bias = config.d_model, config.bias
        is_gru = config.sentence_encoder == "gru"
        self.cells = nn.GRU(d, d // 2, bias=bias, batch_first=True, bidirectional=True) if is_gru else None
        self.dense = None if is_gru else nn.Linear(d, d, bias=bias)

    def forward(self, rows: Tensor, is_there: Tensor) -> Tensor:
        """The encoded rows; `is_there` [batch, n_sentences] says which sentences a text has, 0 for others."""
        if self.cells is None:
            dense: nn.Module | None = self.dense
            return torch.tanh(dense(rows)) if dense is not None else rows
        return read_padded(self.cells, rows, is_there.sum(dim=1))
