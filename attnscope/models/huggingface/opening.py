"""Opening a library model: every check first, then the weights, then checks on a tiny text.

Nothing of a model's folder is ever run, nothing is read from the network, and every fault is one LoadError.

The weights are one safetensors file or several shards, copied into memory. A pickle is named and refused; so
is a shard outside the folder.
"""

import hashlib
import importlib
import re
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from attnscope.counting import plural
from attnscope.errors import LoadError
from attnscope.kept_models import kept_model_at
from attnscope.models.checkpoint import MAX_ROWS, cast_note, finite_note, other_weights, refuse_whole_numbers
from attnscope.models.families import family_named
from attnscope.models.huggingface.config import (
    CLASSIFICATION,
    CheckedConfig,
    ModelTask,
    choose_task,
    column_labels,
    licence_of,
    most_tokens,
    naming_keys,
    read_config,
    read_special_ids,
    samples_of,
    tells_each,
)
from attnscope.models.huggingface.head import WatchedPass, has_detachable_head, watching_passes
from attnscope.models.huggingface.inputs import (
    PictureReader,
    Reader,
    SoundReader,
    TextReader,
    read_extractor,
    read_preparation,
    sizes_of,
    speaking_prefix,
)
from attnscope.models.huggingface.library import (
    collector_paused,
    contained_file,
    import_transformers,
    joined_threads,
    library_faults,
)
from attnscope.models.huggingface.network import Abilities, HuggingFaceNetwork, can_cache, takes_argument
from attnscope.models.huggingface.pruning import fitted_class
from attnscope.models.huggingface.site_map import Attached, attach
from attnscope.models.huggingface.tokenizer_files import HuggingFaceVocabulary, check_ids, read_vocabulary
from attnscope.nn import Call, QuietProbe, available_bytes, stoppable, tell
from attnscope.outside import as_object, read_json
from attnscope.records.models import ModelInfo
from attnscope.records.sites import SiteKey, labelled_head
from attnscope.text.tasks import known_words
from attnscope.trace.tensor_file import read_tensors, refuse_foreign, require_regular_file

WEIGHTS, INDEX = "model.safetensors", "model.safetensors.index.json"
_PICKLES = ("pytorch_model*.bin", "*.bin", "*.pt", "*.pth", "*.ckpt")
_OTHERS = ("*.h5", "*.msgpack", "*.gguf", "*.onnx")
_SHARD = re.compile(r"-(\d{1,6})-of-(\d{1,6})")
_MAX_SHARDS = 1_000
_INDEX_BYTES = 64_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Weights:
    """Every tensor by name, and the pending SHA-256 of the file (of several: of theirs in order)."""

    tensors: Mapping[str, Tensor]
    sha256: Callable[[], str]
    n_bytes: int


def weight_paths(folder: Path) -> list[Path]:
    """The weight files, in order; raises LoadError naming what is missing or unsafe."""
    single, index = folder / WEIGHTS, folder / INDEX
    if single.exists() or single.is_symlink():
        paths = [contained_file(folder, WEIGHTS)]
    elif index.exists() or index.is_symlink():
        paths = [contained_file(folder, name) for name in _shard_names(_read_index(folder), index)]
    else:
        raise _no_weights(folder)
    for number, path in enumerate(paths, start=1):
        if not path.exists():
            raise LoadError(
                f"Shard {number} of {len(paths)} is missing: {path.name}.",
                kind="missing",
                expected=f"all {len(paths)} files that {INDEX} names",
                action="Download the missing file into the folder.",
            )
        require_regular_file(path)
    return paths


def read_weights(folder: Path, paths: list[Path]) -> Weights:
    """Copy the weights into memory; raises LoadError."""
    n_bytes = sum(require_regular_file(path) for path in paths)
    if n_bytes > available_bytes():
        raise LoadError(
            f"The weights in {folder} take {n_bytes / 1e9:.1f} GB.",
            kind="too-large",
            expected=f"at most the {available_bytes() / 1e9:.1f} GB of free memory",
            action="Close other programs, or open a smaller model.",
        )
    tensors: dict[str, Tensor] = {}
    digests = []
    for path in paths:
        file = read_tensors(path)
        digests.append(file.sha256)
        for name, tensor in file.tensors.items():
            if name in tensors:
                raise _damaged(folder, f"two of its files hold the tensor {name[:80]!r}")
            tensors[name] = tensor
    if len(paths) > 1 or paths[0].name != WEIGHTS:
        _check_index(folder, tensors)
    return Weights(tensors=tensors, sha256=lambda: _joint([digest() for digest in digests]), n_bytes=n_bytes)


@contextmanager
def reading_weights(folder: Path, paths: list[Path]) -> Iterator[Callable[[], Weights]]:
    """Copy the weights into memory on a separate thread during the block, which needs none of them.

    The block gets them, or their LoadError, where it asks. If it ends before, the reading is given up.
    """
    is_over = threading.Event()

    def read() -> Weights:
        with stoppable(is_over.is_set):
            return read_weights(folder, paths)

    with ThreadPoolExecutor(1, "weights") as thread:
        try:
            yield thread.submit(read).result
        finally:
            is_over.set()


def _read_index(folder: Path) -> dict[str, str]:
    path = contained_file(folder, INDEX)
    content = as_object(read_json(path, max_bytes=_INDEX_BYTES), what=str(path))
    names = as_object(content.get("weight_map"), what=f"{path}, weight_map")
    if not names or not all(isinstance(name, str) for name in names.values()):
        raise _damaged(folder, f"{INDEX} names no files")
    return {tensor: str(name) for tensor, name in names.items()}


def _shard_names(index: Mapping[str, str], path: Path) -> list[str]:
    """The files of an index in order, with those implied only by their numbering."""
    names = sorted(set(index.values()))
    if len(names) > _MAX_SHARDS:
        raise _damaged(path.parent, f"{INDEX} names {len(names)} files")
    counts = {int(match[2]) for name in names if (match := _SHARD.search(name))}
    if len(counts) == 1 and (n := counts.pop()) > len(names) and n <= _MAX_SHARDS:
        first = next(name for name in names if _SHARD.search(name))
        width = len(_SHARD.search(first)[1])  # type: ignore[index]
        names = sorted(
            {*names, *(_SHARD.sub(f"-{i:0{width}}-of-{n:0{width}}", first) for i in range(1, n + 1))}
        )
    return names


def _check_index(folder: Path, tensors: Mapping[str, Tensor]) -> None:
    absent = [name for name in _read_index(folder) if name not in tensors]
    if absent:
        raise LoadError(
            f"{INDEX} in {folder} names {plural(len(absent), 'tensor')} that its files do not hold, "
            f"for instance {absent[0][:80]!r}.",
            kind="keys",
            expected="every tensor of the index in one of the files",
            action="Download the model again.",
        )


def _joint(digests: list[str]) -> str:
    return digests[0] if len(digests) == 1 else hashlib.sha256("".join(digests).encode()).hexdigest()


def _no_weights(folder: Path) -> LoadError:
    for pattern in _PICKLES:
        for path in sorted(folder.glob(pattern)):
            require_regular_file(path)
            refuse_foreign(path)
    others = [path.name for pattern in _OTHERS for path in sorted(folder.glob(pattern))]
    found = f"; {', '.join(others[:3])[:120]} cannot be read here" if others else ""
    return LoadError(
        f"{folder} has no {WEIGHTS}{found}.",
        kind="missing",
        expected=f"{WEIGHTS}, or {INDEX} with its shards",
        action="Save the model with save_pretrained, which writes safetensors.",
    )


def _damaged(folder: Path, reason: str) -> LoadError:
    return LoadError(
        f"The weights in {folder} are damaged: {reason}.",
        kind="damaged",
        expected="safetensors files with different tensors",
        action="Download the model again; nothing was opened.",
    )


# A model of the library made from a checked configuration and tensors that were read safely.

_SLACK = 10_000_000
_UNUSED = ("pooler.",)
"""Parts of a model whose output nothing here looks at: they may be missing."""
_ACTION = "Open a model that the installed transformers library can build."


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelOnPaper:
    """A model on paper: the library's class and configuration, and the shape of each parameter."""

    model_class: Any
    config: Any
    shapes: Mapping[str, tuple[int, ...]]
    n_parameters: int
    n_embedded: int | None


def plan_model(library: Any, checked: CheckedConfig, task: ModelTask, where: Path) -> ModelOnPaper:
    """Build a configuration's model without memory; raises LoadError if that is impossible."""
    name = checked.model_type
    with (
        library_faults(f"The configuration of {where} cannot be used", kind="config", action=_ACTION),
        naming_keys(checked.values, where),
    ):
        auto = importlib.import_module("transformers.models.auto.configuration_auto")
        config = auto.CONFIG_MAPPING[name].from_dict(dict(checked.values))
        if task.part:
            config = getattr(config, task.part)
        model_class = fitted_class(getattr(library, task.class_name), checked.values, str(where))
        safe = getattr(
            importlib.import_module("transformers.initialization"), "meta_device_safe_creation_ops", None
        )
        with torch.device("meta"), nullcontext() if safe is None else safe(), _refusing_overflow(where):
            empty = model_class(config)
        shapes = {name: tuple(p.shape) for name, p in empty.named_parameters(remove_duplicate=False)}
        n_parameters = sum(p.numel() for p in empty.parameters())
        n_embedded = _n_embedded(empty)
    return ModelOnPaper(
        model_class=model_class,
        config=config,
        shapes=shapes,
        n_parameters=n_parameters,
        n_embedded=n_embedded,
    )


@contextmanager
def _refusing_overflow(where: Path) -> Iterator[None]:
    """Turn an overflow into a LoadError: even on paper a tensor has fewer than 2^63 bytes."""
    try:
        yield
    except RuntimeError as error:
        if "overflow" not in str(error):
            raise
        raise LoadError(
            f"The model of {where} names more parameters than can be counted.",
            kind="too-large",
            expected="a model that fits this machine",
            action="Restore config.json from its origin.",
        ) from error


def refuse_beyond_memory(plan: ModelOnPaper, where: Path, n_free: int) -> None:
    """Raise LoadError if the model's weights in float32 do not fit into `n_free` bytes of memory."""
    n_bytes = 4 * plan.n_parameters
    if n_bytes > n_free:
        raise LoadError(
            f"The model of {where} has {plan.n_parameters:,} parameters and needs {n_bytes / 1e9:,.1f} GB.",
            kind="too-large",
            expected=f"at most the {n_free / 1e9:.1f} GB of free memory",
            action="Close other programs, or open a smaller model.",
        )


def fill_model(plan: ModelOnPaper, tensors: Mapping[str, Tensor], where: Path) -> tuple[Any, str]:
    """The model in float32 on the CPU, and a note on anything unusual about its weights.

    Raises LoadError with a table when the tensors are not those of the configuration.
    """
    _check_embedding(plan, tensors, where)
    _check_types(plan.shapes, tensors, where)
    _check_amount(plan, tensors, where)
    happened = f"The weights in {where} cannot be used"
    with library_faults(happened, kind="keys", action=_ACTION), joined_threads():
        model, report = plan.model_class.from_pretrained(
            None,
            config=plan.config,
            state_dict=dict(tensors),
            dtype=torch.float32,
            ignore_mismatched_sizes=True,
            local_files_only=True,
            output_loading_info=True,
        )
    _check_report(report, where, len(plan.shapes))
    model.eval().requires_grad_(False)
    weights_note = finite_note(dict(model.named_parameters()))
    return model, " ".join(filter(None, (cast_note(tensors), _unused_note(report), weights_note)))


def _n_embedded(empty: Any) -> int | None:
    try:
        rows = getattr(empty.get_input_embeddings(), "weight", None)
    except (AttributeError, NotImplementedError):
        return None
    return int(rows.shape[0]) if rows is not None and rows.ndim == 2 else None


def _check_embedding(plan: ModelOnPaper, tensors: Mapping[str, Tensor], where: Path) -> None:
    """A vocabulary of another size is the commonest mismatch, and has its own message."""
    for name, shape in plan.shapes.items():
        found = next((t for key in _spellings(name) if (t := tensors.get(key)) is not None), None)
        if len(shape) != 2 or found is None or found.ndim != 2 or shape[0] != plan.n_embedded:
            continue
        if found.shape[0] != shape[0] and found.shape[1] == shape[1]:
            raise LoadError(
                f"The embedding in {where} has {found.shape[0]} rows but config.json says {shape[0]}.",
                kind="vocabulary",
                expected="the same number in both",
                action="Restore the model folder from its origin.",
            )


def _check_amount(plan: ModelOnPaper, tensors: Mapping[str, Tensor], where: Path) -> None:
    """Limit the missing parameters of a file: the library allocates them before it reports them."""
    n_found = sum(tensor.numel() for tensor in tensors.values())
    if plan.n_parameters <= 2 * n_found + _SLACK:
        return
    rows = [
        f"wrong size  {name} {list(found.shape)}, expected {list(shape)}"
        for name, shape in plan.shapes.items()
        if (found := tensors.get(name)) is not None and tuple(found.shape) != shape
    ]
    table = "".join(f"\n  {row[:160]}" for row in rows[:MAX_ROWS])
    raise LoadError(
        f"The weights in {where} hold {n_found:,} numbers but config.json describes a model of "
        f"{plan.n_parameters:,}.{table}\n",
        kind="keys",
        expected="the weights of the model that config.json describes",
        action="Open the folder in which the model was saved; nothing was loaded.",
    )


def _check_types(expected: Iterable[str], tensors: Mapping[str, Tensor], where: Path) -> None:
    own = {key: tensors[key] for name in expected for key in _spellings(name) if key in tensors}
    refuse_whole_numbers(own, where, action="Open the model it was made from; converting would change it.")


def _spellings(name: str) -> tuple[str, ...]:
    """A parameter's name with and without the name of the inner model."""
    return (name, name.split(".", 1)[-1])


def _check_report(report: Mapping[str, Any], where: Path, n_expected: int) -> None:
    missing = sorted(name for name in report["missing_keys"] if not any(part in name for part in _UNUSED))
    rows = [f"missing     {name}" for name in missing]
    rows += [
        f"wrong size  {name} {list(found)}, expected {list(wanted)}"
        for name, found, wanted in sorted(report["mismatched_keys"], key=lambda row: str(row[0]))
    ]
    if not rows:
        return
    n_more = len(rows) - MAX_ROWS
    rows = rows[:MAX_ROWS] + [f"unexpected  {name}" for name in sorted(report["unexpected_keys"])[:4]]
    if n_more > 0:
        rows.append(f"and {n_more} more")
    raise other_weights(
        [row[:160] for row in rows], where, expected=f"{n_expected} tensors of the right sizes"
    )


def _unused_note(report: Mapping[str, Any]) -> str:
    names = sorted(report["unexpected_keys"])
    if not names:
        return ""
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return f"Tensors of the file that this model does not use: {', '.join(names[:3])[:200]}{more}."


class _LengthProbe(QuietProbe):
    """Notes the number of queries of each site for one input, and whether it is one input."""

    def __init__(self) -> None:
        self._sizes: set[tuple[int, int]] = set()

    def wants(self, site: SiteKey) -> bool:
        return True

    def record(self, site: SiteKey, call: Call, *, lse: Tensor, out: Tensor, is_training: bool) -> None:
        """Record the sizes only."""
        if site[0] == "encoder":
            self._sizes.add((call.q.shape[0], call.q.shape[2]))

    def only_length(self, name: str) -> int:
        """The number of tokens; raises LoadError if sites see only parts of the input."""
        if len(self._sizes) == 1 and next(iter(self._sizes))[0] == 1:
            return next(iter(self._sizes))[1]
        sizes = ", ".join(f"{n} × {length}" for n, length in sorted(self._sizes)) or "none"
        raise LoadError(
            f"{name} attends within parts of its input (parts × tokens: {sizes}).",
            kind="architecture",
            expected="attention from every token to every token, in every layer",
            action="Its maps cannot be laid side by side; open another model.",
        )


_EXAMPLE_IDS = 9
_EACH_LABEL = (
    "Each label is predicted by itself: its probability is the sigmoid of its logit. If the model was trained"
    " to give numbers (regression), that is no probability but the number on a scale of 0 to 1."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Opened:
    """Findings so far about a model being opened."""

    folder: Path
    name: str
    config: CheckedConfig
    task: ModelTask
    plan: ModelOnPaper
    model: Any
    seen: WatchedPass
    note: str
    weights_sha256: Callable[[], str]


def open_network(folder: Path, device: torch.device, *, name: str = "") -> HuggingFaceNetwork:
    """The network in a folder of the library's format; `name` is its display name.

    Raises LoadError, whatever is wrong with the folder.
    """
    config = read_config(folder)
    paths, n_free = weight_paths(folder), available_bytes()
    with reading_weights(folder, paths) as read:
        with collector_paused():
            library = import_transformers()
            lists = importlib.import_module("transformers.models.auto.modeling_auto")
            task = choose_task(lists, config)
            plan = plan_model(library, config, task, folder)
        refuse_beyond_memory(plan, folder, n_free)
        vocabulary = None if task.kind.reads == "picture" else read_vocabulary(folder, library)
        if vocabulary is not None and plan.n_embedded is not None:
            check_ids(vocabulary, plan.n_embedded, str(folder))
        tell("Reading the weights…")
        weights = read()
    model, weights_note = fill_model(plan, weights.tensors, folder)
    _move(model, device, plan)
    if task.kind == CLASSIFICATION and getattr(model.config, "pad_token_id", None) is None:
        model.config.pad_token_id = -1  # no token is one: two texts at once are always equally long
    happened = f"The model of {folder} cannot be opened"
    with library_faults(happened, kind="architecture", action="Open another model."):
        # A model that reads its source twice is entered below its head, where both may differ.
        is_twice = task.kind.is_pooled and task.form == "encoder-decoder"
        family_note = family_named(config.model_type).prepare(model)
        with watching_passes(model) as seen:
            attached = attach(model.base_model if is_twice else model)
        notes = (task.note, *config.notes, weights_note, attached.note, family_note)
        opened = _Opened(
            folder=folder,
            name=name or folder.resolve().name,
            config=config,
            task=task,
            plan=plan,
            model=model,
            seen=seen,
            note=" ".join(filter(None, notes)),
            weights_sha256=weights.sha256,
        )
        return _build_network(opened, attached, vocabulary, library)


def _build_network(
    opened: _Opened, attached: Attached, vocabulary: HuggingFaceVocabulary | None, library: Any
) -> HuggingFaceNetwork:
    """The network of an attached model, tried with a word unless it reads a file."""
    reader: Reader
    if vocabulary is None:
        reader = _picture_reader(opened, attached)
        opened = replace(opened, note=" ".join(filter(None, (opened.note, reader.note))))
    else:
        words = _text_reader(opened, vocabulary)
        is_speech = opened.task.kind.reads == "recording"
        reader = _sound_reader(opened, attached, words, library) if is_speech else words
    abilities = _find_abilities(opened, reader)
    network = HuggingFaceNetwork(
        opened.model, attached, opened.task, reader, abilities, _info(opened, attached, reader)
    )
    if isinstance(reader, TextReader) and not abilities.has_detachable_head:  # else it has read already
        inputs = network.encode("a b")
        network.run(inputs).logits(network.shown_positions(inputs))
    return network


def _move(model: Any, device: torch.device, plan: ModelOnPaper) -> None:
    try:
        model.to(device)
    except torch.OutOfMemoryError as error:
        raise LoadError(
            f"The model's {4 * plan.n_parameters / 1e9:.1f} GB do not fit the memory of {device}.",
            kind="too-large",
            expected="enough free memory on the device",
            action="Close other programs that use it, or open the model on the cpu.",
        ) from error


def _text_reader(opened: _Opened, vocabulary: HuggingFaceVocabulary) -> TextReader:
    values, model = opened.config.values, opened.model
    n_rows = opened.plan.n_embedded or vocabulary.size
    special = read_special_ids(values, opened.folder, n_rows)
    source, target = most_tokens(values, model)
    return TextReader(
        vocabulary,
        special,
        form=opened.task.form,
        max_tokens=source,
        max_target=target,
        has_segments=_has_segments(model, vocabulary),
        is_writing=opened.task.output_kind == "translation",
    )


def _has_segments(model: Any, vocabulary: HuggingFaceVocabulary) -> bool:
    """Whether the model uses its tokenizer's segment ids: RoBERTa has only one segment."""
    n_segments = getattr(model.config, "type_vocab_size", None)
    is_known = n_segments is None or vocabulary.template.second_segment < n_segments
    return is_known and takes_argument(model, "token_type_ids")


def _picture_reader(opened: _Opened, attached: Attached) -> PictureReader:
    config, model = opened.model.config, opened.model
    image_size = sizes_of(getattr(config, "image_size", None), 224)
    patch_size = sizes_of(getattr(config, "patch_size", None), 16)
    how = read_preparation(opened.folder, image_size)
    size = (1, getattr(config, "num_channels", 3), how.height, how.width)
    blank = torch.zeros(size, device=model.device)
    probe = _LengthProbe()
    with torch.no_grad(), attached.probing(probe):
        model(pixel_values=blank)
    return PictureReader(how, patch_size=patch_size, n_tokens=probe.only_length(type(model).__name__))


def _sound_reader(opened: _Opened, attached: Attached, words: TextReader, library: Any) -> SoundReader:
    model, extractor = opened.model, read_extractor(opened.folder, library, opened.model.config)
    probe = _LengthProbe()
    start = torch.zeros((1, 1), dtype=torch.int64, device=model.device)
    with torch.no_grad(), attached.probing(probe):
        model(**_silence(extractor, model), decoder_input_ids=start)
    words.special = replace(words.special, forced=speaking_prefix(words.vocabulary))
    return SoundReader(words, extractor, probe.only_length(type(model).__name__))


def _find_abilities(opened: _Opened, reader: Reader) -> Abilities:
    """Find a model's abilities by trying them on a few tokens."""
    model, task, values = opened.model, opened.task, opened.config.values
    labels: tuple[str, ...] = ()
    if task.output_kind == "class":
        labels = column_labels(values, int(getattr(model.config, "num_labels", 0)))
    words = reader.words if isinstance(reader, SoundReader) else reader
    if not isinstance(words, TextReader):
        return Abilities(labels=labels)
    n_ids = opened.plan.n_embedded or words.vocabulary.size
    ids = [(7 * place + 3) % n_ids for place in range(_EXAMPLE_IDS)]
    ids = [id for id in ids if id not in words.special.ends] or [0]
    source = None
    if task.form == "encoder-decoder":
        source = words.source_arguments(ids, model.device)
        if isinstance(reader, SoundReader):
            source = _silence(reader.extractor, model)
    return Abilities(
        labels=labels,
        has_segments=words.has_segments,
        has_detachable_head=task.has_output
        and not task.kind.is_pooled
        and has_detachable_head(model, opened.seen),
        try_cache=partial(can_cache, model, ids, source) if task.is_writing else None,
        ends=words.special.ends or _end_of(words),
        forced=words.special.forced,
        max_target=words.max_target,
    )


def _silence(extractor: Any, model: Any) -> dict[str, torch.Tensor]:
    shape = (1, extractor.feature_size, extractor.nb_max_frames)
    return {"input_features": torch.zeros(shape, dtype=torch.float32, device=model.device)}


def _end_of(reader: TextReader) -> frozenset[int]:
    return frozenset((reader.vocabulary.end_id,)) if reader.vocabulary.has("end") else frozenset()


def _info(opened: _Opened, attached: Attached, reader: Reader) -> ModelInfo:
    model, task = opened.model, opened.task
    values: Mapping[str, Any] = opened.config.values
    kept = kept_model_at(opened.folder)
    is_each = task.output_kind == "class" and tells_each(model.config)
    return ModelInfo(
        name=opened.name[:80],
        source=str(opened.folder),
        form=task.form,
        objective=task.kind.objective,
        n_parameters=sum(parameter.numel() for parameter in model.parameters()),
        max_tokens=reader.max_tokens,
        vocab_size=int(values.get("vocab_size") or opened.plan.n_embedded or 0),
        tokenizer=reader.vocabulary.kind,
        device=str(model.device),
        sha256=opened.weights_sha256(),
        sites=attached.sites,
        samples=kept.samples or samples_of(task, reader.vocabulary, values),
        note=" ".join(filter(None, (opened.note, _EACH_LABEL if is_each else ""))),
        architecture=f"{task.class_name} ({opened.config.model_type})",
        licence=licence_of(opened.folder),
        picture_px=reader.picture_px if isinstance(reader, PictureReader) else None,
        reads=task.kind.reads,
        reads_pairs=reader.reads_pairs,
        writes="transcript"
        if task.kind.reads == "recording"
        else "translation"
        if family_named(opened.config.model_type).is_translator
        else "written text",
        guided=labelled_head(kept.head, attached.sites),
        has_gates=attached.has_gates,
        tells_each=is_each,
        words=known_words(reader.vocabulary.entries, None) if isinstance(reader, TextReader) else ((), ()),
    )
