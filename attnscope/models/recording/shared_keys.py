"""Keys of recorded calls, kept once where calls go on with those of a call before."""

from collections import defaultdict

import torch
from torch import Tensor

_MAX_KEPT = 16
"""Texts of one module at a time: rows of a batch that it writes side by side are texts of their own."""


class SharedKeys:
    """Keys of calls that begin with those of a call before, kept once: memory grows with the text.

    Rows are only ever added behind those that a call has been given.
    """

    def __init__(self) -> None:
        self._kept: defaultdict[str, list[tuple[Tensor, int]]] = defaultdict(list)

    def keep(self, module: str, keys: Tensor) -> Tensor:
        """The same keys [n_kv_heads, n_keys, d_head], in memory shared with former calls of the module."""
        kept = self._kept[module]
        for place, (buffer, n) in enumerate(kept):
            is_alike = (buffer.shape[0], buffer.shape[2]) == (keys.shape[0], keys.shape[2])
            if not is_alike or (buffer.dtype, buffer.device) != (keys.dtype, keys.device):
                continue
            if n <= keys.shape[1] and torch.equal(buffer[:, :n], keys[:, :n]):
                buffer = _with_room(buffer, n, keys.shape[1])
                buffer[:, n : keys.shape[1]] = keys[:, n:]
                kept[place] = buffer, keys.shape[1]
                return buffer[:, : keys.shape[1]]
        kept.append((keys, keys.shape[1]))
        del kept[:-_MAX_KEPT]
        return keys


def _with_room(buffer: Tensor, n: int, end: int) -> Tensor:
    """A buffer with room up to `end`, its first `n` keys as they were."""
    if end <= buffer.shape[1]:
        return buffer
    with torch.inference_mode(mode=False):  # it may be written to after such a block
        longer = buffer.new_empty(buffer.shape[0], 2 * end, buffer.shape[2])
    longer[:, :n] = buffer[:, :n]
    return longer
