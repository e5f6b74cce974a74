"""BigBird: blocks of a long text attend to some others: global, neighbouring and random ones (Zaheer et al.
2020).

    symbol   meaning
    b        tokens of a block
    r        random blocks that a block looks at
    p        weights that the library gives out, [B, H, T, T]

The library reads a text by blocks where it has more than (5 + 2 r) b tokens, and with full attention
otherwise; after a shorter text it stays with full attention, so the kind is set anew for every text here.
It draws random blocks only while it trains. Outside, each of the r is the first block, which a block sees
already: its keys then count 1 + r times, and p has one of these weights. All of them are put back.
A config.json may ask for the random blocks that the model was trained with, from the library's own seeds:

    "attnscope": {"random_blocks": true}
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from torch import Tensor

from attnscope.errors import UserError
from attnscope.models.families.family import Family, Handle, Seen, own_setting

_SPARSE, _FULL = "block_sparse", "original_full"
_TOLERANCE = 1e-3
_DRAWN = "Its random blocks are those of its training; the library draws none outside of it."
_NOT_DRAWN = (
    "In a long text each block sees the first, its neighbours and the last: the library draws random blocks "
    "only while it trains."
)


class BigBird(Family):
    name, title = "big_bird", "BigBird"

    def prepare(self, model: Any) -> str:
        body, config = model.base_model, model.config
        if config.attention_type != _SPARSE:
            return ""
        is_drawing = own_setting(model, "random_blocks") is True
        least = most_read_whole(config.num_random_blocks, config.block_size) + 1

        def choose(_: Any, args: Any, kwargs: Mapping[str, Any]) -> None:
            read = args[0] if args else kwargs.get("input_ids")
            read = kwargs.get("inputs_embeds") if read is None else read
            body.set_attention_type(_SPARSE if read is not None and read.shape[1] >= least else _FULL)
            for part in _parts(body):
                part.self.training = is_drawing and part.attention_type == _SPARSE

        body.register_forward_pre_hook(choose, with_kwargs=True)
        if is_drawing:
            for part in _parts(body):
                _Undisturbed(part)
        return _DRAWN if is_drawing else _NOT_DRAWN

    def watch(self, model: Any, seen: Seen) -> list[Handle]:
        def tell(part: Any, _: Any, output: Any) -> None:
            if len(output) > 1 and isinstance(output[1], Tensor):
                seen.append(_whole(part, output[1]) if part.attention_type == _SPARSE else output[1])

        return [part.register_forward_hook(tell) for part in _parts(model.base_model)]

    def laid_out(
        self, output: Mapping[str, Any], n_tokens: int, *, config: Any, seen: Seen
    ) -> Mapping[str, Any]:
        if not seen:
            return output
        return {**output, "attentions": tuple(p[..., :n_tokens, :n_tokens] for p in seen)}


class BigBirdPegasus(Family):
    """Longer texts are cut at block boundaries."""

    name, title = "bigbird_pegasus", "BigBird-Pegasus"

    def most_tokens(self, values: Mapping[str, Any]) -> int | None:
        if values.get("attention_type", _SPARSE) != _SPARSE:
            return None
        n_random, block = values.get("num_random_blocks", 3), values.get("block_size", 64)
        is_whole = isinstance(n_random, int) and isinstance(block, int)
        return most_read_whole(n_random, block) if is_whole else None


def most_read_whole(n_random: int, block: int) -> int:
    """The longest text read with full attention."""
    return (5 + 2 * n_random) * block


class _Undisturbed:
    """Lets a layer seed numpy's global generator, as it does to draw blocks, without side effects."""

    def __init__(self, part: Any) -> None:
        self._before: Any = None
        part.register_forward_pre_hook(self._keep)
        part.register_forward_hook(self._restore)

    def _keep(self, *_: Any) -> None:
        self._before = np.random.get_state()

    def _restore(self, *_: Any) -> None:
        np.random.set_state(self._before)


def _parts(body: Any) -> list[Any]:
    return [layer.attention for layer in body.encoder.layer]


def _whole(part: Any, p: Tensor) -> Tensor:
    """The weights of a text read by blocks, counting those of the first block as often as it is seen."""
    block = part.config.block_size
    p = p.clone()
    if not part.self.training:
        p[..., block:-block, :block] *= 1 + part.config.num_random_blocks
    error = float((p.sum(dim=-1) - 1).abs().max())
    if not error <= _TOLERANCE:
        raise UserError(
            f"The weights that the library's BigBird gives out for a text of {p.shape[-1]} tokens are not "
            f"all that it uses: rows differ from 1 by {error:.2g}.",
            expected=f"at most {_TOLERANCE:g}",
            action="Its maps would not be the model's own, so they are not shown. Use another length.",
        )
    return p
