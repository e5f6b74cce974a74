"""Removes heads from library models (`attnscope/models/families` lists the supported ones).

Two shapes, since the library makes one size of head from the width and the number of heads:

    same    every tensor keeps its size, a removed head is zeros: opens wherever the model opened before
    small   what a removed head weighed is gone
            GroupedHeads, T5   the library's own configuration can say so: opens wherever the model opened
                               before, as far as that program checks what transformers 5 checks
            FreeHeads          it cannot: the folder opens in AttnScope only, and the library refuses it
                               (`fitted_class`)

Where the configuration can say so, sites that lost unequal numbers of heads are filled up with zeros
(`families/family.py`). The saved configuration names the old heads under the key `attnscope_heads`. Small
folders of the others are the library's own, but for that key and smaller matrices among the weights: whoever
opens one makes the model of the configuration, gives it these sizes, and fills in the weights as ever.

The smaller model is written to a temporary folder and opened again like any other, so that what is proved is
what was read back. Tokenizer and other small files are copied from the model's own folder.

What is to go, what is to be folded in, and what is left: on paper, for every kind of model.
"""

import copy
import json
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from attnscope.errors import LoadError, UserError
from attnscope.models.families import FAMILIES, family_named
from attnscope.models.families.family import (
    ForeignSite,
    FreeHeads,
    GroupedHeads,
    PrunableFamily,
    SiteSlots,
    Slot,
    same_slots,
    write_slots,
)
from attnscope.models.huggingface.network import HuggingFaceNetwork
from attnscope.models.network import Network
from attnscope.models.passes import hooked
from attnscope.outside import as_object, read_json
from attnscope.records.importance import ModelSize, PruneShape, SiteHeads
from attnscope.records.sites import Gates, HeadRef, Site, SiteKey, check_heads


@dataclass(frozen=True, slots=True, kw_only=True)
class SitePlan:
    """One site: the remaining heads, by their present numbers, and the factor of each."""

    site: Site
    kept: tuple[int, ...]
    scales: tuple[float, ...]

    @property
    def removed(self) -> tuple[HeadRef, ...]:
        return tuple(head for head in self.site.heads if head.head not in self.kept)

    @property
    def folded(self) -> tuple[tuple[HeadRef, float], ...]:
        """The remaining heads with a gate other than 1."""
        pairs = zip(self.kept, self.scales, strict=True)
        return tuple((self.site.heads[head], scale) for head, scale in pairs if scale != 1.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class RemovalPlan:
    """Every site of a model, in its order."""

    sites: tuple[SitePlan, ...]

    @property
    def kept(self) -> dict[SiteKey, tuple[int, ...]]:
        """The remaining heads of each site."""
        return {site.site.key: site.kept for site in self.sites}

    def at(self, key: SiteKey) -> SitePlan | None:
        """The plan of one site; None for one the model does not have."""
        return next((plan for plan in self.sites if plan.site.key == key), None)

    @property
    def removed(self) -> tuple[HeadRef, ...]:
        return tuple(head for plan in self.sites for head in plan.removed)

    @property
    def folded(self) -> tuple[tuple[HeadRef, float], ...]:
        """Every head whose gate is multiplied into the weights."""
        return tuple(pair for plan in self.sites for pair in plan.folded)


def build_plan(sites: Sequence[Site], gates: Gates) -> RemovalPlan:
    """Heads at 0 go, others stay; raises UserError for an unknown head."""
    values = dict(gates.values)
    check_heads(values, sites)
    plans = []
    for site in sites:
        kept = tuple(head.head for head in site.heads if values.get(head, 1.0) != 0.0)
        scales = tuple(values.get(site.heads[head], 1.0) for head in kept)
        plans.append(SitePlan(site=site, kept=kept, scales=scales))
    return RemovalPlan(sites=tuple(plans))


def require_removal(plan: RemovalPlan) -> None:
    """Raise UserError if no head is off."""
    if not plan.removed:
        raise UserError(
            "No head is off.",
            expected="at least one head whose gate is 0",
            action="Switch heads off first, then remove them.",
        )


# What is left when heads have been removed from a network, whoever wrote the network.


@dataclass(frozen=True, slots=True, kw_only=True)
class Removal:
    """A smaller network, not yet checked; `write` fills an empty folder with it, and may be called late."""

    network: Network
    sites: tuple[SiteHeads, ...]
    before: ModelSize
    after: ModelSize
    opens_in: str
    write: Callable[[Path], None]
    notes: tuple[str, ...] = ()


def weights_file_bytes(folder: Path) -> int | None:
    """The bytes of the weights in a folder; None if there are none."""
    try:
        sizes = [file.stat().st_size for file in folder.glob("*.safetensors")]
    except OSError:
        return None
    return sum(sizes) if sizes else None


def removal_name(name: str, sites: tuple[SiteHeads, ...]) -> str:
    """A model's name with its number of heads, now and before."""
    n_left, n_before = sum(site.n_left for site in sites), sum(site.n_before for site in sites)
    return f"{name[:60]}, {n_left} of {n_before} heads"


def removed_heads_card(sites: tuple[SiteHeads, ...], *, made_from: str) -> str:
    """The part of a model's card that maps old heads to new ones, in Markdown."""
    lines = ["", "## Removed heads", "", f"Made from {made_from}. Heads are renumbered at each site:", ""]
    for site in sites:
        if list(site.heads) == list(range(site.n_before)):
            continue
        pairs = [f"H{new} was H{old}" for new, old in enumerate(site.heads) if old is not None]
        text = ", ".join(pairs) or "no head is left"
        zeros = f"; {site.n_zero} of zeros" if site.n_zero and pairs else ""
        lines.append(f"- {site.stack} L{site.layer}: {text}{zeros}")
    return "\n".join([*lines, ""])


HEADS_KEY = "attnscope_heads"
"""In a saved configuration: for each site the old number of each of its heads, null for one of zeros."""

EVERYWHERE = "AttnScope, and the library transformers wherever the original model opened"
ONLY_HERE = "AttnScope only: the library transformers cannot say that a layer has fewer heads, and rejects it"
_COPIED = ("*.json", "*.txt", "*.model", "*.spm", "README.md", "LICENSE*")
_NOT_COPIED = ("config.json", "manifest.json", "*.index.json")
_CARD = "README.md"
_HALVES = {"float16": torch.float16, "bfloat16": torch.bfloat16}

Reopen = Callable[[Path, str], Network]
"""The network of a folder, under a name."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Case:
    """One text as the library reads it, ids [1, n_tokens], int64; or the pixels of a picture."""

    source: Tensor
    target: Tensor | None = None


def family_of(model: nn.Module) -> PrunableFamily:
    """The family of a library model; raises UserError if its heads cannot be removed."""
    config: Any = getattr(model, "config", None)
    name = str(getattr(config, "model_type", type(model).__name__))
    has_memory = bool(getattr(config, "add_cross_attention", False))
    family = family_named(name)
    if isinstance(family, PrunableFamily) and not has_memory:
        return family
    titles = [known.title for known in FAMILIES.values() if isinstance(known, PrunableFamily)]
    raise UserError(
        f"Heads cannot be removed from a model of the kind '{name}'{' with cross-attention' * has_memory}.",
        expected=f"{', '.join(titles)} or a model of AttnScope",
        action="Switch the heads off with gates instead.",
    )


def foreign_sites(model: nn.Module) -> tuple[ForeignSite, ...]:
    """Every attention module: encoder layers, decoder layers, then cross layers."""
    order = ("encoder", "decoder", "cross")
    return tuple(
        sorted(family_of(model).sites(model), key=lambda site: (order.index(site.key[0]), site.key[1]))
    )


def is_small(config: Mapping[str, Any]) -> bool:
    """Whether a configuration, as in config.json, is of a model that only AttnScope can open."""
    described, family = config.get(HEADS_KEY), family_named(str(config.get("model_type")))
    if not isinstance(described, Mapping) or not isinstance(family, FreeHeads):
        return False
    counts = family.head_counts
    return any(
        isinstance(heads, list | tuple) and len(heads) != config.get(counts.get(str(name).split(".")[0], ""))
        for name, heads in described.items()
    )


def opens_in(model: Any) -> str:
    """Programs that can open a pruned model once it is saved."""
    config = model.config
    if is_small(config.to_dict()):
        return ONLY_HERE
    d_head = getattr(config, "head_dim", None)
    is_grouped = isinstance(family_of(model), GroupedHeads)
    if is_grouped and d_head and config.num_attention_heads * d_head != config.hidden_size:
        return f"{EVERYWHERE}, as long as that version knows head_dim (checked with 5.23)"
    return EVERYWHERE


def prune_pretrained(
    model: nn.Module, gates: Gates, *, shape: PruneShape
) -> tuple[Any, tuple[SiteHeads, ...]]:
    """A copy without the heads whose gate is 0, other gates folded in; and the heads of each site.

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
    if shape == "small" and slots:
        family_of(smaller).tell_sizes(smaller, plan.kept, slots)
    heads = tuple(_site_heads(site, slots[site.key], old[site.key]) for site in foreign_sites(model))
    setattr(smaller.config, HEADS_KEY, {f"{s.stack}.{s.layer}": list(s.heads) for s in heads})
    return smaller, heads


def plan_slots(model: Any, plan: RemovalPlan, shape: PruneShape) -> dict[SiteKey, SiteSlots]:
    kept = plan.kept
    if shape == "small":
        return family_of(model).small_slots(model, kept)
    return {
        site.key: same_slots(kept[site.key], n_heads=site.n_heads, n_kv_heads=site.n_kv_heads)
        for site in foreign_sites(model)
    }


@contextmanager
def gated(model: nn.Module, gates: Gates) -> Iterator[None]:
    """Multiply heads of `model` by `gates` before the output projection in the block.

    It knows nothing of how heads are removed, so that the two can prove each other.
    """
    handles = []
    for site in foreign_sites(model):
        values = [gates.value(head) for head in site.site.heads]
        if any(value != 1.0 for value in values):
            handles.append(site.output.register_forward_pre_hook(_multiplier(site, values)))
    with hooked(handles):
        yield


def _multiplier(site: ForeignSite, values: list[float]) -> Any:
    factors = torch.tensor(values).repeat_interleave(site.d_head)

    def multiply(_module: nn.Module, inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        return (inputs[0] * factors.to(inputs[0]), *inputs[1:])

    return multiply


def takes_target(model: Any) -> bool:
    """Whether the model reads a second text."""
    is_classifier = type(model).__name__.endswith("Classification")
    return bool(getattr(model.config, "is_encoder_decoder", False)) and not is_classifier


def model_size(model: nn.Module, file_bytes: int | None = None) -> ModelSize:
    """Parameters of a model and their bytes, tied ones once."""
    parameters = list(model.parameters())
    n_bytes = sum(p.numel() * p.element_size() for p in parameters)
    return ModelSize(n_parameters=sum(p.numel() for p in parameters), n_bytes=n_bytes, file_bytes=file_bytes)


def _named_heads(model: Any) -> dict[SiteKey, tuple[Slot, ...]]:
    """The original numbers of a model's heads, which may have lost some before."""
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


def fit_small(model: nn.Module, config: Mapping[str, Any], where: str) -> bool:
    """Resize a new model as config.json says; its weights are lost.

    `config` is the content of config.json and `where` names it in errors. Returns whether anything had to
    be done; works on the meta device too. Raises LoadError for sizes that cannot be.
    """
    if not is_small(config):
        return False
    for site in foreign_sites(model):
        name = f"{site.key[0]}.{site.key[1]}"
        heads = config[HEADS_KEY].get(name)
        if not isinstance(heads, list | tuple) or not 1 <= len(heads) <= site.n_heads:
            raise LoadError(
                f"{where} has no usable entry for the heads of {name}.",
                kind="config",
                expected=f"a list of 1 to {site.n_heads} heads under {HEADS_KEY}",
                action="Restore config.json from a copy, or remove the heads from the original model again.",
            )
        # Any head will do: only the sizes matter, the numbers come from the weights file.
        slots: tuple[Slot, ...] = tuple(range(len(heads)))
        write_slots(site, SiteSlots(queries=slots, keys=slots))
    return True


def fitted_class(model_class: type[Any], config: Mapping[str, Any], where: str) -> type[Any]:
    """The library's class for the model of a folder, or a variant whose models get the folder's sizes."""
    if not is_small(config):
        return model_class

    def make(self: Any, *inputs: Any, **choices: Any) -> None:
        model_class.__init__(self, *inputs, **choices)
        fit_small(self, config, where)
        self.__class__ = model_class  # from here on it is a model of the library like any other

    # Its name and module are those of the library's class: the library writes them into config.json.
    names = {"__init__": make, "__module__": model_class.__module__, "__qualname__": model_class.__qualname__}
    return type(model_class.__name__, (model_class,), names)


def prune_foreign(network: Network, gates: Gates, shape: PruneShape, reopen: Reopen) -> Removal:
    """The smaller network, read back from a folder; raises UserError for families that are not supported."""
    if not isinstance(network, HuggingFaceNetwork) or not isinstance(network.module, nn.Module):
        raise UserError(
            f"Heads cannot be removed from {network.info.name}.",
            expected="a model of AttnScope or of the library transformers",
            action="Switch the heads off with gates instead.",
        )
    smaller, sites = prune_pretrained(network.module, gates, shape=shape)
    if getattr(smaller.config, "pad_token_id", None) == -1:
        smaller.config.pad_token_id = None  # what stood for "none" while the model was open
    source = Path(network.info.source)
    dtype = _stored_dtype(source)
    stored = _exactly_as(smaller, dtype)
    notes = _notes(sites, shape, is_wider=dtype is not None and stored is None)

    def write(folder: Path) -> None:
        _write(smaller, stored, dtype, source, folder, _card(network, sites))

    with tempfile.TemporaryDirectory(prefix="attnscope-pruned-", ignore_cleanup_errors=True) as temporary:
        write(Path(temporary))
        after_bytes = weights_file_bytes(Path(temporary))
        again = reopen(Path(temporary), removal_name(network.info.name, sites))
    return Removal(
        network=again,
        sites=sites,
        before=model_size(network.module, weights_file_bytes(source)),
        after=model_size(smaller, after_bytes),
        opens_in=opens_in(smaller),
        write=write,
        notes=notes,
    )


def _write(
    model: Any, stored: dict[str, Tensor] | None, dtype: str | None, source: Path, folder: Path, card: str
) -> None:
    for pattern in _COPIED if source.is_dir() else ():
        for file in source.glob(pattern):
            if file.is_file() and not any(file.match(name) for name in _NOT_COPIED):
                shutil.copyfile(file, folder / file.name)
    model.save_pretrained(folder, state_dict=stored)
    if stored is not None:
        path = folder / "config.json"
        values = json.loads(path.read_text(encoding="utf-8"))
        values["dtype"] = dtype
        path.write_text(json.dumps(values, indent=2) + "\n", encoding="utf-8")
    with (folder / _CARD).open("a", encoding="utf-8") as stream:
        stream.write(card)


def _card(network: Network, sites: tuple[SiteHeads, ...]) -> str:
    info = network.info
    return removed_heads_card(sites, made_from=f"{info.name} with AttnScope (weights SHA-256 {info.sha256})")


def _stored_dtype(source: Path) -> str | None:
    """The 16-bit type in which the model is stored on disk; None if it has 32 bits, or is unknown."""
    try:
        values = as_object(read_json(source / "config.json", has_infinity=True), what="its configuration")
    except LoadError:
        return None
    name = values.get("dtype") or values.get("torch_dtype")
    return name if name in _HALVES else None


def _exactly_as(model: Any, dtype: str | None) -> dict[str, Tensor] | None:
    """The weights in 16 bits if that is exact for every number, else None."""
    if dtype is None:
        return None
    wide = model.state_dict()
    # Tied weights must stay one tensor, or the library would write them twice.
    once = {tensor.data_ptr(): tensor.to(_HALVES[dtype]) for tensor in wide.values()}
    narrow = {name: once[tensor.data_ptr()] for name, tensor in wide.items()}
    is_exact = all(torch.equal(tensor.to(wide[name].dtype), wide[name]) for name, tensor in narrow.items())
    return narrow if is_exact else None


def _notes(sites: tuple[SiteHeads, ...], shape: PruneShape, *, is_wider: bool) -> tuple[str, ...]:
    notes = []
    n_zero = sum(site.n_zero for site in sites)
    n_gone = sum(site.n_before - len(site.heads) for site in sites)
    if shape == "same":
        notes.append("No tensor became smaller: removed heads are zeros.")
    elif n_gone <= 0:
        notes.append(
            "Nothing became smaller: this library needs the same number of heads in every layer, so those "
            "that are left take as much space as before."
        )
    elif n_zero:
        notes.append(f"Heads kept as zeros because this library needs them: {n_zero}.")
    if is_wider:
        notes.append(
            "Gates between 0 and 1 do not fit into 16 bits exactly: the weights are saved in 32 bits."
        )
    return tuple(notes)
