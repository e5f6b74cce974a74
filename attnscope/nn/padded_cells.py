"""Cells that read texts of different lengths in one batch, each from its own beginning and its own end.

symbol    meaning                                        shape
x         what is read, padding at the end of a text     [batch, n_tokens, n_in]
lengths   tokens of each text, 1 at least                [batch], int64
turned    where the token of a place stands backwards    [batch, n_tokens], its own inverse
"""

from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

_PACKING = ("cpu", "cuda")


def read_padded(cells: nn.RNNBase, x: Tensor, lengths: Tensor) -> Tensor:
    """The states of all tokens, both directions beside each other; 0 at padding: [batch, n_tokens, width].

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
    """One layer in one direction, from states that are 0."""
    names = ("weight_ih", "weight_hh", *(("bias_ih", "bias_hh") if cells.bias else ()))
    weights = [cast("Tensor", getattr(cells, f"{name}_{part}")) for name in names]
    start = x.new_zeros(1, len(x), cells.hidden_size)
    if isinstance(cells, nn.LSTM):
        return torch.lstm(x, [start, start], weights, cells.bias, 1, 0.0, cells.training, False, True)[0]
    read = torch.gru if isinstance(cells, nn.GRU) else torch.rnn_tanh
    return read(x, start, weights, cells.bias, 1, 0.0, cells.training, False, True)[0]
