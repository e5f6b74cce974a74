"""Removing heads from our own models: smaller matrices, the same logits; name, card and tokenizer go along.

    symbol   meaning                                  shape
    qkv      rows: query heads, key heads, values     [(n_heads + 2 n_kv_heads) · d_head, d_model]
    output   columns: heads                           [d_model, n_heads · d_head]

A head's gate g multiplies its columns of `output`: (g · out) W = out (g · W). A key-value head stays as
long as one query head reads it (Ainslie et al. 2023); where that leaves unequal groups, `HeadLayout`
says who reads whom and the matrices stay minimal. Of a model that tells labels only heads that have weights
of their own can go: pooling and matching are each one head without which nothing is told, and both texts of
a pair are read by the same weights, so that a head goes for both or for neither.
"""

from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

from attnscope.errors import UserError
from attnscope.models.card import ModelCard, without_closed
from attnscope.models.checkpoint import fill_model_folder
from attnscope.models.own import OwnNetwork
from attnscope.models.pruning.plan import Plan, SitePlan, build_plan
from attnscope.models.pruning.removal import Removal, removal_name, removed_heads_card, weights_file_bytes
from attnscope.nn.building import empty_own
from attnscope.nn.config import ModelConfig, count_parameters
from attnscope.nn.kept_heads import HeadLayout, KeptHeads, site_name
from attnscope.nn.own_module import OwnModule
from attnscope.records.pruning import ModelSize, SiteHeads
from attnscope.records.sites import Gates, SiteKey
from attnscope.schemes.scores import SCORES


def prune_own(network: OwnNetwork, gates: Gates) -> Removal:
    """The smaller network; its card says which head was which."""
    module = prune_module(network.module, gates)
    sites = _site_heads(network.config, module.config)
    source = network.info.source
    made_from = f"{network.card.name} (weights SHA-256 {network.info.sha256 or 'not saved'})"
    card = ModelCard(
        name=removal_name(network.card.name, sites),
        objective=network.card.objective,
        training=without_closed(network.card.training),
        labels=network.card.labels,
        text=network.card.text.rstrip() + "\n" + removed_heads_card(sites, made_from=made_from),
    )
    smaller = OwnNetwork(module, network.vocabulary, card)
    return Removal(
        network=smaller,
        sites=sites,
        before=replace(
            _size(network.module), file_bytes=weights_file_bytes(Path(source)) if source else None
        ),
        after=_size(module),
        opens_in="AttnScope",
        write=lambda folder: fill_model_folder(folder, module, module.config, network.vocabulary, card),
        notes=_uneven_notes(module.config),
    )


def _size(module: OwnModule) -> ModelSize:
    n_bytes = sum(parameter.numel() * parameter.element_size() for parameter in module.parameters())
    return ModelSize(n_parameters=count_parameters(module.config).total, n_bytes=n_bytes)


def _site_heads(before: ModelConfig, after: ModelConfig) -> tuple[SiteHeads, ...]:
    n_before = {key: len(heads) for key, heads in original_heads(before).items()}
    return tuple(
        SiteHeads(stack=key[0], layer=key[1], n_before=n_before[key], heads=heads)
        for key, heads in original_heads(after).items()
    )


def _uneven_notes(config: ModelConfig) -> tuple[str, ...]:
    uneven = [
        f"{stack} L{layer}" for stack, layer in config.site_keys() if not config.layout(stack, layer).is_even
    ]
    if not uneven:
        return ()
    names = ", ".join(uneven)[:200]
    return (f"Key-value heads serve unequal numbers of heads at: {names}. Their weights are kept once.",)


def prune_module(module: OwnModule, gates: Gates) -> OwnModule:
    """A smaller copy without the heads whose gate is 0, other gates multiplied in; evaluation mode.

    The copy says in `config.kept_heads` which heads it kept. Raises UserError for a head the model does
    not have, or that cannot go; `module` is left alone.
    """
    plan = build_plan(module.sites(), gates)
    _require_removable(module.config, plan)
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


def _require_removable(config: ModelConfig, plan: Plan) -> None:
    """Raise UserError for a head that cannot go, or whose gate cannot be multiplied into the weights."""
    if not config.n_labels:
        return
    owners = set(config.headed_keys())
    for site in plan.sites:
        if site.site.key in owners:
            continue
        if site.site.stack == "second":
            _require_same(site, plan.at(("encoder", site.site.layer)))
        elif site.removed or site.folded:
            raise UserError(
                f"The head of {site.site.stack} L{site.site.layer} cannot be removed: it is the only way "
                "from the tokens to the label.",
                expected="its gate at 1",
                action="Open its gate again; heads of the encoder can be removed.",
            )


def _require_same(second: SitePlan, first: SitePlan | None) -> None:
    if first is not None and (second.kept, second.scales) == (first.kept, first.scales):
        return
    layer = second.site.layer
    raise UserError(
        f"The gates of encoder L{layer} and second L{layer} differ, but the same weights read both texts.",
        expected="the same gates at both",
        action="Set each head's gate alike for both texts, or open it for both.",
    )
