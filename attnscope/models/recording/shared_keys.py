"""Keys of recorded calls, kept once where calls go on with those of a call before."""

from collections import defaultdict

import torch
from torch import Tensor

_MAX_KEPT = 4


class SharedKeys:
    """Keys of calls that begin with those of a call before, kept once: memory grows with the text.

    Rows are only ever added behind those that a call has been given.
    """

    def __init__(self) -> None:
        self._kept: defaultdict[str, list[tuple[Tensor, int]]] = defaultdict(list)

    def keep(self, module: str, keys: Tensor) -> Tensor:
        """The same keys [n_kv_heads, n_keys, d_head], in memory shared with former calls of the module."""
        kept = self._kept[module]
        n_keys = keys.shape[1]
        for place, (buffer, n) in enumerate(kept):
            is_alike = (buffer.shape[0], buffer.shape[2]) == (keys.shape[0], keys.shape[2])
            is_alike = is_alike and (buffer.dtype, buffer.device) == (keys.dtype, keys.device)
            if not is_alike or not torch.equal(buffer[:, :n], keys[:, :n]):
                continue
            if n_keys > buffer.shape[1]:
                with torch.inference_mode(mode=False):  # it may be written to after such a block
                    buffer = keys.new_empty(keys.shape[0], 2 * n_keys, keys.shape[2])
                buffer[:, :n] = keys[:, :n]
            buffer[:, n:n_keys] = keys[:, n:]
            kept[place] = buffer, n_keys
            return buffer[:, :n_keys]
        kept.append((keys, n_keys))
        del kept[:-_MAX_KEPT]
        return keys
