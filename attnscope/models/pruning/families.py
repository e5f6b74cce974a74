"""Where the libraries' own models keep the matrices of their heads: BERT, DistilBERT, ViT, GPT-2, Llama,
T5, BART.

    symbol   meaning                                      shape
    q        rows: heads                                  [n_heads · d_head, d_in]
    k, v     rows: key-value heads                        [n_kv_heads · d_head, d_in]
    o        columns: heads                               [d_model, n_heads · d_head]

Every family is read into these four and written back from them. transformers is imported by whoever
made the model; nothing here imports it. Sizes were checked against transformers 5.23.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal

import torch
from torch import Tensor, nn

from attnscope.errors import UserError
from attnscope.models.pruning.slots import SiteSlots, Slot
from attnscope.records.sites import Site, SiteKey

FamilyName = Literal["bert", "distilbert", "vit", "gpt2", "llama", "t5", "bart"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignSite:
    """One attention module of a library's model: `owner` holds the matrices under the `names` q, k, v, o.

    With one name for q, k and v the three are one matrix (GPT-2). o may have another owner (BERT).
    """

    key: SiteKey
    owner: nn.Module
    names: tuple[str, ...]
    output_owner: nn.Module
    output_name: str
    n_heads: int
    n_kv_heads: int
    d_head: int

    @property
    def site(self) -> Site:
        """The site as the rest of the program names it."""
        stack, layer = self.key
        return Site(stack=stack, layer=layer, n_heads=self.n_heads, n_kv_heads=self.n_kv_heads)

    @property
    def output(self) -> Any:
        """The module that reads the heads."""
        return getattr(self.output_owner, self.output_name)


def family_of(model: nn.Module) -> FamilyName:
    """The family of a library's model; raises UserError for one whose heads cannot be removed."""
    config: Any = getattr(model, "config", None)
    name = str(getattr(config, "model_type", type(model).__name__))
    has_memory = bool(getattr(config, "add_cross_attention", False))
    for family in _FINDERS:
        if family == name and not has_memory:
            return family
    raise UserError(
        f"Heads cannot be removed from a model of the kind '{name}'{' with cross-attention' * has_memory}.",
        expected="BERT, DistilBERT, ViT, GPT-2, Llama, T5, BART or a model of AttnScope",
        action="Switch the heads off with gates instead.",
    )


def foreign_sites(model: nn.Module) -> tuple[ForeignSite, ...]:
    """Every attention module: encoder layers, decoder layers, then cross layers."""
    sites = _FINDERS[family_of(model)](model)
    order = ("encoder", "decoder", "cross")
    return tuple(sorted(sites, key=lambda site: (order.index(site.key[0]), site.key[1])))


def _bert(model: Any) -> list[ForeignSite]:
    body = model.base_model
    stack: Any = "decoder" if model.config.is_decoder else "encoder"
    found = []
    for i, layer in enumerate(body.encoder.layer):
        owner, d_head = layer.attention.self, layer.attention.self.attention_head_size
        n = owner.query.out_features // d_head
        found.append(
            ForeignSite(
                key=(stack, i), owner=owner, names=("query", "key", "value"),
                output_owner=layer.attention.output, output_name="dense",
                n_heads=n, n_kv_heads=n, d_head=d_head,
            )
        )  # fmt: skip
    return found


def _distilbert(model: Any) -> list[ForeignSite]:
    names = ("q_lin", "k_lin", "v_lin", "out_lin")
    return [
        _separate(("encoder", i), layer.attention, names, layer.attention.attention_head_size)
        for i, layer in enumerate(model.base_model.transformer.layer)
    ]


def _vit(model: Any) -> list[ForeignSite]:
    names = ("q_proj", "k_proj", "v_proj", "o_proj")
    return [
        _separate(("encoder", i), layer.attention, names, layer.attention.head_dim)
        for i, layer in enumerate(model.base_model.layers)
    ]


def _gpt2(model: Any) -> list[ForeignSite]:
    found = []
    for i, layer in enumerate(model.base_model.h):
        owner = layer.attn
        n = owner.c_proj.weight.shape[0] // owner.head_dim
        found.append(
            ForeignSite(
                key=("decoder", i), owner=owner, names=("c_attn",), output_owner=owner, output_name="c_proj",
                n_heads=n, n_kv_heads=n, d_head=owner.head_dim,
            )
        )  # fmt: skip
    return found


def _llama(model: Any) -> list[ForeignSite]:
    return [
        _separate(
            ("decoder", i),
            layer.self_attn,
            ("q_proj", "k_proj", "v_proj", "o_proj"),
            layer.self_attn.head_dim,
        )
        for i, layer in enumerate(model.base_model.layers)
    ]


def _t5(model: Any) -> list[ForeignSite]:
    names = ("q", "k", "v", "o")
    found = []
    for stack in ("encoder", "decoder"):
        part = getattr(model, stack, None) or getattr(getattr(model, "transformer", None), stack, None)
        for i, block in enumerate(part.block if part is not None else ()):
            key: SiteKey = (stack, i)
            attention = block.layer[0].SelfAttention
            found.append(_separate(key, attention, names, attention.key_value_proj_dim))
            if stack == "decoder":
                attention = block.layer[1].EncDecAttention
                found.append(_separate(("cross", i), attention, names, attention.key_value_proj_dim))
    return found


def _bart(model: Any) -> list[ForeignSite]:
    names, body = ("q_proj", "k_proj", "v_proj", "out_proj"), model.base_model
    found = []
    for stack in ("encoder", "decoder"):
        part = getattr(body, stack, None)
        for i, layer in enumerate(part.layers if part is not None else ()):
            key: SiteKey = (stack, i)
            found.append(_separate(key, layer.self_attn, names, layer.self_attn.head_dim))
            if hasattr(layer, "encoder_attn"):
                found.append(_separate(("cross", i), layer.encoder_attn, names, layer.encoder_attn.head_dim))
    return found


def _separate(key: SiteKey, owner: Any, names: tuple[str, ...], d_head: int) -> ForeignSite:
    """A site with one matrix for each of q, k, v and o in one module."""
    return ForeignSite(
        key=key, owner=owner, names=names[:3], output_owner=owner, output_name=names[3],
        n_heads=getattr(owner, names[0]).out_features // d_head,
        n_kv_heads=getattr(owner, names[1]).out_features // d_head,
        d_head=d_head,
    )  # fmt: skip


_FINDERS: MappingProxyType[FamilyName, Callable[[Any], list[ForeignSite]]] = MappingProxyType(
    {
        "bert": _bert,
        "distilbert": _distilbert,
        "vit": _vit,
        "gpt2": _gpt2,
        "llama": _llama,
        "t5": _t5,
        "bart": _bart,
    }
)


@torch.no_grad()
def write_slots(site: ForeignSite, slots: SiteSlots, scales: Mapping[int, float] | None = None) -> None:
    """Give a site the heads that `slots` name, in place, and tell it its numbers.

    `scales` holds what the output of a head is multiplied by, where that is not 1.
    """
    d = site.d_head
    inputs = (slots.queries, slots.keys, slots.keys)
    if len(site.names) == 1:
        _cut_joint(getattr(site.owner, site.names[0]), inputs, site.n_heads * d, d)
    else:
        for name, heads in zip(site.names, inputs, strict=True):
            linear = getattr(site.owner, name)
            bias = None if linear.bias is None else take_blocks(linear.bias, heads, d)
            _resize(linear, take_blocks(linear.weight, heads, d), bias)
    is_transposed = _is_transposed(site.output)
    columns = site.output.weight if is_transposed else site.output.weight.T
    weight = take_blocks(columns, slots.queries, d)  # [n_slots · d_head, d_model]
    factors = [1.0 if slot is None else (scales or {}).get(slot, 1.0) for slot in slots.queries]
    weight *= torch.tensor(factors, dtype=weight.dtype, device=weight.device).repeat_interleave(d)[:, None]
    _resize(site.output, weight if is_transposed else weight.T, site.output.bias)
    _tell_numbers(site.owner, len(slots.queries), len(slots.keys), d)


def take_blocks(rows: Tensor, slots: tuple[Slot, ...], d_head: int) -> Tensor:
    """The rows of some heads one below the other; a slot without a head has rows of zeros."""
    blocks = torch.split(rows.detach(), d_head)
    empty = torch.zeros_like(blocks[0])
    return torch.cat([empty if slot is None else blocks[slot] for slot in slots])


def _cut_joint(joint: Any, inputs: tuple[tuple[Slot, ...], ...], size: int, d_head: int) -> None:
    """Cut q, k and v in the one matrix that holds them side by side."""
    columns = zip(joint.weight.T.split(size), inputs, strict=True)
    weights = [take_blocks(part, slots, d_head) for part, slots in columns]
    biases = [
        take_blocks(part, slots, d_head) for part, slots in zip(joint.bias.split(size), inputs, strict=True)
    ]
    _resize(joint, torch.cat(weights).T, torch.cat(biases))


def _is_transposed(linear: Any) -> bool:
    """Whether the matrix is kept as [d_in, d_out], as the library does for GPT-2."""
    return not isinstance(linear, nn.Linear)


def _resize(linear: Any, weight: Tensor, bias: Tensor | None) -> None:
    linear.weight = nn.Parameter(weight.contiguous(), requires_grad=linear.weight.requires_grad)
    if bias is not None:
        linear.bias = nn.Parameter(bias.detach(), requires_grad=linear.bias.requires_grad)
    if _is_transposed(linear):
        linear.nx, linear.nf = weight.shape
    else:
        linear.out_features, linear.in_features = weight.shape


def _tell_numbers(owner: Any, n_heads: int, n_kv_heads: int, d_head: int) -> None:
    """Set what the module itself remembers of its sizes; each family has its own names."""
    numbers = {
        "num_attention_heads": n_heads,
        "num_heads": n_heads,
        "n_heads": n_heads,
        "all_head_size": n_heads * d_head,
        "inner_dim": n_heads * d_head,
        "split_size": n_heads * d_head,
        "num_key_value_groups": n_heads // n_kv_heads,
    }
    for name, number in numbers.items():
        if hasattr(owner, name):
            setattr(owner, name, number)
