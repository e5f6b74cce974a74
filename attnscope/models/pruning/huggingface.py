"""Removing heads from the libraries' own models: BERT, DistilBERT, ViT, GPT-2, Llama, T5 and BART.

Two shapes, since the library makes one size of head from the width and the number of heads:

    same    every tensor keeps its size, a removed head is zeros: opens wherever the model opened before
    small   what a removed head weighed is gone
            Llama, T5, ViT   the library's own configuration can say so: opens wherever the model opened
                             before, as far as that program checks what transformers 5 checks
            BERT, DistilBERT, GPT-2, BART   it cannot: the folder opens in AttnScope only, and the library
                                            refuses it

In small Llama, T5 and ViT models sites that lost unequal numbers of heads are filled up with zeros
(`slots.py`). The saved configuration names the old heads under the key `attnscope_heads`.
"""

import copy
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor, nn

from attnscope.models.huggingface.head import said
from attnscope.models.pruning.families import ForeignSite, family_of, foreign_sites, take_blocks, write_slots
from attnscope.models.pruning.plan import Plan, build_plan
from attnscope.models.pruning.slots import (
    SiteSlots,
    Slot,
    bias_columns,
    free_slots,
    grouped_slots,
    same_slots,
    shared_slots,
)
from attnscope.records.pruning import ModelSize, PruneShape, SiteHeads
from attnscope.records.sites import Gates, SiteKey

HEADS_KEY = "attnscope_heads"
"""In a saved configuration: for each site the old number of each of its heads, null for one of zeros."""

EVERYWHERE = "AttnScope, and the library transformers wherever the model before opened"
ONLY_HERE = "AttnScope only: the library transformers cannot say that a layer has fewer heads, and refuses it"
_HEAD_COUNTS: MappingProxyType[str, dict[str, str]] = MappingProxyType(
    {
        "bert": dict.fromkeys(("encoder", "decoder"), "num_attention_heads"),
        "distilbert": {"encoder": "n_heads"},
        "gpt2": {"decoder": "n_head"},
        "bart": {
            "encoder": "encoder_attention_heads",
            "decoder": "decoder_attention_heads",
            "cross": "decoder_attention_heads",
        },
    }
)
"""Where families whose layers cannot differ keep the number of heads of each stack."""
_GROUPED = ("llama", "vit")
"""Families whose configuration names the number of heads and their width, the same for every layer."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Case:
    """One text as the library reads it, ids [1, n_tokens], int64; or the pixels of a picture."""

    source: Tensor
    target: Tensor | None = None


def is_small(config: Mapping[str, Any]) -> bool:
    """Whether a configuration, as config.json holds it, is of a model that only AttnScope can open."""
    described, counts = config.get(HEADS_KEY), _HEAD_COUNTS.get(str(config.get("model_type")))
    if not isinstance(described, Mapping) or counts is None:
        return False
    return any(
        isinstance(heads, list | tuple) and len(heads) != config.get(counts.get(str(name).split(".")[0], ""))
        for name, heads in described.items()
    )


def opens_in(model: Any) -> str:
    """What can open a pruned model once it is saved."""
    config = model.config
    if is_small(config.to_dict()):
        return ONLY_HERE
    d_head = getattr(config, "head_dim", None)
    if family_of(model) in _GROUPED and d_head and config.num_attention_heads * d_head != config.hidden_size:
        return f"{EVERYWHERE}, as long as that version knows head_dim (checked with 5.23)"
    return EVERYWHERE


def prune_pretrained(
    model: nn.Module, gates: Gates, *, shape: PruneShape
) -> tuple[Any, tuple[SiteHeads, ...]]:
    """A copy without the heads whose gate is 0, other gates multiplied in; and which heads each site has.

    `model` is left alone. Raises UserError for a family that is not supported and for unknown heads.
    """
    plan = build_plan([site.site for site in foreign_sites(model)], gates)
    smaller: Any = copy.deepcopy(model).eval()
    slots = plan_slots(model, plan, shape)
    old = _named_heads(model)
    for site in foreign_sites(smaller):
        wanted = plan.at(site.key)
        scales = {} if wanted is None else dict(zip(wanted.kept, wanted.scales, strict=True))
        write_slots(site, slots[site.key], scales)
    if shape == "small":
        _tell_model(smaller, plan, slots)
    heads = tuple(_site_heads(site, slots[site.key], old[site.key]) for site in foreign_sites(model))
    setattr(smaller.config, HEADS_KEY, {f"{s.stack}.{s.layer}": list(s.heads) for s in heads})
    return smaller, heads


def plan_slots(model: Any, plan: Plan, shape: PruneShape) -> dict[SiteKey, SiteSlots]:
    """The slots of every site in one of the shapes."""
    kept = {site.site.key: site.kept for site in plan.sites}
    counts = {site.key: (site.n_heads, site.n_kv_heads) for site in foreign_sites(model)}
    family = family_of(model)
    if shape == "same":
        return {key: same_slots(kept[key], n_heads=n, n_kv_heads=k) for key, (n, k) in counts.items()}
    if family in _GROUPED:
        n, k = next(iter(counts.values()))
        return grouped_slots(kept, n_heads=n, n_kv_heads=k, width=model.config.hidden_size)
    if family == "t5":
        return shared_slots(kept)
    return {key: free_slots(heads) for key, heads in kept.items()}


@contextmanager
def gated(model: nn.Module, gates: Gates) -> Iterator[None]:
    """Heads of `model` multiplied by `gates` where the output projection reads them; then as before.

    It knows nothing of how heads are removed, so that the two can prove each other.
    """
    handles = []
    for site in foreign_sites(model):
        values = [gates.value(head) for head in site.site.heads]
        if any(value != 1.0 for value in values):
            handles.append(site.output.register_forward_pre_hook(_multiplier(site, values)))
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def _multiplier(site: ForeignSite, values: list[float]) -> Any:
    factors = torch.tensor(values).repeat_interleave(site.d_head)

    def multiply(_module: nn.Module, inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        return (inputs[0] * factors.to(inputs[0]), *inputs[1:])

    return multiply


def logits_of(model: Any, case: Case) -> Tensor:
    """What a model says of a case: its logits, or its last stream when it has no head; float32."""
    choices = {} if case.target is None else {"decoder_input_ids": case.target}
    name = "input_ids" if not case.source.is_floating_point() else "pixel_values"
    return said(model(**{name: case.source}, **choices))


def takes_target(model: Any) -> bool:
    """Whether the model reads a second text."""
    is_classifier = type(model).__name__.endswith("Classification")
    return bool(getattr(model.config, "is_encoder_decoder", False)) and not is_classifier


def model_size(model: nn.Module, file_bytes: int | None = None) -> ModelSize:
    """How many numbers a model learned and how many bytes they take, tied ones once."""
    parameters = list(model.parameters())
    n_bytes = sum(p.numel() * p.element_size() for p in parameters)
    return ModelSize(n_parameters=sum(p.numel() for p in parameters), n_bytes=n_bytes, file_bytes=file_bytes)


def _named_heads(model: Any) -> dict[SiteKey, tuple[Slot, ...]]:
    """The first numbers of the heads of a model that may have lost some before."""
    described = getattr(model.config, HEADS_KEY, None)
    named: dict[SiteKey, tuple[Slot, ...]] = {}
    for site in foreign_sites(model):
        named[site.key] = tuple(range(site.n_heads))
        entry = described.get(f"{site.key[0]}.{site.key[1]}") if isinstance(described, Mapping) else None
        if isinstance(entry, list | tuple) and len(entry) == site.n_heads:
            named[site.key] = tuple(entry)
    return named


def _site_heads(site: ForeignSite, slots: SiteSlots, old: tuple[Slot, ...]) -> SiteHeads:
    stack, layer = site.key
    heads = tuple(None if slot is None else old[slot] for slot in slots.queries)
    return SiteHeads(stack=stack, layer=layer, n_before=site.n_heads, heads=heads)


def _tell_model(model: Any, plan: Plan, slots: Mapping[SiteKey, SiteSlots]) -> None:
    """Write the new numbers of heads where a small model's configuration can hold them."""
    family = family_of(model)
    some = next(iter(slots.values()), None)
    if some is None:
        return
    if family in _GROUPED:
        model.config.num_attention_heads = len(some.queries)
        model.config.head_dim = foreign_sites(model)[0].d_head
        if family == "llama":
            model.config.num_key_value_heads = len(some.keys)
    elif family == "t5":
        for part in model.modules():
            if getattr(getattr(part, "config", None), "model_type", "") == "t5":
                part.config.num_heads = len(some.queries)
        _cut_position_biases(model, plan, len(some.queries))


def _cut_position_biases(model: Any, plan: Plan, n_slots: int) -> None:
    """Give T5's tables of position biases the columns of the heads that are left."""
    kept = {site.site.key: site.kept for site in plan.sites}
    for site in foreign_sites(model):
        table = getattr(site.owner, "relative_attention_bias", None)
        if table is None or site.key[0] == "cross":
            continue
        columns = bias_columns(kept, site.key[0], n_slots)
        weight = take_blocks(table.weight.T, columns, 1).T.contiguous()
        table.weight = nn.Parameter(weight, requires_grad=table.weight.requires_grad)
        table.embedding_dim = n_slots
