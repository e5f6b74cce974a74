"""Removing heads from our own models: smaller matrices, the same logits.

    symbol   meaning                                  shape
    qkv      rows: query heads, key heads, values     [(n_heads + 2 n_kv_heads) · d_head, d_model]
    output   columns: heads                           [d_model, n_heads · d_head]

A head's gate g multiplies its columns of `output`: (g · out) W = out (g · W). A key-value head stays as
long as one query head reads it (Ainslie et al. 2023); where that leaves unequal groups, `HeadLayout`
says who reads whom and the matrices stay minimal.
"""

from dataclasses import replace

import torch
from torch import Tensor

from attnscope.models.pruning.owned import require_removable
from attnscope.models.pruning.plan import Plan, SitePlan, build_plan
from attnscope.nn.building import empty_own
from attnscope.nn.config import ModelConfig
from attnscope.nn.kept_heads import HeadLayout, KeptHeads, site_name
from attnscope.nn.own_module import OwnModule
from attnscope.records.sites import Gates, SiteKey
from attnscope.schemes.scores import SCORES


def prune_module(module: OwnModule, gates: Gates) -> OwnModule:
    """A smaller copy without the heads whose gate is 0, other gates multiplied in; evaluation mode.

    The copy says in `config.kept_heads` which heads it kept. Raises UserError for a head the model does
    not have, and as `require_removable` does; `module` is left alone.
    """
    plan = build_plan(module.sites(), gates)
    require_removable(module.config, plan)
    config = replace(module.config, kept_heads=_kept(module.config, plan) or None)
    some = module.tokens.weight
    smaller = empty_own(config, some.device).to(some.dtype)
    tensors = module.state_dict()
    for key in module.config.headed_keys():
        _cut_site(tensors, module.config, config, key, plan.at(key))
    with torch.no_grad():
        for name, parameter in smaller.state_dict().items():
            parameter.copy_(tensors[name])
    return smaller.eval()


def original_heads(config: ModelConfig) -> dict[SiteKey, tuple[int, ...]]:
    """For each site the numbers that its heads had before any was removed; none for an empty site."""
    return {key: config.layout(*key).heads for key in config.site_keys()}


def _kept(config: ModelConfig, plan: Plan) -> KeptHeads:
    kept = []
    for stack, layer in config.headed_keys():
        old = config.layout(stack, layer).heads
        site = plan.at((stack, layer))
        left = tuple(old[head] for head in site.kept) if site is not None else old
        if len(left) < config.n_heads:
            kept.append((site_name(stack, layer), left))
    return tuple(kept)


def _cut_site(
    tensors: dict[str, Tensor],
    old: ModelConfig,
    new: ModelConfig,
    key: SiteKey,
    plan: SitePlan | None,
) -> None:
    """Replace the tensors of one site by those of its smaller self."""
    if plan is None:
        return  # it had lost all its heads before
    stack, layer = key
    module = "cross" if stack == "cross" else "attention"
    prefix = f"{'encoder' if stack == 'encoder' else 'decoder'}.{layer}.{module}."
    if old.is_recurrent:
        prefix = "cross."
        _cut_centre(tensors, plan.kept)
    before, after, d = old.layout(*key), new.layout(*key), old.head_width
    output = tensors.pop(prefix + "output.weight")
    bias = tensors.pop(prefix + "output.bias", None)
    if not after.heads:
        if bias is not None:
            tensors[prefix + "bias"] = bias
        return
    learned = f"{prefix}scoring.{SCORES[old.score].learned}"
    if learned in tensors:  # one row a head
        tensors[learned] = tensors[learned][list(plan.kept)]
    scales = torch.tensor(plan.scales, dtype=output.dtype, device=output.device).repeat_interleave(d)
    tensors[prefix + "output.weight"] = output[:, head_rows(plan.kept, d, device=output.device)] * scales
    if bias is not None:
        tensors[prefix + "output.bias"] = bias
    for name, heads in _inputs(module, before, after, plan.kept).items():
        rows = head_rows(heads, d, device=output.device)
        for part in ("weight", "bias"):
            if prefix + f"{name}.{part}" in tensors:
                tensors[prefix + f"{name}.{part}"] = tensors[prefix + f"{name}.{part}"][rows]


def _cut_centre(tensors: dict[str, Tensor], kept: tuple[int, ...]) -> None:
    """Keep what predicts the places of some heads of a recurrent model, one row a head."""
    for name in ("centre.matrix", "centre.vector"):
        if name in tensors:
            tensors[name] = tensors[name][list(kept)]


def _inputs(
    module: str, before: HeadLayout, after: HeadLayout, kept: tuple[int, ...]
) -> dict[str, tuple[int, ...]]:
    """Which blocks of rows of each input matrix stay, counted in heads."""
    kv = tuple(before.kv_heads.index(head) for head in after.kv_heads)
    n, k = before.n_heads, before.n_kv_heads
    if module == "cross":
        return {"query": kept, "kv": (*kv, *(k + head for head in kv))}
    return {"qkv": (*kept, *(n + head for head in kv), *(n + k + head for head in kv))}


def head_rows(heads: tuple[int, ...], d_head: int, *, device: torch.device | str = "cpu") -> Tensor:
    """The rows, or columns, that belong to some heads: int64 [n · d_head]."""
    first = torch.tensor(heads, dtype=torch.int64, device=device)[:, None] * d_head
    return (first + torch.arange(d_head, device=device)).flatten()
