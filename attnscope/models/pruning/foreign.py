"""Removing heads from an open model of another library, by way of a folder on disk.

The smaller model is written to a temporary folder and opened again like any other, so that what is
proved is what was read back. Tokenizer and other small files are copied from the model's own folder.
"""

import json
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor, nn

from attnscope.errors import LoadError, UserError
from attnscope.models.inputs import Inputs
from attnscope.models.network import Network
from attnscope.models.pruning.huggingface import model_size, opens_in, prune_pretrained
from attnscope.models.pruning.removal import Removal, removal_name, removed_heads_card, weights_file_bytes
from attnscope.nn.attention import Probe
from attnscope.records.pruning import PruneShape, SiteHeads
from attnscope.records.sites import Gates
from attnscope.strict_json import as_object, read_json

_COPIED = ("*.json", "*.txt", "*.model", "*.spm", "README.md", "LICENSE*")
_NOT_COPIED = ("config.json", "manifest.json", "*.index.json")
_CARD = "README.md"
_HALVES = {"float16": torch.float16, "bfloat16": torch.bfloat16}

Reopen = Callable[[Path, str], Network]
"""The network of a folder, under a name."""


@runtime_checkable
class ForeignNetwork(Protocol):
    """A network that holds a model of the library transformers."""

    module: Any

    def say_all(self, case: Inputs | Tensor, probe: Probe | None = None) -> Tensor:
        """See `HuggingFaceNetwork`."""
        ...


def prune_foreign(network: Network, gates: Gates, shape: PruneShape, reopen: Reopen) -> Removal:
    """The smaller network, read back from a folder; raises UserError for families that are not supported."""
    if not isinstance(network, ForeignNetwork) or not isinstance(network.module, nn.Module):
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
    """The 16-bit type in which the model is kept on disk; None when it has 32 bits, or nobody knows."""
    try:
        values = as_object(read_json(source / "config.json"), what="its configuration")
    except LoadError:
        return None
    name = values.get("dtype") or values.get("torch_dtype")
    return name if name in _HALVES else None


def _exactly_as(model: Any, dtype: str | None) -> dict[str, Tensor] | None:
    """The weights in 16 bits if not one number changes by it, else None."""
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
            "Nothing became smaller: this library wants the same number of heads in every layer, and the "
            "heads that are left need as much room as before."
        )
    elif n_zero:
        notes.append(f"Heads of zeros that are left, since this library needs them there: {n_zero}.")
    if is_wider:
        notes.append(
            "Gates between 0 and 1 do not fit into 16 bits exactly: the weights are saved in 32 bits."
        )
    return tuple(notes)
