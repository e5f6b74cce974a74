"""A folder of the Hugging Face format read as a model of ours, to go on training from.

The model is built by our own code and computes the same as there; the outputs of pooler and next sentence
are left out, as is what stands for tokens that the tokenizer does not have.
"""

import re
from pathlib import Path
from typing import Any

from torch import Tensor

from attnscope.errors import LoadError, RecipeError
from attnscope.hub.here import folder_here
from attnscope.models.card import ModelCard
from attnscope.models.checkpoint import LoadedFolder
from attnscope.models.families import FAMILIES
from attnscope.models.families.ours import AdoptableFamily, LibraryConfig
from attnscope.models.huggingface.cache import find_huggingface
from attnscope.models.huggingface.config_checks import read_config
from attnscope.models.huggingface.facts import licence_of
from attnscope.models.huggingface.weight_files import read_weights, weight_paths
from attnscope.models.inputs import check_roles
from attnscope.models.memory import refuse_too_large
from attnscope.models.weights import fill_own
from attnscope.nn.building import unfilled_own
from attnscope.nn.config import ModelConfig
from attnscope.records.shelf import DOWNLOAD_PREFIX
from attnscope.schemes.objectives import usual_objective
from attnscope.text.tokenizer import Tokenizer
from attnscope.trace.tensor_file import read_shapes

_PER_TOKEN = ("tokens.weight", "head.bias", "head.weight")
"""Our tensors that have a row for each token."""
_OF_LAYER = re.compile(r"\.\d+\.")
_COMPUTED = (".attn.bias", ".attn.masked_bias", ".inv_freq")
"""What files hold of each layer that is no weight."""
_OLDER = {".gamma": ".weight", ".beta": ".bias"}
"""How norms were named at first."""


def foreign_folder(source: str) -> Path | None:
    """The folder of the Hugging Face model that `source` means; None when it means something else.

    Nothing is downloaded: raises LoadError for `hf:NAME` that is not in the local cache.
    """
    if source.startswith(DOWNLOAD_PREFIX):
        name = source.removeprefix(DOWNLOAD_PREFIX).strip()
        here = folder_here(name)
        if here is None:
            raise LoadError(
                f"{name[:80]} is not on this computer.",
                kind="missing",
                expected="a model that was opened before",
                action=f"Run attnscope get {name[:100]}, which downloads it, then train.",
            )
        return here
    found = find_huggingface(source)
    return None if found is None else found.folder


def adopted_config(folder: Path) -> ModelConfig:
    """The configuration that the model of a folder has as one of ours, without its weights.

    Raises LoadError for a model that ours cannot be.
    """
    family = _family(folder)
    shapes = {n: t for path in weight_paths(folder) for n, t in read_shapes(path).tensors.items()}
    return _config(folder, family, _own_names(shapes, family), Tokenizer.load(folder))


def adopt(folder: Path, *, has_weights: bool = True) -> LoadedFolder:
    """The model of a folder as one of ours, in float32 on the CPU; raises LoadError.

    Without weights the module is on the device "meta".
    """
    family, tokenizer = _family(folder), Tokenizer.load(folder)
    weights = read_weights(folder, weight_paths(folder))
    source = _own_names(dict(weights.tensors), family)
    config = _config(folder, family, source, tokenizer)
    check_roles(tokenizer, config.form)
    refuse_too_large(config, str(folder))
    if has_weights:
        module, note = fill_own(config, _state(folder, family, source, config), folder)
    else:
        module, note = unfilled_own(config), ""
    name = folder.resolve().name
    licence = licence_of(folder)
    text = f"Imported from {name}, a model of the Hugging Face format"
    return LoadedFolder(
        module=module,
        tokenizer=tokenizer,
        card=ModelCard(
            name=name[:80],
            objective=usual_objective(config.form),
            text=f"{text}{f' ({licence})' if licence else ''}.\n",
        ),
        sha256=weights.sha256(),
        note=note,
    )


class _Noting(dict[str, Tensor]):
    """Tensors that remember which of them were asked for."""

    def __init__(self, tensors: dict[str, Tensor]) -> None:
        super().__init__(tensors)
        self.read: set[str] = set()

    def __getitem__(self, name: str) -> Tensor:
        self.read.add(name)
        return super().__getitem__(name)


def _family(folder: Path) -> AdoptableFamily:
    kind = read_config(folder).model_type
    known = {name: family for name, family in FAMILIES.items() if isinstance(family, AdoptableFamily)}
    if kind not in known:
        raise LoadError(
            f"The model of {folder} is of the type {kind[:40]!r}, which cannot be trained further.",
            kind="architecture",
            expected="one of " + ", ".join(known),
            action="Open it to look at it, or start from another model.",
        )
    return known[kind]


def _own_names(tensors: dict[str, Tensor], family: AdoptableFamily) -> dict[str, Tensor]:
    """The tensors without the name of the body before theirs, and with the present names of norms."""
    found = {}
    for name, tensor in tensors.items():
        for old, new in _OLDER.items():
            name = name.removesuffix(old) + new if name.endswith(old) else name
        found[name.removeprefix(family.prefix)] = tensor
    return found


def _config(
    folder: Path, family: AdoptableFamily, source: dict[str, Tensor], tokenizer: Tokenizer
) -> ModelConfig:
    choices = LibraryConfig(read_config(folder).values, family.defaults, str(folder))
    keys: dict[str, Any] = family.config(choices, source)
    try:
        config = ModelConfig(vocab_size=tokenizer.vocab_size, **keys)
        config.check()
    except RecipeError as error:
        raise choices.refused(error.happened.rstrip("."), error.expected) from error
    return config


def _state(
    folder: Path, family: AdoptableFamily, source: dict[str, Tensor], config: ModelConfig
) -> dict[str, Tensor]:
    noting = _Noting(source)
    try:
        state = family.state(noting, config)
    except KeyError as error:
        raise LoadError(
            f"The weights in {folder} lack the tensor {str(error.args[0])[:80]!r}.",
            kind="keys",
            expected="every tensor of the model that config.json names",
            action="Download the model again.",
        ) from error
    unread = [n for n in source if _OF_LAYER.search(n) and n not in noting.read and not n.endswith(_COMPUTED)]
    if unread:
        raise LoadError(
            f"The weights in {folder} hold layers that its config.json does not name, "
            f"for instance {unread[0][:80]!r}.",
            kind="keys",
            expected=f"{config.n_layers} layers",
            action="Restore config.json from its origin.",
        )
    n_rows = len(state["tokens.weight"])
    if n_rows < config.vocab_size:
        raise LoadError(
            f"The tokenizer in {folder} has {config.vocab_size} pieces but the embedding {n_rows} rows.",
            kind="vocabulary",
            expected="a row for every piece",
            action="Restore the tokenizer from the model's origin.",
        )
    return {n: t[: config.vocab_size] if n in _PER_TOKEN else t for n, t in state.items()}
