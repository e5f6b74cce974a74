"""The attention function that the library calls in our name; every such call ends in `attend`.

Follows what the library's own `sdpa` function means by its arguments: without a mask a module that says
`is_causal` lets a query see the keys up to its own number, and keys beyond the last query are cut off.
An argument that would change the result and is not understood is refused by name.

    symbol             meaning                     shape
    query              queries                     [batch, n_heads, n_queries, d_head]
    key, value         keys and values             [batch, n_kv_heads, n_keys, d_head]
    (returned)         head outputs                [batch, n_queries, n_heads, d_value]
"""

import importlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from attnscope.errors import UserError
from attnscope.models.huggingface.mask_function import GivenMask, add_biases, build_mask, read_bias, read_mask
from attnscope.nn.attention import Probe, attend
from attnscope.nn.edits import Call
from attnscope.nn.masks import MaskRule
from attnscope.nn.patterns import Intervals
from attnscope.nn.scores import ScoreRule
from attnscope.records.sites import SiteKey

NAME = "attnscope"
"""What the library calls our attention."""

_HARMLESS = frozenset(
    {
        "attention_mask",
        "cache_position",
        "deterministic",
        "labels",
        "layer_idx",
        "layer_type",
        "logits_to_keep",
        "mm_token_type_ids",
        "num_items_in_batch",
        "output_attentions",
        "output_hidden_states",
        "output_router_logits",
        "past_key_values",
        "position_embeddings",
        "position_ids",
        "return_dict",
        "token_type_ids",
        "use_cache",
    }
)
"""Arguments that models pass along and that change nothing here."""


class Watcher(Protocol):
    """Who looks at the calls of a pass."""

    @property
    def probe(self) -> Probe | None:
        """The probe that `attend` gets."""

    def site(self, module: nn.Module, call: Call) -> SiteKey | None:
        """The site of this call; None when it is not to be probed."""


_WATCHER: ContextVar[Watcher | None] = ContextVar("attnscope_watcher", default=None)


@contextmanager
def watching(watcher: Watcher) -> Iterator[None]:
    """Show every attention call of this thread to `watcher`."""
    token = _WATCHER.set(watcher)
    try:
        yield
    finally:
        _WATCHER.reset(token)


@cache
def register() -> None:
    """Make our attention function and our mask function known to the library, under one name."""
    modeling = importlib.import_module("transformers.modeling_utils")
    masking = importlib.import_module("transformers.masking_utils")
    modeling.AttentionInterface.register(NAME, attend_module)
    masking.AttentionMaskInterface.register(NAME, build_mask)


def attend_module(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    dropout: float = 0.0,
    scaling: float | None = None,
    is_causal: bool | None = None,
    **others: Any,
) -> tuple[Tensor, None]:
    """One attention call of a model, as the library's attention interface wants it."""
    name = type(module).__name__
    _check_shapes(name, query, key, value)
    _check_others(name, others)
    position_bias: Tensor | None = others.get("position_bias")
    if is_causal is None:
        is_causal = bool(getattr(module, "is_causal", True))
    if attention_mask is None and is_causal and 1 < query.shape[2] < key.shape[2]:
        n_queries = query.shape[2]
        key, value = key[:, :, :n_queries], value[:, :, :n_queries]
        position_bias = None if position_bias is None else position_bias[..., :n_queries]
    n_queries, n_keys = query.shape[2], key.shape[2]
    if attention_mask is None:
        given = _unmasked(n_queries, n_keys, is_causal, query.device)
        _check_window(name, others.get("sliding_window"), n_keys)
    else:
        given = read_mask(attention_mask, n_queries, n_keys)
    score = _score(name, query, given, scaling, position_bias, others, n_keys)
    if query.shape[0] != key.shape[0]:
        query = query.expand(key.shape[0], -1, -1, -1)
    call = Call(q=query, k=key, v=value, rule=given.rule, score=score)
    watcher = _WATCHER.get()
    site = None if watcher is None else watcher.site(module, call)
    out = attend(
        call.q,
        call.k,
        call.v,
        rule=call.rule,
        score=call.score,
        dropout=dropout,
        site=site,
        probe=None if watcher is None else watcher.probe,
        is_training=module.training or dropout > 0.0,
    )
    return out.transpose(1, 2).contiguous(), None


def _unmasked(n_queries: int, n_keys: int, is_causal: bool, device: torch.device) -> GivenMask:
    """What no mask at all means to the library: causality counted from the first query and key."""
    if not is_causal or n_queries == 1:
        return GivenMask(rule=MaskRule())
    if n_queries == n_keys:
        return GivenMask(rule=MaskRule(is_causal=True))
    last = torch.arange(n_queries, device=device).clamp(max=n_keys - 1)[None]
    return GivenMask(rule=MaskRule(pattern=Intervals(first=torch.zeros_like(last), last=last)))


def _score(
    name: str,
    query: Tensor,
    given: GivenMask,
    scaling: float | None,
    position_bias: Tensor | None,
    others: Mapping[str, Any],
    n_keys: int,
) -> ScoreRule:
    n_queries, d_head = query.shape[2:]
    bias = None if position_bias is None else read_bias(position_bias, n_queries, n_keys)
    bias = add_biases(bias, given.bias, n_queries, n_keys)
    softcap, sinks = others.get("softcap"), others.get("s_aux")
    if softcap is not None and bias is not None:
        raise _refusal(name, "softcap together with a bias")
    if sinks is not None and sinks.shape != (query.shape[1],):
        raise _refusal(name, f"s_aux of shape {list(sinks.shape)}")
    return ScoreRule(
        scale=float(d_head**-0.5 if scaling is None else scaling),
        softcap=None if softcap is None else float(softcap),
        bias=bias,
        sinks=sinks,
    )


def _check_shapes(name: str, query: Tensor, key: Tensor, value: Tensor) -> None:
    fits = (
        query.ndim == key.ndim == value.ndim == 4
        and query.shape[3] == key.shape[3]
        and key.shape[:3] == value.shape[:3]
        and query.shape[0] in (1, key.shape[0])
        and key.shape[1] > 0
        and query.shape[1] % key.shape[1] == 0
    )
    if not fits:
        shapes = ", ".join(str(list(tensor.shape)) for tensor in (query, key, value))
        raise UserError(
            f"{name} attends with queries, keys and values of shapes {shapes}.",
            expected="[batch, heads, tokens, width], heads shared by whole groups",
            action="This model cannot be traced.",
        )


def _check_others(name: str, others: Mapping[str, Any]) -> None:
    understood = {"position_bias", "softcap", "s_aux", "sliding_window"}
    for argument, value in others.items():
        if value is None or value is False or argument in _HARMLESS or argument in understood:
            continue
        raise _refusal(name, argument)


def _check_window(name: str, window: int | None, n_keys: int) -> None:
    """Without a mask the library would leave a window out that the module asks for."""
    if window is not None and window > 0 and n_keys > window:
        raise _refusal(name, f"sliding_window={window} without a mask")


def _refusal(name: str, what: str) -> UserError:
    return UserError(
        f"{name} asks its attention for {what}, which AttnScope does not support.",
        expected="a mask, a scale, a position bias, a soft-cap or sinks",
        action="This model cannot be traced: its maps would be wrong.",
    )
