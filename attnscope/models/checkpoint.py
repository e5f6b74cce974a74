"""Model folders: reading any of them safely, and writing one in one step.

    config.json          {"format": 1, "name", "objective", "model": {…}, "training": {…}, "labels": […]}
                         with "format": 2 there is "base": {…}, too (models/checkpoint.py)
    model.safetensors    the weights, or of them what differs from the base
    tokenizer.json       the tokenizer
    card.md              what the model is, for people
    state.safetensors    in a run's last checkpoints: what a resume needs (training/saving.py)
    manifest.json        size and SHA-256 of each of the above

Nothing in a model folder is ever run.

Every tensor of a file must fit its place in the model, and nothing is cast in silence.

What a model folder says about its model besides the weights.

Heads that a model's training left closed are named in its config.json, and off when it is opened:

    "training": {…, "closed_heads": ["encoder L0H1", "cross L2H3"]}

The weights of such heads are still there; pruning removes them for good (`models/pruning`).

Model folders that hold only what differs from a model that comes with the program.

config.json         "base": {"name": "stories", "sha256": "…", "scale": 4.0, "whole_sha256": "…"}
model.safetensors   NAME                            stands in the place of the base's tensor, or is one more
                    NAME.low_rank_a, .low_rank_b    what makes W + s · B A of the base's W (Hu et al. 2021,
                                                    section 4.1)

| symbol | meaning                                             | shape         |
|--------|-----------------------------------------------------|---------------|
| W      | a matrix of the base                                | [n_out, n_in] |
| A      | what a low-rank change reads                        | [rank, n_in]  |
| B      | what it writes                                      | [n_out, rank] |
| s      | `scale`, α / r there                                | number        |

`sha256` is of the base's weights file, `whole_sha256` of all tensors as they were before they were taken
apart: a model that is opened is that one, bit for bit, or it is refused.
"""

import hashlib
import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from attnscope.counting import few_listed, plural
from attnscope.errors import LoadError, RecipeError
from attnscope.files import check_manifest, replace_folder, sha256_of
from attnscope.models.inputs import check_roles
from attnscope.nn import ModelConfig, empty_own, refuse_too_large
from attnscope.nn.building import unfilled_own
from attnscope.nn.own_module import OwnModule
from attnscope.outside import as_object, read_json, read_outside
from attnscope.paths import resources_folder
from attnscope.records.models import Form
from attnscope.records.sites import NO_GATES, Gates, HeadRef, Site
from attnscope.schemes.objectives import OBJECTIVES, usual_objective
from attnscope.text.tokenizer import Tokenizer
from attnscope.trace.tensor_file import read_tensors, refuse_foreign, require_regular_file, write_tensors

WEIGHTS = "model.safetensors"
MAX_ROWS = 12
_EMBEDDING = "tokens.weight"


def fill_own(
    config: ModelConfig, tensors: Mapping[str, Tensor], where: Path, *, stored_as: str = ""
) -> tuple[OwnModule, str]:
    """A model with these weights in float32 on the CPU, and a note on anything unusual about them.

    `stored_as` is how the folder itself says that they are stored, which is nothing odd. Raises LoadError
    with a table when the tensors are not those of `config`.
    """
    expected = {name: tuple(tensor.shape) for name, tensor in unfilled_own(config).state_dict().items()}
    _check_vocabulary(config, tensors, where)
    _check_shapes(expected, tensors, where)
    refuse_whole_numbers(tensors, where, action="Save the model in float32; converting would change it.")
    module = empty_own(config)
    with torch.no_grad():
        parameters = dict(module.named_parameters())
        for name, own in module.state_dict().items():
            if name in parameters and _can_be_kept(tensors[name]):
                parameters[name].data = tensors[name]
            else:
                own.copy_(tensors[name])
    module.eval()
    notes = (cast_note(tensors, stored_as), finite_note(module.state_dict()))
    return module, " ".join(filter(None, notes))


def _can_be_kept(tensor: Tensor) -> bool:
    """Whether a tensor can be used as a weight directly: it has memory of its own and the right type."""
    is_alone = tensor.untyped_storage().nbytes() == tensor.nbytes
    return tensor.dtype == torch.float32 and tensor.is_contiguous() and is_alone


def _check_vocabulary(config: ModelConfig, tensors: Mapping[str, Tensor], where: Path) -> None:
    embedding = tensors.get(_EMBEDDING)
    if embedding is None or embedding.ndim != 2 or embedding.shape[0] == config.vocab_size:
        return
    raise LoadError(
        f"The embedding in {where} has {embedding.shape[0]} rows "
        f"but config.json names {config.vocab_size} pieces.",
        kind="vocabulary",
        expected="the same number in both",
        action="Restore the model folder from a copy.",
    )


def _check_shapes(expected: dict[str, tuple[int, ...]], tensors: Mapping[str, Tensor], where: Path) -> None:
    rows = [f"missing     {name} {list(shape)}" for name, shape in expected.items() if name not in tensors]
    rows += [f"unexpected  {name} {list(t.shape)}" for name, t in tensors.items() if name not in expected]
    rows += [
        f"wrong size  {name} {list(tensors[name].shape)}, expected {list(shape)}"
        for name, shape in expected.items()
        if name in tensors and tuple(tensors[name].shape) != shape
    ]
    if not rows:
        return
    shown = rows[:MAX_ROWS]
    if len(rows) > MAX_ROWS:
        shown.append(f"and {len(rows) - MAX_ROWS} more")
    raise other_weights(shown, where, expected=f"exactly {len(expected)} tensors of the right sizes")


def other_weights(rows: Sequence[str], where: Path, *, expected: str) -> LoadError:
    """Message for weights that do not fit the model, with a table of the differences."""
    table = ";\n  ".join(rows)
    return LoadError(
        f"The weights in {where} are not those of the model that config.json describes:\n  {table}.",
        kind="keys",
        expected=expected,
        action="Open the folder in which the model was saved; nothing was loaded.",
    )


def refuse_whole_numbers(tensors: Mapping[str, Tensor], where: Path, *, action: str) -> None:
    """Raise LoadError for integer or complex numbers: as weights they would be converted."""
    wrong = [f"{name} is {_type(t)}" for name, t in tensors.items() if not t.is_floating_point()]
    if wrong:
        raise LoadError(
            f"The weights in {where} are not floating-point numbers: {', '.join(wrong[:MAX_ROWS])}.",
            kind="dtype",
            expected="float32, float16 or bfloat16",
            action=action,
        )


def cast_note(tensors: Mapping[str, Tensor], stored_as: str = "") -> str:
    """Note for the user on weights stored in another type than the one used in computation."""
    types = {_type(t) for t in tensors.values() if t.is_floating_point()} - {"float32", stored_as}
    return f"Weights in {' and '.join(sorted(types))} are converted to float32." if types else ""


def finite_note(weights: Mapping[str, Tensor]) -> str:
    """Note for the user on weights that are NaN or infinite; empty if there are none."""
    # A sum is not finite when any of its parts is not, and is ten times quicker to look at.
    suspects = [name for name, tensor in weights.items() if not torch.isfinite(tensor.sum())]
    bad = [name for name in suspects if not torch.isfinite(weights[name]).all()]
    if not bad:
        return ""
    return (
        f"Some weights are not finite numbers: {few_listed(bad, 3)}. "
        "Maps affected by them are grey, and the model's output cannot be trusted."
    )


def _type(tensor: Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelCard:
    """The model's name, its task, its training, and its card in Markdown.

    `training` holds whatever the recipe's author wants to remember, as JSON can hold it; the key
    `task` names the sample sentences to offer. `labels` are the answers of a model that tells labels, in the
    order of its outputs.
    """

    name: str
    objective: str
    training: Mapping[str, object] = field(default_factory=dict)
    text: str = ""
    labels: tuple[str, ...] = ()


def check_objective(value: object, form: Form, where: str, *, n_labels: int = 0) -> str:
    """`value` if it is an objective for a model of this form; raises LoadError."""
    known = OBJECTIVES.get(value) if isinstance(value, str) else None
    if known is not None and form in known.forms and (n_labels or not known.labels):
        return known.name
    raise LoadError(
        f"{where} names the objective {str(value)[:40]!r} for a model of the form {form}.",
        kind="config",
        expected=f"'{usual_objective(form)}'",
        action="Restore config.json from a copy.",
    )


def check_labels(value: object, n_labels: int, where: str) -> tuple[str, ...]:
    """The names of a model's labels, unique and as many as its outputs; raises LoadError."""
    labels = value if isinstance(value, list) else []
    if len(labels) == n_labels == len(set(map(str, labels))) and all(isinstance(n, str) for n in labels):
        return tuple(labels)
    raise LoadError(
        f"{where} names {len(labels)} labels for a model with {n_labels}.",
        kind="config",
        expected=f"labels: a list of {n_labels} different texts" if n_labels else "no labels",
        action="Restore config.json from a copy.",
    )


CLOSED_HEADS = "closed_heads"
"""The key in what a card remembers of its model's training."""
_NAMED = re.compile(r"(encoder|decoder|cross|pool) L(\d{1,6})H(\d{1,6})")


def closed_names(heads: Iterable[HeadRef]) -> list[str]:
    """Heads as config.json names them."""
    return [f"{head.stack} {head.label}" for head in heads]


def closed_gates(training: Mapping[str, object], sites: tuple[Site, ...]) -> Gates:
    """The gates that a card asks for: 0 for each closed head; unknown names are skipped."""
    names = training.get(CLOSED_HEADS)
    if not isinstance(names, list | tuple) or not names:
        return NO_GATES
    wanted = {match[0] for match in map(_NAMED.fullmatch, map(str, names)) if match is not None}
    heads = [head for site in sites for head in site.heads]
    return Gates.of({head: 0.0 for head in heads if f"{head.stack} {head.label}" in wanted})


def closed_note(gates: Gates) -> str:
    """Note for the user on a model that is opened with such gates."""
    n = len(gates.values)
    return f"Its training closed {plural(n, 'head: it is', 'heads: they are')} off." if n else ""


def without_closed(training: Mapping[str, object]) -> dict[str, object]:
    """The metadata for a model from which heads were removed, without gates that no longer apply."""
    return {key: value for key, value in training.items() if key != CLOSED_HEADS}


_A, _B = ".low_rank_a", ".low_rank_b"
_MOST_RANK = 4096
"""As many as a recipe may ask for: each is added by itself, so a file of many takes minutes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Base:
    """A model folder's reference to the model that it differs from."""

    name: str
    sha256: str
    whole_sha256: str
    scale: float = 1.0

    @classmethod
    def of(cls, value: object, where: str) -> "Base":
        """Read it from config.json; raises LoadError."""
        values = as_object(value, what=f"{where}, base", kind="config")
        texts = [values.get(key) for key in ("name", "sha256", "whole_sha256")]
        scale = values.get("scale", 1.0)
        if (
            not all(isinstance(text, str) for text in texts)
            or not isinstance(scale, int | float)
            or not math.isfinite(scale)
        ):
            raise LoadError(
                f"{where} does not say which model its own is kept as a difference from.",
                kind="config",
                expected='"base" with "name", "sha256", "whole_sha256" and, as a number, "scale"',
                action="Restore config.json from a copy.",
            )
        name, sha256, whole_sha256 = map(str, texts)
        return cls(name=name, sha256=sha256, whole_sha256=whole_sha256, scale=float(scale))

    def to_dict(self) -> dict[str, object]:
        """As config.json holds it."""
        return {
            "name": self.name,
            "sha256": self.sha256,
            "scale": self.scale,
            "whole_sha256": self.whole_sha256,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class LowRankChanges:
    """A and B of each matrix that was changed so, by its name."""

    scale: float = 1.0
    factors: Mapping[str, tuple[Tensor, Tensor]] = field(default_factory=dict)


NO_CHANGES = LowRankChanges()
_NONE = torch.empty(0, 0)


def low_rank_sum(weight: Tensor, a: Tensor, b: Tensor, scale: float) -> Tensor:
    """W + s · B A, added in a fixed order, so that every computer gets the same bits."""
    change = torch.zeros_like(weight)
    for row, column in zip(a, b.T, strict=True):
        change += column[:, None] * row
    return weight + scale * change


def take_apart(
    name: str, weights: Mapping[str, Tensor], changes: LowRankChanges = NO_CHANGES
) -> tuple[Base, dict[str, Tensor]]:
    """The weights to store relative to the model `name`: the tensors that differ from its own.

    A matrix is kept as A and B where these give its very bits. Raises LoadError for a model that does not
    come with the program.
    """
    of_base, sha256 = _base_tensors(name, f"A model cannot be kept as a difference from {name!r}")
    kept: dict[str, Tensor] = {}
    for key, weight in weights.items():
        own, before = weight.detach().cpu().float(), of_base.get(key)
        if before is not None and _are_alike(before, own):
            continue
        a, b = (factor.detach().cpu() for factor in changes.factors.get(key, (_NONE, _NONE)))
        if before is not None and _are_alike(low_rank_sum(before, a, b, changes.scale), own):
            kept |= {key + _A: a, key + _B: b}
        else:
            kept[key] = own
    whole = _digest({key: weight.detach().cpu().float() for key, weight in weights.items()})
    return Base(name=name, sha256=sha256, scale=changes.scale, whole_sha256=whole), kept


def put_together(
    base: Base, kept: Mapping[str, Tensor], wanted: Iterable[str], folder: Path
) -> dict[str, Tensor]:
    """Undo `take_apart`; `wanted` are the names that the model's own tensors can have.

    Raises LoadError when the base is not here or another, or when the tensors are others.
    """
    refuse_whole_numbers(kept, folder / WEIGHTS, action="Restore the model folder from a copy.")
    of_base, sha256 = _base_tensors(
        base.name, f"The model in {folder} is kept as what differs from the model {base.name[:80]!r}"
    )
    if sha256 != base.sha256:
        raise LoadError(
            f"The model in {folder} is kept as what differs from the model {base.name}, which has changed: "
            f"its weights have the SHA-256 {sha256[:12]}….",
            kind="base",
            expected=f"{base.sha256[:12]}…",
            action="Open it with the version of AttnScope that saved it, or train it again.",
        )
    names = frozenset(wanted)
    tensors = {name: tensor for name, tensor in of_base.items() if name in names}
    tensors |= {name: tensor for name, tensor in kept.items() if not name.endswith((_A, _B))}
    for name in sorted({name.removesuffix(_A).removesuffix(_B) for name in kept if name.endswith((_A, _B))}):
        tensors[name] = _changed(name, of_base.get(name), kept, base.scale, folder)
    if tensors.keys() == names and _digest(tensors) != base.whole_sha256:
        raise LoadError(
            f"The weights in {folder / WEIGHTS}, put together with those of the model {base.name}, are not "
            "those that were saved.",
            kind="base",
            expected=f"SHA-256 {base.whole_sha256[:12]}… of all tensors",
            action="Restore the model folder from a copy.",
        )
    return tensors


def _changed(
    name: str, weight: Tensor | None, kept: Mapping[str, Tensor], scale: float, folder: Path
) -> Tensor:
    a, b = kept.get(name + _A), kept.get(name + _B)
    fits = (
        weight is not None
        and a is not None
        and b is not None
        and (a.ndim, b.ndim, weight.ndim) == (2, 2, 2)
        and (b.shape[0], a.shape[1]) == tuple(weight.shape)
        and a.shape[0] == b.shape[1] <= _MOST_RANK
    )
    if not fits or weight is None or a is None or b is None:
        sizes = [f"{what} {_size(tensor)}" for what, tensor in (("W", weight), ("A", a), ("B", b))]
        raise LoadError(
            f"The low-rank change of {name[:80]!r} in {folder / WEIGHTS} does not fit its matrix: "
            f"{', '.join(sizes)}.",
            kind="keys",
            expected="W [n_out, n_in] of the base, A [rank, n_in] and B [n_out, rank], "
            f"rank at most {_MOST_RANK:,}",
            action="Restore the model folder from a copy.",
        )
    return low_rank_sum(weight, a, b, scale)


def _size(tensor: Tensor | None) -> str:
    return "is missing" if tensor is None else f"is {list(tensor.shape)}"


def _base_tensors(name: str, what: str) -> tuple[dict[str, Tensor], str]:
    """The tensors of a bundled model, in float32, and the SHA-256 of its file."""
    folder = resources_folder() / "models"
    names = sorted(entry.name for entry in folder.iterdir()) if folder.is_dir() else []
    if name not in names:
        raise LoadError(
            f"{what}, which does not come with this program.",
            kind="base",
            expected=f"one of {', '.join(names) or 'none, since none is installed'}",
            action="Use an installation of AttnScope that has it.",
        )
    file = read_tensors(folder / name / WEIGHTS)
    return {key: tensor.float() for key, tensor in file.tensors.items()}, file.sha256()


def _are_alike(one: Tensor, other: Tensor) -> bool:
    """Whether two float32 tensors have the same bits, including −0 and NaN."""
    return torch.equal(one.contiguous().view(torch.int32), other.contiguous().view(torch.int32))


def _digest(tensors: Mapping[str, Tensor]) -> str:
    """The SHA-256 of tensors, with their names, types and sizes."""
    found = hashlib.sha256()
    for name, tensor in sorted(tensors.items()):
        found.update(f"{name} {tensor.dtype} {list(tensor.shape)}\n".encode())
        found.update(tensor.contiguous().reshape(-1).view(torch.uint8).numpy().data)
    return found.hexdigest()


FORMAT, FORMAT_OF_DIFFERENCE = 1, 2
CONFIG, TOKENIZER, CARD = "config.json", "tokenizer.json", "card.md"
STATE = "state.safetensors"
_KNOWN_KEYS = {"format", "name", "objective", "model", "training", "labels"}
_PICKLES = ("*.bin", "*.pt", "*.pth", "*.ckpt")
_MAX_CARD_BYTES = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedFolder:
    """The content of a model folder; `note` is for the user."""

    module: OwnModule
    tokenizer: Tokenizer
    card: ModelCard
    sha256: str
    note: str


def is_model_folder(folder: Path) -> bool:
    """Whether the folder looks like a model folder; its content may still be rejected."""
    return (folder / CONFIG).exists() or (folder / WEIGHTS).exists()


def read_model_folder(folder: Path, *, has_weights: bool = True) -> LoadedFolder:
    """Read a model folder completely; raises one LoadError that describes the fault.

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
    """Read a model's configuration without its weights and tokenizer; raises LoadError."""
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
    """Write the files of a model folder, except the manifest, into an empty folder.

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
