"""Keys of recorded calls, kept once where calls go on with those of a call before."""

from collections import defaultdict

import torch
from torch import Tensor

_MAX_KEPT = 16
"""Texts of one module at a time: rows of a batch that it writes side by side are texts of their own."""


class SharedKeys:
    """Keys of calls that begin with those of a call before, kept once: memory grows with the text.

    Rows are only ever added behind those that a call has been given. A call may begin with the last keys of
    the call before, as in a cache that slides.
    """

    def __init__(self) -> None:
        self._kept: defaultdict[str, list[tuple[Tensor, int]]] = defaultdict(list)

    def keep(self, module: str, keys: Tensor, n_new: int) -> Tensor:
        """The same keys [n_kv_heads, n_keys, d_head], in memory shared with former calls of the module.

        `n_new` is how many of them are new where the text has grown: as many as the call has queries.
        """
        kept = self._kept[module]
        for place, (buffer, n) in enumerate(kept):
            is_alike = (buffer.shape[0], buffer.shape[2]) == (keys.shape[0], keys.shape[2])
            if not is_alike or (buffer.dtype, buffer.device) != (keys.dtype, keys.device):
                continue
            for n_former in (n, keys.shape[1] - n_new):
                if 0 < n_former <= min(n, keys.shape[1]) and torch.equal(
                    buffer[:, n - n_former : n], keys[:, :n_former]
                ):
                    end = n - n_former + keys.shape[1]
                    buffer = _with_room(buffer, n, end)
                    buffer[:, n:end] = keys[:, n_former:]
                    kept[place] = buffer, end
                    return buffer[:, n - n_former : end]
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
