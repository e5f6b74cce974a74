"""Starting from a trained model: which one, whether it fits, and which parts begin anew.

the recipe's [start]    from = "grammar", a run folder, a model folder, or a model of the Hugging Face
                        format that ours can be (`models/adopting`)
taken over              tokenizer, every weight that both models have, heads that were removed
given up                segments, where the recipe says n_segments = 0: it then reads one text; the causal
                        mask, where a decoder goes on as an encoder (Gisserot-Boukhlef et al. 2025)
begun anew              positions of another scheme, the top layers that the recipe names, and outputs that
                        the model had no need of, such as those of labels (of another number of labels, too)
added                   layers on top, where the recipe asks for more: they add nothing yet, so that the run
                        begins with the very model it goes on from (Chen et al. 2016)

A folder of the Hugging Face format read as a model of ours, to go on training from.

The model is built by our own code and computes the same as there; the outputs of pooler and next sentence
are left out, as is what stands for tokens that the tokenizer does not have.
"""

import os
import re
from collections.abc import Collection, Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from attnscope.counting import plural
from attnscope.errors import LoadError, RecipeError
from attnscope.hub.shelf import folder_here
from attnscope.models import (
    CONFIG,
    LoadedFolder,
    ModelCard,
    checkpoint_folders,
    demo_models,
    fill_own,
    is_model_folder,
    read_source,
    read_source_config,
    source_folder,
)
from attnscope.models.families import FAMILIES
from attnscope.models.families.family import AdoptableFamily, LibraryConfig
from attnscope.models.huggingface.config import licence_of, read_config
from attnscope.models.huggingface.library import find_huggingface
from attnscope.models.huggingface.opening import read_weights, weight_paths
from attnscope.models.inputs import check_roles
from attnscope.nn import ModelConfig, build_own, refuse_too_large
from attnscope.nn.building import unfilled_own
from attnscope.nn.own_module import OwnModule
from attnscope.outside import as_object, read_json
from attnscope.records.models import DOWNLOAD_PREFIX, is_download
from attnscope.schemes.objectives import usual_objective
from attnscope.schemes.positions import POSITIONS
from attnscope.text.tokenizer import Tokenizer
from attnscope.trace.tensor_file import read_shapes
from attnscope.training.parts import Recipe, StartPart

_PER_TOKEN = ("tokens.weight", "head.bias", "head.weight")
"""Our tensors that have a row for each token."""
_OF_LAYER = re.compile(r"\.\d+\.")
_COMPUTED = (".attn.bias", ".attn.masked_bias", ".attention.bias", ".attention.masked_bias", ".inv_freq")
"""Entries of each layer in files that are not weights."""
_OLDER = {".gamma": ".weight", ".beta": ".bias"}
"""Former names of norms."""


def foreign_folder(source: str) -> Path | None:
    """The folder of the Hugging Face model that `source` refers to; None for anything else.

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
    """The configuration of a folder's model as one of ours, without its weights.

    Raises LoadError for a model that ours cannot be.
    """
    family = _family(folder)
    shapes = {n: t for path in weight_paths(folder) for n, t in read_shapes(path).tensors.items()}
    return _config(folder, family, _own_names(shapes, family), Tokenizer.load(folder))


def adopt(folder: Path, *, has_weights: bool = True) -> LoadedFolder:
    """The model of a folder converted to one of ours, in float32 on the CPU; raises LoadError.

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
    """Tensors that record which of them were requested."""

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
    """The tensors without the name of the body as prefix, and with the current names of norms."""
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


_FREE = frozenset({"vocab_size", "dropout", "attention_dropout", "kept_heads"})
"""Keys that may differ from the initial model: none of them is a weight."""
_ADDED = frozenset({"has_pooler", "has_next_sentence", "n_segments", "n_labels", "memory_tokens"})
"""Parts that a model may gain; their weights begin anew."""
_LAYERS = frozenset({"n_layers", "n_decoder_layers"})
_LAST_OF_BLOCK = re.compile(
    r"(encoder|decoder)\.(\d+)\.(?:attention\.output|cross\.output|feed_forward\.(?:experts\.\d+\.)?down)\."
)
"""What a block adds to the residual stream, it adds through these."""
_POSITIONS, _SEGMENTS = (f"encoder_embedding.{part}.weight" for part in ("positions", "segments"))
_OF_LABELS = frozenset({"pooling", "sentence_encoder", "reads_pair"})
"""Keys without effect in a model that predicted no labels."""


def anchored_path(path: str, folder: Path) -> str:
    """The full path of one relative to `folder`, or to the home folder if ~ begins it: no shell expands that
    after an equals sign.
    """
    return str((folder / os.path.expanduser(path)).absolute())


def anchored_source(source: str, folder: Path) -> str:
    """The name of a bundled model unchanged, a relative path from `folder` on."""
    is_name = not source or source in demo_models() or is_download(source)
    return source if is_name else anchored_path(source, folder)


def model_of_start(
    start: StartPart, table: Mapping[str, object], *, derived: tuple[str, ...]
) -> dict[str, object]:
    """A recipe's model section, completed by that of the initial model, if readable.

    The `derived` keys follow from the recipe and are not taken, nor what the model lacks and may get.
    """
    if not start.source:
        return dict(table)
    values = _config_values(start.source)
    taken = {k: v for k, v in values.items() if k not in derived and (v or k not in _ADDED)}
    return {**taken, **table}


def without_other_shape(
    table: Mapping[str, object], start: StartPart, given: Collection[str]
) -> dict[str, object]:
    """The model section of a recipe for new models, when the user has named an initial model: without the
    keys in which the initial model differs, except those that are `given` along with it or may differ.
    """
    theirs = _config_values(start.source)
    position = POSITIONS.get(str(theirs.get("position")))
    free = _FREE | _ADDED | _OF_LABELS | {*given}

    def may_stay(key: str, value: object) -> bool:
        before = theirs.get(key)
        if key == "max_tokens" and isinstance(value, int) and isinstance(before, int) and value < before:
            return position is not None and not position.learns_table
        return key in free or key not in theirs

    return {key: value for key, value in table.items() if may_stay(key, value)}


def read_start(recipe: Recipe, *, has_weights: bool = True) -> LoadedFolder:
    """The initial model of a recipe; raises LoadError, or RecipeError if it does not fit the recipe.

    Without weights its module is on the device "meta".
    """
    foreign = _foreign(recipe.start.source)
    if foreign is None:
        loaded, folder = read_source(recipe.start.source, has_weights=has_weights)
    else:
        loaded, folder = adopt(foreign, has_weights=has_weights), foreign
    _check_agrees(loaded.module.config, recipe.model, str(folder))
    return loaded


def recipe_on_paper(recipe: Recipe) -> Recipe:
    """The recipe with the properties of its initial model, its vocabulary and remaining heads.

    Raises what `read_start` raises, but reads no weights; a recipe without a start is given back.
    """
    if not recipe.start.source:
        return recipe
    foreign = _foreign(recipe.start.source)
    if foreign is None:
        config, folder = read_source_config(recipe.start.source)
    else:
        config, folder = adopted_config(foreign), foreign
    _check_agrees(config, recipe.model, str(folder))
    model = replace(recipe.model, vocab_size=config.vocab_size, kept_heads=config.kept_heads)
    return replace(recipe, model=model)


def _foreign(source: str) -> Path | None:
    """The folder of a model in the Hugging Face format; None for one of ours."""
    return foreign_folder(str(source_folder(source)))


@torch.no_grad()
def first_module(
    recipe: Recipe, config: ModelConfig, start: LoadedFolder | None, *, has_weights: bool = True
) -> OwnModule:
    """The module of a new run: weights from the seed, then the initial model's.

    `config` is the recipe's, fitted to the data. With the top layers the pooler begins anew too (Zhang et
    al. 2020, section 4). Without weights it is on the device "meta".
    """
    if start is not None:
        config = replace(config, kept_heads=start.module.config.kept_heads)
    config.check()
    if not has_weights:
        return unfilled_own(config)
    module = build_own(config, recipe.training.seed)
    if start is None:
        return module
    weights, fresh = _weights(start.module, config), _fresh_prefixes(config, recipe.start.reinit_layers)
    for name, parameter in module.state_dict().items():
        found = weights.get(name)
        if found is None and _is_last_of_added(name, start.module.config, config):
            parameter.zero_()
        elif found is not None and found.shape == parameter.shape and not name.startswith(fresh):
            parameter.copy_(found)
        elif found is None and name == "memory.weight":
            parameter.mul_(weights["tokens.weight"].std() / parameter.std())
        elif found is None and name == _POSITIONS:  # as large as the tokens they are added to, to be heard
            parameter.mul_(weights["tokens.weight"].std() / parameter.std())
    return module


def _weights(module: OwnModule, config: ModelConfig) -> dict[str, Tensor]:
    """The initial model's weights; if segments are dropped, each position adds the first one's row."""
    weights = dict(module.state_dict())
    if _is_of_both_sides(module.config, config):
        weights = {re.sub("^decoder", "encoder", name): weight for name, weight in weights.items()}
    if module.config.n_segments and not config.n_segments:
        weights[_POSITIONS] = weights[_POSITIONS] + weights[_SEGMENTS][0]
    return weights


def _is_of_both_sides(start: ModelConfig, wanted: ModelConfig) -> bool:
    """Whether a causal model continues with full attention: the same layers without their mask."""
    return (start.form, wanted.form) == ("decoder", "encoder") and not wanted.labels_texts


def _can_grow(start: ModelConfig, wanted: ModelConfig) -> bool:
    """Whether layers can be added on top that change nothing before training."""
    is_plain = start.has_sites and start.has_residual and start.norm_place == "pre"
    is_whole = not start.shared_layers and not start.kept_heads
    return is_plain and is_whole and all(now >= before for before, now in _layers(start, wanted))


def _layers(start: ModelConfig, wanted: ModelConfig) -> tuple[tuple[int, int], ...]:
    return (
        (start.encoder_layers, wanted.encoder_layers),
        (start.decoder_layers, wanted.decoder_layers),
    )


def _is_last_of_added(name: str, start: ModelConfig, wanted: ModelConfig) -> bool:
    found = _LAST_OF_BLOCK.match(name)
    if found is None or start.form != wanted.form:
        return False
    before = start.encoder_layers if found[1] == "encoder" else start.decoder_layers
    return int(found[2]) >= before


def start_note(recipe: Recipe, start: LoadedFolder | None) -> str:
    """Note on the model that a run starts from; empty if its weights are random."""
    if start is None:
        return ""
    n = recipe.start.reinit_layers
    anew = f", the top {plural(n, 'layer')} of each stack initialised again" if n else ""
    added = sum(now - before for before, now in _layers(start.module.config, recipe.model))
    grown = f", with {plural(added, 'layer')} more" if added > 0 else ""
    return f"Continues from {start.card.name}{anew}{grown}."


def start_facts(start: StartPart) -> dict[str, object]:
    """Start of a run for a model's card: its name, and the rank of low-rank changes; no path."""
    if not start.source:
        return {}
    path = Path(start.source)
    name = f"{path.parent.parent.name}, step {path.name}" if path.parent.name == "checkpoints" else path.name
    learned = {"lora_rank": start.lora_rank, "prompt_tokens": start.prompt_tokens}
    return {"from": name, **{key: n for key, n in learned.items() if n}}


def _fresh_prefixes(config: ModelConfig, n: int) -> tuple[str, ...]:
    if not n:
        return ()
    layers = {"encoder": config.encoder_layers, "decoder": config.decoder_layers}
    blocks = [
        f"{stack}.{layer}." for stack, total in layers.items() for layer in range(max(0, total - n), total)
    ]
    return (*blocks, "pooler.")


def _check_agrees(start: ModelConfig, wanted: ModelConfig, where: str) -> None:
    odd = []
    has_table = POSITIONS[start.position].learns_table
    for field in fields(ModelConfig):
        before, now = getattr(start, field.name), getattr(wanted, field.name)
        is_free = field.name in _FREE or (field.name == "max_tokens" and not has_table)
        is_added = not before if field.name in _ADDED else field.name in _OF_LABELS and not start.n_labels
        is_other_head = field.name == "n_labels" and bool(now)  # how many there are, only the data tell
        is_anew = field.name == "position" or (field.name == "form" and _is_of_both_sides(start, wanted))
        is_one_text = field.name == "n_segments" and not now and has_table
        is_grown = field.name in _LAYERS and start.form == wanted.form and _can_grow(start, wanted)
        is_fine = is_one_text or is_free or is_added or is_other_head or is_anew or is_grown
        if before != now and not is_fine:
            odd.append(f"{field.name} is {_shown(before)} there and {_shown(now)} in the recipe")
    if odd:
        raise RecipeError(
            f"The model in {where} is not the recipe's: {'; '.join(odd)}.",
            expected="the same architecture and form",
            action='Set model.form = "decoder" to let it predict labels.'
            if wanted.labels_texts and start.form == "decoder" and len(odd) == 1
            else "Leave these keys out of [model] to take the model's own, or choose another objective "
            "or another model to start from.",
        )


def _config_values(source: str) -> dict[str, object]:
    """The model section of an initial model's config.json; empty if unreadable (the run will say why)."""
    try:
        foreign = _foreign(source)
        if foreign is not None:
            return adopted_config(foreign).to_dict()
        folder = Path(source_folder(source))
        if not is_model_folder(folder) and (folder / "checkpoints").is_dir():
            folder = checkpoint_folders(folder)[-1][1]
        values = as_object(read_json(folder / CONFIG), what=source).get("model")
        return {k: v for k, v in as_object(values, what=source).items() if k in _NAMES}
    except (LoadError, OSError, ValueError, IndexError):
        return {}


_NAMES = frozenset(field.name for field in fields(ModelConfig))


def _shown(value: object) -> str:
    return "none" if value is None else f'"{value}"' if isinstance(value, str) else str(value).lower()
