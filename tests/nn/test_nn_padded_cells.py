"""Texts of different lengths in one batch: turned round or packed, each is read as it is alone."""

import pytest
import torch
from torch import nn

from attnscope.nn import pooling


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
@pytest.mark.parametrize("bias", [True, False])
def test_that_each_text_is_read_as_it_is_alone(kind: type[nn.RNNBase], bias: bool) -> None:
    cells = kind(3, 4, 2, batch_first=True, bidirectional=True, bias=bias).double()
    x, lengths = torch.randn(3, 5, 3, dtype=torch.float64), torch.tensor([5, 1, 3])
    for read in (pooling.read_padded, pooling._read_turned):
        found = read(cells, x, lengths)
        for row, n in enumerate(lengths.tolist()):
            torch.testing.assert_close(found[row, :n], cells(x[row, None, :n])[0][0])
            assert not found[row, n:].any()
