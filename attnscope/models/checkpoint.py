"""Model folders: reading one from anybody safely, and writing one in one step.

    config.json          {"format": 1, "name", "objective", "model": {…}, "training": {…}, "labels": […]}
                         with "format": 2 there is "base": {…}, too (models/differences.py)
    model.safetensors    the weights, or of them what differs from the base
    tokenizer.json       the tokenizer
    card.md              what the model is, for people
    state.safetensors    in a run's last checkpoints: what a resume needs (training/saving.py)
    manifest.json        size and SHA-256 of each of the above

Nothing in a model folder is ever run.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from attnscope.errors import LoadError, RecipeError
from attnscope.files import check_manifest, replace_folder, sha256_of
from attnscope.models.card import ModelCard, check_labels, check_objective
from attnscope.models.differences import NO_CHANGES, Base, LowRankChanges, put_together, take_apart
from attnscope.models.inputs import check_roles
from attnscope.models.machine import refuse_too_large
from attnscope.models.weights import WEIGHTS, fill_own
from attnscope.nn.building import unfilled_own
from attnscope.nn.config import ModelConfig
from attnscope.nn.own_module import OwnModule
from attnscope.outside import read_outside
from attnscope.strict_json import as_object, read_json
from attnscope.text.tokenizer import Tokenizer
from attnscope.trace.tensor_file import read_tensors, refuse_foreign, require_regular_file, write_tensors

FORMAT, FORMAT_OF_DIFFERENCE = 1, 2
CONFIG, TOKENIZER, CARD = "config.json", "tokenizer.json", "card.md"
STATE = "state.safetensors"
_KNOWN_KEYS = {"format", "name", "objective", "model", "training", "labels"}
_PICKLES = ("*.bin", "*.pt", "*.pth", "*.ckpt")
_MAX_CARD_BYTES = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedFolder:
    """Everything a model folder holds; `note` is what a person should know about it."""

    module: OwnModule
    tokenizer: Tokenizer
    card: ModelCard
    sha256: str
    note: str


def is_model_folder(folder: Path) -> bool:
    """Whether the folder looks like a model folder; what is in it may still be refused."""
    return (folder / CONFIG).exists() or (folder / WEIGHTS).exists()


def read_model_folder(folder: Path, *, has_weights: bool = True) -> LoadedFolder:
    """Read a model folder completely; raises one LoadError that says what is wrong with it.

    Without weights the module is on the device "meta", for those who get theirs from another process.
    """
    for name in (CONFIG, WEIGHTS, TOKENIZER):
        _require(folder, name)
    check_manifest(folder, leaving_out=frozenset({STATE}))  # the model is whole without it
    config, card, base, note = _read_config(folder)
    refuse_too_large(config, str(folder / CONFIG))
    tokenizer = Tokenizer.load(folder)
    check_roles(tokenizer, config.form)
    _check_sizes(config, tokenizer, folder)
    if has_weights:
        file = read_tensors(folder / WEIGHTS)
        stored_as = str(card.training.get("stored_as", ""))
        tensors = file.tensors
        if base is not None:
            tensors = put_together(base, tensors, unfilled_own(config).state_dict(), folder)
        module, weights_note = fill_own(config, tensors, folder / WEIGHTS, stored_as=stored_as)
        sha256 = file.sha256()
    else:
        module, weights_note, sha256 = unfilled_own(config), "", sha256_of(folder / WEIGHTS)
    return LoadedFolder(
        module=module,
        tokenizer=tokenizer,
        card=card,
        sha256=sha256,
        note=" ".join(filter(None, (note, weights_note, _empty_note(config)))),
    )


def read_model_config(folder: Path) -> tuple[ModelConfig, ModelCard]:
    """What a model folder says of its model, without its weights and tokenizer; raises LoadError."""
    for name in (CONFIG, WEIGHTS, TOKENIZER):
        _require(folder, name)
    config, card, *_ = _read_config(folder)
    return config, card


def write_model_folder(
    folder: Path,
    module: OwnModule,
    config: ModelConfig,
    tokenizer: Tokenizer,
    card: ModelCard,
    *,
    dtype: torch.dtype = torch.float32,
    base: str = "",
    changes: LowRankChanges = NO_CHANGES,
) -> str:
    """Write a model folder in one step and return the SHA-256 of its weights, which are rounded to `dtype`.

    With `base`, the name of a model that comes with the program, only what differs from it is written: a
    matrix as its low-rank change where `changes` has that. Raises SaveError; an older folder is then
    untouched.
    """
    digests: list[str] = []

    def fill(temporary: Path) -> None:
        fill_model_folder(temporary, module, config, tokenizer, card, dtype=dtype, base=base, changes=changes)
        digests.append(sha256_of(temporary / WEIGHTS))

    replace_folder(folder, fill)
    return digests[0]


def fill_model_folder(
    folder: Path,
    module: OwnModule,
    config: ModelConfig,
    tokenizer: Tokenizer,
    card: ModelCard,
    *,
    dtype: torch.dtype = torch.float32,
    base: str = "",
    changes: LowRankChanges = NO_CHANGES,
) -> None:
    """Write the files of a model folder, but for the manifest, into an empty folder.

    `base` and `changes` as in `write_model_folder`.
    """
    weights = {name: weight.to(dtype) for name, weight in module.state_dict().items()}
    described: dict[str, object] = {
        "format": FORMAT_OF_DIFFERENCE if base else FORMAT,
        "name": card.name,
        "objective": card.objective,
        "model": config.to_dict(),
        "training": dict(card.training),
    }
    if card.labels:
        described["labels"] = list(card.labels)
    if base:
        difference, weights = take_apart(base, weights, changes)
        described["base"] = difference.to_dict()
    text = json.dumps(described, indent=1, allow_nan=False, ensure_ascii=False)
    write_tensors(folder / WEIGHTS, weights, {"format": "pt"})
    (folder / CONFIG).write_text(text + "\n", encoding="utf-8")
    (folder / CARD).write_text(card.text, encoding="utf-8", errors="replace")
    tokenizer.save(folder)


def _require(folder: Path, name: str) -> None:
    path = folder / name
    if path.exists() or path.is_symlink():
        require_regular_file(path)
        return
    if name == WEIGHTS:
        for pattern in _PICKLES:
            for other in sorted(folder.glob(pattern)):
                require_regular_file(other)
                refuse_foreign(other)
    raise LoadError(
        f"{folder} has no {name}.",
        kind="missing",
        expected=f"a model folder with {CONFIG}, {WEIGHTS} and {TOKENIZER}",
        action="Choose the folder in which the model was saved.",
    )


def _read_config(folder: Path) -> tuple[ModelConfig, ModelCard, Base | None, str]:
    path = folder / CONFIG
    values = as_object(read_json(path), what=str(path))
    if "format" not in values:
        raise LoadError(
            f"{path} is not a configuration of AttnScope.",
            kind="foreign",
            expected=f'"format": {FORMAT} and "model"',
            action="Open a folder that AttnScope saved.",
        )
    found = values["format"]
    if isinstance(found, bool) or found not in (FORMAT, FORMAT_OF_DIFFERENCE):
        raise LoadError(
            f"{path} has the format {str(found)[:20]}.",
            kind="newer",
            expected=f"{FORMAT} or {FORMAT_OF_DIFFERENCE}",
            action="Open it with the version of AttnScope that saved it.",
        )
    config = _model_config(as_object(values.get("model"), what=f"{path}, model", kind="config"), path)
    training = as_object(values.get("training", {}), what=f"{path}, training", kind="config")
    card = ModelCard(
        name=str(values.get("name") or folder.name)[:80],
        objective=check_objective(values.get("objective"), config.form, str(path), n_labels=config.n_labels),
        training=training,
        text=_read_card(folder),
        labels=check_labels(values.get("labels", []), config.n_labels, str(path)),
    )
    base = Base.of(values.get("base"), str(path)) if found == FORMAT_OF_DIFFERENCE else None
    ignored = sorted(set(values) - _KNOWN_KEYS - ({"base"} if base else set()))
    note = f"Ignored in config.json: {', '.join(ignored)[:200]}." if ignored else ""
    return config, card, base, note


def _model_config(values: dict[str, Any], path: Path) -> ModelConfig:
    if values.get("mask") == "bigbird":
        values = {"random_links": "both", **values}  # before version 0.8 there was no other
    try:
        return ModelConfig.from_dict(values, where="model")
    except RecipeError as error:
        raise LoadError(
            f"{path}: {error.happened}",
            kind="config",
            expected=error.expected,
            action="Restore config.json from a copy.",
        ) from error


def _empty_note(config: ModelConfig) -> str:
    names = [f"{stack} L{layer}" for stack, layer in config.sites_without_heads()]
    return f"No heads are left, so there is nothing to see, in: {', '.join(names)[:200]}." if names else ""


def _read_card(folder: Path) -> str:
    try:
        data = read_outside(folder / CARD, expected="a card", max_bytes=_MAX_CARD_BYTES)
    except LoadError:
        return ""
    return data.decode(errors="replace")


def _check_sizes(config: ModelConfig, tokenizer: Tokenizer, folder: Path) -> None:
    if tokenizer.vocab_size != config.vocab_size:
        raise LoadError(
            f"The tokenizer in {folder} has {tokenizer.vocab_size} pieces "
            f"but the model expects {config.vocab_size}.",
            kind="vocabulary",
            expected="the same number in both",
            action="Load the tokenizer saved next to the model.",
        )
