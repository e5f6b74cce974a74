"""The program's interface to a family of models: where it keeps the matrices of its heads, how fewer heads
fit into them, and how its configuration and tensors become one of our models (anything we cannot represent is
rejected with an explanation).

    symbol   meaning                                      shape
    q        rows: heads                                  [n_heads · d_head, d_in]
    k, v     rows: key-value heads                        [n_kv_heads · d_head, d_in]
    o        columns: heads                               [d_model, n_heads · d_head]

Every family is read into these four and written back from them. transformers is imported by whoever
made the model; nothing here imports it. Sizes were checked against transformers 5.23.

A *slot* is room for one head in a site's matrices. A slot without a head holds zeros: its values are 0,
so it adds nothing. Libraries demand that sites agree in their numbers of slots, and that every
key-value slot serves equally many query slots; here the fewest slots are found that do.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import torch
from torch import Tensor, nn

from attnscope.errors import LoadError
from attnscope.nn import ModelConfig
from attnscope.nn.config import Activation
from attnscope.records.sites import Site, SiteKey
from attnscope.schemes import Scheme

Seen = list[Any]
"""Data seen by a family's hooks in one pass, in the order of the layers."""


class Handle(Protocol):
    """An object with `remove`, such as a hook."""

    def remove(self) -> None:
        """Remove the hook."""


def own_setting(model: Any, key: str) -> Any:
    """The setting under the key "attnscope" of a model's config.json; None if absent."""
    settings = getattr(model.config, "attnscope", None)
    return settings.get(key) if isinstance(settings, Mapping) else None


class Family(Scheme):
    """One kind of model; `name` is the model_type of its config.json."""

    alike: ClassVar[tuple[str, ...]] = ()
    """Other kinds whose last norm goes by the same name; nothing more is known of them."""
    last_norm: ClassVar[str | None] = None
    """The last norm of the stack that predicts; empty where each layer ends with its own, None if unknown."""
    not_a_map: ClassVar[str] = ""
    """Why its weights are no map of tokens on tokens; empty where they are."""
    has_empty_rows: ClassVar[bool] = False
    """Whether there are tokens without a row of weights of their own, in some layers."""
    fails_when_short: ClassVar[bool] = False
    """Whether the library's own code fails on some short texts."""
    vision_class: ClassVar[str] = ""
    """The library's class for the half that sees, of a model that reads pictures together with text."""
    is_translator: ClassVar[bool] = False
    """Whether its models translate and do nothing else; others write summaries, answers and more."""
    predicts_words: ClassVar[bool] = True
    """Whether the head that it was trained with at first does."""

    def prepare(self, model: Any) -> str:
        """Prepare a library model, once, before its first pass; returns a note for the user."""
        return ""

    def watch(self, model: Any, seen: Seen) -> list[Handle]:
        """Hooks for data on weights that the output lacks: each pass puts it into `seen`."""
        return []

    def laid_out(
        self, output: Mapping[str, Any], n_tokens: int, *, config: Any, seen: Seen
    ) -> Mapping[str, Any]:
        """An output with `output_attentions`, its weights laid out token by token.

        `n_tokens` is how many tokens were given, 0 where that is not known; `config` is the model's, `seen`
        what `watch` saw in the pass.
        """
        return output

    def most_tokens(self, values: Mapping[str, Any]) -> int | None:
        """The longest text whose weights can be shown, from a config.json; None: any."""
        return None


Slot = int | None
"""The present number of a head, or None for a slot of zeros."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteSlots:
    """The slots of one site: query heads, and the key-value heads that they read in equal groups."""

    queries: tuple[Slot, ...]
    keys: tuple[Slot, ...]


def same_slots(kept: Sequence[int], *, n_heads: int, n_kv_heads: int) -> SiteSlots:
    """Every head in its old slot, removed ones as zeros; a key-value head that no head reads is zeros too."""
    size = n_heads // n_kv_heads
    read = {head // size for head in kept}
    return SiteSlots(
        queries=tuple(head if head in kept else None for head in range(n_heads)),
        keys=tuple(head if head in read else None for head in range(n_kv_heads)),
    )


def free_slots(kept: Sequence[int]) -> SiteSlots:
    """One slot for each remaining head, each with keys of its own; one of zeros if none is left."""
    heads: tuple[Slot, ...] = tuple(kept) or (None,)
    return SiteSlots(queries=heads, keys=heads)


def grouped_slots(
    kept: Mapping[SiteKey, Sequence[int]], *, n_heads: int, n_kv_heads: int, width: int
) -> dict[SiteKey, SiteSlots]:
    """The same slots at every site, with the fewest numbers; the query slots divide `width`.

    A key-value head with more query heads than a group holds is there several times (Ainslie et al.
    2023 average heads into groups; here groups are split, which changes nothing), and groups that lost
    heads are filled up with zeros, whichever costs less.
    """
    size = n_heads // n_kv_heads
    best: tuple[int, int, int] | None = None
    for group in range(1, size + 1):
        least = max(
            1,
            *(
                sum(-(-len(each) // group) for each in _by_key(heads, size).values())
                for heads in kept.values()
            ),
        )
        n_kv = next((n for n in range(least, n_heads + 1) if width % (n * group) == 0), None)
        if n_kv is not None and n_kv * group <= n_heads:
            cost = (2 * n_kv * group + 2 * n_kv, n_kv, group)
            best = cost if best is None else min(best, cost)
    if best is None or best[0] >= 2 * n_heads + 2 * n_kv_heads:
        return {key: same_slots(heads, n_heads=n_heads, n_kv_heads=n_kv_heads) for key, heads in kept.items()}
    _, n_kv, group = best
    return {key: _fill_groups(heads, size, group, n_kv) for key, heads in kept.items()}


def _by_key(heads: Sequence[int], size: int) -> dict[int, list[int]]:
    groups: dict[int, list[int]] = {}
    for head in heads:
        groups.setdefault(head // size, []).append(head)
    return groups


def _fill_groups(heads: Sequence[int], size: int, group: int, n_kv: int) -> SiteSlots:
    queries: list[Slot] = []
    keys: list[Slot] = []
    for key, members in _by_key(heads, size).items():
        for start in range(0, len(members), group):
            part = members[start : start + group]
            queries += [*part, *[None] * (group - len(part))]
            keys.append(key)
    n_empty = n_kv - len(keys)
    return SiteSlots(queries=(*queries, *[None] * (n_empty * group)), keys=(*keys, *[None] * n_empty))


Kept = Mapping[SiteKey, Sequence[int]]
"""The heads that stay at each site, by their present numbers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignSite:
    """One attention module of a library model: `owner` holds the matrices `names` q, k, v, o.

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
        """The site in the program's naming."""
        stack, layer = self.key
        return Site(stack=stack, layer=layer, n_heads=self.n_heads, n_kv_heads=self.n_kv_heads)

    @property
    def output(self) -> Any:
        """The module that reads the heads."""
        return getattr(self.output_owner, self.output_name)

    @property
    def output_rows(self) -> Tensor:
        """W_O with a row for each number of each head, [n_heads · d_head, d_model]."""
        weight: Tensor = self.output.weight
        return weight if _is_transposed(self.output) else weight.T


class PrunableFamily(Family, ABC):
    """A family whose heads can be removed permanently."""

    @abstractmethod
    def sites(self, model: Any) -> list[ForeignSite]:
        """Every attention module, in any order."""

    @abstractmethod
    def small_slots(self, model: Any, kept: Kept) -> dict[SiteKey, SiteSlots]:
        """The smallest slots of every site that the family allows."""

    @abstractmethod
    def tell_sizes(self, model: Any, kept: Kept, slots: Mapping[SiteKey, SiteSlots]) -> None:
        """Write a small model's slots wherever its configuration can express them."""


class FreeHeads(PrunableFamily):
    """Each site may lose any number of heads; the library's configuration cannot express that."""

    head_counts: ClassVar[Mapping[str, str]] = {}
    """Where the configuration keeps the number of heads of each stack."""

    def small_slots(self, model: Any, kept: Kept) -> dict[SiteKey, SiteSlots]:
        return {key: free_slots(heads) for key, heads in kept.items()}

    def tell_sizes(self, model: Any, kept: Kept, slots: Mapping[SiteKey, SiteSlots]) -> None:
        """Nothing: see `pruning.huggingface.HEADS_KEY`."""


class GroupedHeads(PrunableFamily):
    """The configuration names the number of heads and their width, the same for every layer."""

    def small_slots(self, model: Any, kept: Kept) -> dict[SiteKey, SiteSlots]:
        first = self.sites(model)[0]
        width = model.config.hidden_size
        return grouped_slots(kept, n_heads=first.n_heads, n_kv_heads=first.n_kv_heads, width=width)

    def tell_sizes(self, model: Any, kept: Kept, slots: Mapping[SiteKey, SiteSlots]) -> None:
        model.config.num_attention_heads = len(next(iter(slots.values())).queries)
        model.config.head_dim = self.sites(model)[0].d_head


def separate_site(key: SiteKey, owner: Any, names: tuple[str, ...], d_head: int) -> ForeignSite:
    """A site with one matrix for each of q, k, v and o in one module."""
    return ForeignSite(
        key=key, owner=owner, names=names[:3], output_owner=owner, output_name=names[3],
        n_heads=getattr(owner, names[0]).out_features // d_head,
        n_kv_heads=getattr(owner, names[1]).out_features // d_head,
        d_head=d_head,
    )  # fmt: skip


@torch.no_grad()
def write_slots(site: ForeignSite, slots: SiteSlots, scales: Mapping[int, float] | None = None) -> None:
    """Give a site the heads that `slots` name, in place, and update its sizes.

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
    weight = take_blocks(site.output_rows, slots.queries, d)  # [n_slots · d_head, d_model]
    factors = [1.0 if slot is None else (scales or {}).get(slot, 1.0) for slot in slots.queries]
    weight *= torch.tensor(factors, dtype=weight.dtype, device=weight.device).repeat_interleave(d)[:, None]
    _resize(site.output, weight if _is_transposed(site.output) else weight.T, site.output.bias)
    _tell_numbers(site.owner, len(slots.queries), len(slots.keys), d)


def take_blocks(rows: Tensor, slots: tuple[Slot, ...], d_head: int) -> Tensor:
    """The rows of some heads, stacked; a slot without a head has rows of zeros."""
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
    """Whether the matrix is stored as [d_in, d_out], as the library does for GPT-2."""
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
    """Update the module's own sizes; each family has its own names."""
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


Tensors = Mapping[str, Tensor]
Block = Mapping[str, str | tuple[str, ...]]
"""The layers of one block: our name, and theirs (several are joined)."""
_ACTIVATIONS: Mapping[str, Activation] = {
    "gelu": "gelu",
    "gelu_python": "gelu",
    "gelu_new": "gelu-tanh",
    "gelu_pytorch_tanh": "gelu-tanh",
    "relu": "relu",
    "silu": "swish",
    "swish": "swish",
}


def library_activation(ours: Activation) -> str | None:
    """The library's name of the feed-forward activation; None if it has none."""
    return next((theirs for theirs, name in _ACTIVATIONS.items() if name == ours), None)


class LibraryConfig:
    """The keys of one config.json, with the library's defaults for missing ones."""

    def __init__(self, values: Mapping[str, Any], defaults: Mapping[str, Any], where: str) -> None:
        self._values, self._defaults, self.where = values, defaults, where

    def get(self, key: str) -> Any:
        """The value of a key, or its default."""
        found = self._values.get(key)
        return self._defaults.get(key) if found is None else found

    def count(self, key: str) -> int:
        """A positive whole number."""
        value = self.get(key)
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise self.refused(f"{key} is {value!r}", "a whole number above 0")
        return value

    def real(self, key: str) -> float:
        value = self.get(key)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self.refused(f"{key} is {value!r}", "a number")
        return float(value)

    def activation(self, key: str) -> Activation:
        """Activation between the two layers of the feed-forward part."""
        value = self.get(key)
        if not isinstance(value, str) or value not in _ACTIVATIONS:
            raise self.refused(f"{key} is {value!r}", "one of " + ", ".join(_ACTIVATIONS))
        return _ACTIVATIONS[value]

    def require(self, **wanted: object) -> None:
        """Raise LoadError unless each key has the one value that our models support."""
        for key, value in wanted.items():
            found = self.get(key)
            if found != value:
                raise self.refused(f"{key} is {found!r}", repr(value))

    def refused(self, reason: str, expected: str) -> LoadError:
        """Explanation why a model cannot be converted."""
        return LoadError(
            f"The model of {self.where} cannot be trained further: {reason}.",
            kind="architecture",
            expected=expected,
            action="Open it to look at it, or start from another model.",
        )


def rotation_of(choices: LibraryConfig, **older: str) -> LibraryConfig:
    """Rotation of queries and keys; raises LoadError if it is stretched.

    Older files write its numbers beside those of the model, under their own names or those given here.
    """
    ropes = choices.get("rope_parameters") or choices.get("rope_scaling") or {}
    if not isinstance(ropes, Mapping):
        raise choices.refused(
            f"its rotation is {str(ropes)[:40]!r}", 'an object such as {"rope_type": "default"}'
        )
    kind = ropes.get("rope_type", ropes.get("type", "default"))
    if kind != "default":
        raise choices.refused(f"its rotation is of the type {kind!r}", "'default'")
    names = ("rope_theta", "partial_rotary_factor")
    beside = {name: choices.get(older.get(name, name)) for name in names}
    return LibraryConfig(ropes, beside, choices.where)


class AdoptableFamily(Family, ABC):
    """A family that can be converted to our models."""

    prefix: ClassVar[str]
    """Possible prefix of every name of its body."""
    defaults: ClassVar[Mapping[str, Any]]
    """The library's, for keys that config.json does not write."""

    @abstractmethod
    def config(self, choices: LibraryConfig, source: Tensors) -> dict[str, Any]:
        """The keys of our configuration except the vocabulary; raises LoadError for unsupported ones."""

    @abstractmethod
    def state(self, source: Tensors, config: ModelConfig) -> dict[str, Tensor]:
        """Our tensors by name."""

    def library_keys(self, config: ModelConfig) -> dict[str, Any]:
        """The keys of the library's configuration for one of our models, whether or not it can be of this
        family; none if ours cannot be written as such.
        """
        return {}


def _joined(source: Tensors, names: tuple[str, ...], kind: str) -> Tensor:
    return torch.cat([source[f"{name}.{kind}"] for name in names])


class Taking:
    """Collects our tensors from those of one model."""

    def __init__(self, source: Tensors) -> None:
        self.source = source
        self.state: dict[str, Tensor] = {}

    def take(self, ours: str, *theirs: str) -> None:
        """Take weight and bias of one layer, or of several stacked."""
        for kind in ("weight", "bias"):
            if f"{theirs[0]}.{kind}" in self.source:
                self.state[f"{ours}.{kind}"] = _joined(self.source, theirs, kind)

    def take_head(self, transform: str, norm: str, bias: str) -> None:
        """Take the output layer of an encoder; `bias` is a tensor."""
        self.take("head.transform", transform)
        self.take("head.norm", norm)
        self.state["head.bias"] = self.source[bias]

    def take_block(self, ours: str, theirs: str, parts: Mapping[str, str | tuple[str, ...]]) -> None:
        """Take the layers of one block, by our name and theirs (several are joined)."""
        for name, found in parts.items():
            names = (found,) if isinstance(found, str) else found
            self.take(f"{ours}.{name}", *(f"{theirs}.{part}" for part in names))
