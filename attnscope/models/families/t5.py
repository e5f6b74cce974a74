"""T5 (Raffel et al. 2019).

All layers of a stack read one table of position biases, a column for each head: a head keeps its column, so
that sites cannot lose heads one by one.
"""

from collections.abc import Mapping
from typing import Any

from torch import nn

from attnscope.models.families.family import (
    ForeignSite,
    Kept,
    PrunableFamily,
    SiteSlots,
    Slot,
    separate_site,
    take_blocks,
)
from attnscope.records.sites import SiteKey


class T5(PrunableFamily):
    name, title, order = "t5", "T5", 7
    alike = ("mt5",)
    last_norm = "final_layer_norm"

    def sites(self, model: Any) -> list[ForeignSite]:
        names = ("q", "k", "v", "o")
        found = []
        for stack in ("encoder", "decoder"):
            part = getattr(model, stack, None) or getattr(getattr(model, "transformer", None), stack, None)
            for i, block in enumerate(part.block if part is not None else ()):
                key: SiteKey = (stack, i)
                attention = block.layer[0].SelfAttention
                found.append(separate_site(key, attention, names, attention.key_value_proj_dim))
                if stack == "decoder":
                    attention = block.layer[1].EncDecAttention
                    found.append(separate_site(("cross", i), attention, names, attention.key_value_proj_dim))
        return found

    def small_slots(self, model: Any, kept: Kept) -> dict[SiteKey, SiteSlots]:
        return shared_slots(kept)

    def tell_sizes(self, model: Any, kept: Kept, slots: Mapping[SiteKey, SiteSlots]) -> None:
        n_slots = len(next(iter(slots.values())).queries)
        for part in model.modules():
            if getattr(getattr(part, "config", None), "model_type", "") == self.name:
                part.config.num_heads = n_slots
        for site in self.sites(model):
            table = getattr(site.owner, "relative_attention_bias", None)
            if table is None or site.key[0] == "cross":
                continue
            weight = take_blocks(table.weight.T, bias_columns(kept, site.key[0], n_slots), 1).T.contiguous()
            table.weight = nn.Parameter(weight, requires_grad=table.weight.requires_grad)
            table.embedding_dim = n_slots


def shared_slots(kept: Kept) -> dict[SiteKey, SiteSlots]:
    """Slots that share the columns of a table of position biases, equally many at all sites.

    In self-attention a slot goes only when its head is off in every layer of the stack; attention to the
    memory has no bias and is free.
    """
    n_cross = max((len(heads) for key, heads in kept.items() if key[0] == "cross"), default=0)
    columns = {stack: _heads_of(kept, stack) for stack in ("encoder", "decoder")}
    n_slots = max(1, n_cross, *(len(heads) for heads in columns.values()))
    slots = {}
    for key, heads in kept.items():
        filled: list[Slot] = (
            list(heads) if key[0] == "cross" else [h if h in heads else None for h in columns[key[0]]]
        )
        filled += [None] * (n_slots - len(filled))
        slots[key] = SiteSlots(queries=tuple(filled), keys=tuple(filled))
    return slots


def bias_columns(kept: Kept, stack: str, n_slots: int) -> tuple[Slot, ...]:
    """The head whose position bias each slot of a stack reads; see `shared_slots`."""
    used: list[Slot] = [*_heads_of(kept, stack)]
    return tuple(used + [None] * (n_slots - len(used)))


def _heads_of(kept: Kept, stack: str) -> list[int]:
    return sorted({head for key, heads in kept.items() if key[0] == stack for head in heads})
