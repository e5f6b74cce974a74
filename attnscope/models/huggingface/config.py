"""A foreign config.json: read strictly, stripped of code, and sized on paper.

The library's own configuration classes accept almost anything; what they would stumble over later (a
width of a billion, heads of zero, numbers as text) is refused here by name, before they see it.

Numbers about a model that its files give in many spellings: limits, special ids, labels, licence.

What a model of the library is for, from the class its config.json names; and what to try it on.

| task           | the library's list                        | output                                    |
|----------------|-------------------------------------------|-------------------------------------------|
| causal         | causal language models                    | the next token                            |
| masked         | masked language models, pretraining       | a token for each mask                     |
| translation    | sequence to sequence                      | a text, token by token                    |
| speech         | speech to text                            | a text, token by token                    |
| classification | sequence classification                   | one label for the text (or two sentences) |
| tagging        | token classification                      | one label for each token                  |
| image-class    | image classification                      | one label for the picture                 |
| image          | image encoders without a head             | nothing                                   |
| headless       | everything else that is a text model      | nothing                                   |
"""

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from attnscope.counting import plural
from attnscope.errors import LoadError
from attnscope.hub.shelf import CONFIG
from attnscope.models.families import family_named
from attnscope.models.huggingface.library import contained_file
from attnscope.models.network import TokensById
from attnscope.outside import as_object, read_json, read_outside
from attnscope.paths import resources_folder
from attnscope.records.models import Form, InputKind, Sample
from attnscope.records.outputs import WRITING, OutputKind
from attnscope.text.samples import samples_for

MAX_LAYERS = 1_024
MAX_COUNT = 100_000
"""Most labels, experts, blocks, …: the library makes an object of each."""
MAX_SIZE = 2**31 - 1
_ROUNDS = frozenset(
    "num_hashes lsh_num_chunks_before lsh_num_chunks_after local_num_chunks_before local_num_chunks_after "
    "block_sizes block_repeats".split()
)
"""How often Reformer and Funnel go over a text, or a chunk: as few as layers, or a pass takes hours."""
_CODE_KEYS = frozenset(
    "auto_map custom_pipelines trust_remote_code kernel_config use_kernels fusion_config distributed_config "
    "transformers_weights adapter_kwargs".split()
)
_QUIET_KEYS = frozenset(
    "_name_or_path name_or_path _commit_hash commit_hash return_dict use_return_dict torchscript "
    "output_attentions output_hidden_states".split()
)
"""Left out without a word: names, and what a caller decides."""
_LAYER_KEYS = frozenset(
    "num_hidden_layers n_layer n_layers num_layers num_decoder_layers encoder_layers decoder_layers "
    "num_encoder_layers".split()
)
_SIZE_KEYS = _LAYER_KEYS | frozenset(
    "hidden_size n_embd d_model dim embedding_size hidden_dim d_ff d_kv intermediate_size ffn_dim "
    "encoder_ffn_dim decoder_ffn_dim num_attention_heads n_head n_heads num_heads num_key_value_heads "
    "encoder_attention_heads decoder_attention_heads head_dim vocab_size max_position_embeddings "
    "n_positions n_ctx max_source_positions max_target_positions image_size patch_size num_channels "
    "projection_dim".split()
)
_WIDTHS = ("hidden_size", "n_embd", "d_model", "dim")
_HEADS = ("num_attention_heads", "n_head", "n_heads", "num_heads", "encoder_attention_heads")
_OWN_HEAD_WIDTH = ("head_dim", "d_kv", "kv_channels", "attention_head_size", "v_head_dim", "qk_nope_head_dim")
_DTYPES = frozenset({"float32", "float16", "bfloat16", "float64", None, "auto"})
_FLOAT, _FLOATS = "__float__", ("Infinity", "-Infinity", "NaN")
"""How the library writes numbers that JSON does not know (`_encode_special_floats`, transformers 5.23)."""
_ACTION = "Restore config.json from its origin."


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedConfig:
    """A configuration safe to pass to the library; `notes` say what was removed."""

    values: dict[str, Any]
    model_type: str
    architectures: tuple[str, ...]
    notes: tuple[str, ...] = ()


def read_config(folder: Path) -> CheckedConfig:
    """Read and check config.json; raises LoadError."""
    path = contained_file(folder, CONFIG)
    values = as_object(read_json(path, has_infinity=True), what=str(path), kind="config")
    return check_config(values, str(path))


def check_config(values: dict[str, Any], where: str) -> CheckedConfig:
    """The same, from a decoded configuration; `where` names it in errors."""
    dropped: set[str] = set()
    clean = _without_code(values, dropped)
    model_type = clean.get("model_type")
    if not isinstance(model_type, str) or not model_type:
        raise _refuse(where, "it names no model_type", expected="the name of an architecture, such as 'bert'")
    _refuse_quantized(clean, where)
    for part, name in _parts(clean, where):
        _check_sizes(part, name)
        _check_counts(part, name)
        _check_heads(part, name)
    named = clean.get("architectures")
    architectures = tuple(a for a in named if isinstance(a, str)) if isinstance(named, list) else ()
    notes: tuple[str, ...] = ()
    if told := sorted(dropped - _QUIET_KEYS):
        notes = (f"Left out of config.json, because it can run code: {', '.join(told)[:200]}.",)
    return CheckedConfig(values=clean, model_type=model_type, architectures=architectures, notes=notes)


def _without_code(value: Any, dropped: set[str]) -> Any:
    """A copy without keys that name code, kernels or files to fetch, at any depth."""
    if isinstance(value, list):
        return [_without_code(item, dropped) for item in value]
    if not isinstance(value, dict):
        return value
    if value.keys() == {_FLOAT} and value[_FLOAT] in _FLOATS:
        return float(value[_FLOAT])
    kept: dict[str, Any] = {}
    for key, item in value.items():
        names_code = key in _CODE_KEYS or "_implementation" in key or key.startswith("__")
        if names_code or key in _QUIET_KEYS:
            dropped.add(key[:60])
        elif key in ("dtype", "torch_dtype") and (not isinstance(item, str) or item not in _DTYPES):
            continue
        else:
            kept[key] = _without_code(item, dropped)
    return kept


def _refuse_quantized(values: dict[str, Any], where: str) -> None:
    quantization = values.get("quantization_config")
    if not quantization:
        return
    method = quantization.get("quant_method") if isinstance(quantization, dict) else None
    raise LoadError(
        f"The model of {where} is quantized ({str(method or 'unknown method')[:40]}).",
        kind="quantized",
        expected="weights in float32, float16 or bfloat16",
        action="Open the model it was made from.",
    )


def _parts(values: dict[str, Any], where: str) -> Iterator[tuple[dict[str, Any], str]]:
    """The configuration and every configuration inside it."""
    yield values, where
    for key, item in values.items():
        if key.endswith("_config") and item is not None and not isinstance(item, dict):
            raise _refuse(where, f"{key} is {str(item)[:40]!r}", expected="a configuration")
        if isinstance(item, dict) and (key.endswith("config") or key in ("encoder", "decoder", "generator")):
            yield from _parts(item, f"{where}, {key}")


def _check_sizes(values: dict[str, Any], where: str) -> None:
    for key in _SIZE_KEYS & values.keys():
        items = values[key] if isinstance(values[key], list) else [values[key]]
        most = MAX_LAYERS if key in _LAYER_KEYS else MAX_SIZE
        for item in items:
            if item is None:
                continue
            if isinstance(item, bool) or not isinstance(item, int) or not 1 <= item <= most:
                raise _refuse(
                    where, f"{key} is {str(item)[:40]!r}", expected=f"a whole number from 1 to {most}"
                )


def _check_counts(values: dict[str, Any], where: str) -> None:
    for key, value in values.items():
        is_count = key.startswith("num_") or any(word in key for word in ("depth", "expert", "layer"))
        if not is_count and key not in _ROUNDS:
            continue
        most = MAX_LAYERS if key in _ROUNDS else MAX_COUNT
        for item in _flat(value):
            if isinstance(item, int) and abs(item) > most:
                raise _refuse(where, f"{key} is {str(item)[:40]}", expected=f"at most {most}")


def _flat(value: Any) -> Iterator[Any]:
    if isinstance(value, list):
        for item in value:
            yield from _flat(item)
    else:
        yield value


def _check_heads(values: dict[str, Any], where: str) -> None:
    width = next((values[k] for k in _WIDTHS if isinstance(values.get(k), int)), None)
    n_heads = next((values[k] for k in _HEADS if isinstance(values.get(k), int)), None)
    n_kv_heads = values.get("num_key_value_heads")
    if n_heads is None:
        return
    if isinstance(n_kv_heads, int) and n_heads % n_kv_heads:
        raise _refuse(
            where,
            f"{plural(n_heads, 'head')} cannot share {plural(n_kv_heads, 'key/value head')}",
            expected="a divisor of the heads",
        )
    has_own_width = any(values.get(key) is not None for key in _OWN_HEAD_WIDTH)
    if width is not None and not has_own_width and width % n_heads:
        raise _refuse(
            where,
            f"a width of {width} cannot be shared by {plural(n_heads, 'head')}",
            expected="a multiple of the heads",
        )


_CHECKED = re.compile(r"Field '([^'[.]+).*?(?: expected (?:an? )?(.+?), got |any type in (.+?)\. Errors:)")
"""How the library says that a value is not of its type (`huggingface_hub.dataclasses`, 1.33)."""
_TYPE = re.compile(r"\b(int|float|str|bool|list|tuple|dict|NoneType)\b(?:\[[^\]]*\])?")
_TYPES = {
    "int": "a whole number",
    "float": "a number with a decimal point",
    "str": "a text",
    "bool": "true or false",
    "list": "a list",
    "tuple": "a list",
    "dict": "an object",
    "NoneType": "null",
}


@contextmanager
def naming_keys(values: dict[str, Any], folder: Path) -> Iterator[None]:
    """Name in words the value of a configuration that the library rejects, if it says so."""
    try:
        yield
    except Exception as error:
        refusal = _refusal_of(error, values, str(folder / CONFIG))
        if refusal is None:
            raise
        raise refusal from error


def _refusal_of(error: Exception, values: dict[str, Any], where: str) -> LoadError | None:
    told, checked = str(error), _CHECKED.search(str(error))
    parts = [(key, value, name) for part, name in _parts(values, where) for key, value in part.items()]
    if checked is not None:
        parts = [one for one in parts if one[0] == checked[1]]
        parts = [one for one in parts if repr(one[1]) in told] or parts
        expected = _type_words(checked[2] or checked[3])
    elif isinstance(error, KeyError):  # of a table of the library, such as that of activations
        parts = [one for one in parts if isinstance(one[1], str) and one[1] in error.args]
        expected = "a name that the installed transformers library knows"
    else:
        return None
    return next(
        (_refuse(name, f"{key} is {_found(value)}", expected=expected) for key, value, name in parts), None
    )


def _type_words(text: str) -> str:
    """Types in the library's notation, in words: `float`, or `<class 'int'>, <class 'NoneType'>`."""
    types = dict.fromkeys(_TYPE.findall(text))
    words = [_TYPES[one] for one in types]
    if {"int", "float"} <= types.keys():
        words = ["a number", *(_TYPES[one] for one in types if one not in ("int", "float"))]
    return " or ".join(dict.fromkeys(words)) or text[:200]


def _found(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 40 else f"{text[:39]}…"


def _refuse(where: str, reason: str, *, expected: str) -> LoadError:
    return LoadError(f"{where} cannot be used: {reason}.", kind="config", expected=expected, action=_ACTION)


UNLIMITED = 131_072
"""Most tokens read by a model whose positions know no limit (T5, ALiBi)."""
_LIMITS = (
    "max_position_embeddings",
    "n_positions",
    "max_sequence_length",
    "max_seq_len",
    "n_ctx",
    "seq_length",
)
_SOURCE_LIMITS = ("max_source_positions", "max_encoder_position_embeddings")
_TARGET_LIMITS = ("max_target_positions", "max_decoder_position_embeddings")
_GENERATION = "generation_config.json"
_PREPROCESSOR, _PROCESSOR = "preprocessor_config.json", "processor_config.json"
_BEGINS = ("decoder_start_token_id", "forced_bos_token_id")
_CARD = "README.md"
_MAX_CARD_BYTES = 1_000_000
_LICENCE = re.compile(r"^licen[sc]e:[ \t]*(.*?)[ \t]*$\n?(?:^[ \t]*-[ \t]*(\S.*?)[ \t]*$)?", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class SpecialIds:
    """Ids with which a model begins and ends its output."""

    start: int | None
    forced: tuple[int, ...]
    ends: frozenset[int]
    pad: int | None


def read_special_ids(values: Mapping[str, Any], folder: Path, n_rows: int) -> SpecialIds:
    """Special ids from config.json and generation_config.json; raises LoadError.

    Ids that a text begins with must lie below `n_rows`; an end beyond that can never be written.
    """
    merged = dict(values)
    if (folder / _GENERATION).exists():
        more = _read_object(folder, _GENERATION)
        merged.update((key, value) for key, value in more.items() if value is not None)

    def ids(key: str) -> tuple[int, ...]:
        found = merged.get(key)
        found = found if isinstance(found, list) else [found]
        kept = tuple(id for id in found if isinstance(id, int) and not isinstance(id, bool))
        wrong = [id for id in kept if not 0 <= id < n_rows]
        if wrong and key in _BEGINS:
            raise LoadError(
                f"{key} of {folder} is {wrong[0]} but the embedding has {n_rows} rows.",
                kind="vocabulary",
                expected=f"an id from 0 to {n_rows - 1}",
                action="Restore config.json from its origin.",
            )
        return tuple(id for id in kept if id not in wrong)

    start = ids("decoder_start_token_id") or ids("bos_token_id") or ids("pad_token_id")
    return SpecialIds(
        start=start[0] if start else None,
        forced=ids("forced_bos_token_id")[:1],
        ends=frozenset(ids("eos_token_id")),
        pad=next(iter(ids("pad_token_id")), None),
    )


def most_tokens(values: Mapping[str, Any], model: Any) -> tuple[int, int]:
    """Maximum numbers of source and target tokens; UNLIMITED if positions have no limit."""
    text = values.get("text_config") if isinstance(values.get("text_config"), dict) else values
    both = _first(text or values, _LIMITS)
    source = _first(values, _SOURCE_LIMITS) or both
    target = _first(values, _TARGET_LIMITS) or both
    seen = family_named(str(values.get("model_type", ""))).most_tokens(values)
    if seen is not None:
        source = min(source or seen, seen)
    table = _position_rows(model)
    if table is not None:
        source, target = min(source or table, table), min(target or table, table)
    return min(source or UNLIMITED, UNLIMITED), min(target or UNLIMITED, UNLIMITED)


def _first(values: Mapping[str, Any], keys: tuple[str, ...]) -> int | None:
    found = (values.get(key) for key in keys)
    return next((n for n in found if isinstance(n, int) and not isinstance(n, bool) and n > 0), None)


def _position_rows(model: Any) -> int | None:
    """Usable positions of a table that begins after its padding row (RoBERTa: 514 rows, 512 tokens)."""
    for name, module in model.named_modules():
        if name.endswith("position_embeddings") and getattr(module, "padding_idx", None) is not None:
            return int(module.weight.shape[0]) - int(module.padding_idx) - 1
    return None


def read_processor(folder: Path, *parts: str) -> tuple[Mapping[str, Any], Path]:
    """Saved settings of the first of some processor parts present, and the file; raises LoadError.

    A part in processor_config.json wins over preprocessor_config.json, as in the library, which writes the
    former alone since version 5. Without both files nothing was saved, and the path is the latter's.
    """
    joint, own = folder / _PROCESSOR, folder / _PREPROCESSOR
    if joint.exists():
        held = _read_object(folder, _PROCESSOR)
        for part in parts:
            if held.get(part) is not None:
                return as_object(held[part], what=f"{joint}, {part},", kind="config"), joint
    return (_read_object(folder, _PREPROCESSOR) if own.exists() else {}), own


def _read_object(folder: Path, name: str) -> dict[str, object]:
    values = read_json(contained_file(folder, name), has_infinity=True)
    return as_object(values, what=str(folder / name), kind="config")


def column_labels(values: Mapping[str, Any], n_labels: int) -> tuple[str, ...]:
    """A name for each column of a classifier; `label 3` if config.json has none."""
    named = values.get("id2label")
    found = named if isinstance(named, dict) else {}
    return tuple(str(found.get(str(i), "") or f"label {i}")[:80] for i in range(n_labels))


def tells_each(config: Any) -> bool:
    """Whether a classifier predicts each label separately: for several labels, numbers, or just one.

    The library trains such models without a softmax over their labels.
    """
    kind = getattr(config, "problem_type", None)
    return kind in ("multi_label_classification", "regression") or getattr(config, "num_labels", 0) == 1


def licence_of(folder: Path) -> str:
    """The licence in the front matter of README.md, as plain text; '' if there is none."""
    try:
        data = read_outside(contained_file(folder, _CARD), expected="a card", max_bytes=_MAX_CARD_BYTES)
    except LoadError:
        return ""
    text = data.decode("utf-8-sig", errors="replace")
    parts = text.split("\n---", 1)
    if not text.startswith("---") or len(parts) < 2:
        return ""
    match = _LICENCE.search(parts[0])
    if match is None:
        return ""
    named = (match[1] or match[2] or "").strip("'\"")
    return "".join(letter for letter in named if letter.isprintable())[:80]


@dataclass(frozen=True, slots=True, kw_only=True)
class LibraryTask:
    """A task, with what its models output and read, and our name for what they learned.

    `library_list` names the library's classes for it, `form` their form where it follows from the task;
    a pooled model has one answer for the whole input.
    """

    output: OutputKind
    objective: str
    library_list: str = ""
    form: Form | None = None
    is_pooled: bool = False
    reads: InputKind = "text"


_BASE, _PRETRAINING = "MODEL_MAPPING_NAMES", "MODEL_FOR_PRETRAINING_MAPPING_NAMES"
_MASKED, _TEXT_ENCODING = "MODEL_FOR_MASKED_LM_MAPPING_NAMES", "MODEL_FOR_TEXT_ENCODING_MAPPING_NAMES"
SPEECH = LibraryTask(
    output="translation",
    objective="translation",
    library_list="MODEL_FOR_SPEECH_SEQ_2_SEQ_MAPPING_NAMES",
    form="encoder-decoder",
    reads="recording",
)
TRANSLATION = replace(SPEECH, library_list="MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES", reads="text")
CAUSAL = LibraryTask(
    output="next-token",
    objective="causal",
    library_list="MODEL_FOR_CAUSAL_LM_MAPPING_NAMES",
    form="decoder",
)
MASKED = LibraryTask(output="masked-token", objective="masked", library_list=_MASKED, form="encoder")
CLASSIFICATION = LibraryTask(
    output="class",
    objective="classification",
    library_list="MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING_NAMES",
    is_pooled=True,
)
TAGGING = replace(
    CLASSIFICATION, library_list="MODEL_FOR_TOKEN_CLASSIFICATION_MAPPING_NAMES", is_pooled=False
)
IMAGE_CLASS = replace(
    CLASSIFICATION,
    library_list="MODEL_FOR_IMAGE_CLASSIFICATION_MAPPING_NAMES",
    form="encoder",
    reads="picture",
)
IMAGE = LibraryTask(output="nothing", objective="representations", form="encoder", reads="picture")
HEADLESS = LibraryTask(output="nothing", objective="representations")
_LISTED = (SPEECH, TRANSLATION, CAUSAL, MASKED, CLASSIFICATION, TAGGING, IMAGE_CLASS)
"""Tasks with a list, in the order in which a class is looked for."""
_PICTURE_AND_TEXT = ("MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES", "MODEL_FOR_MULTIMODAL_LM_MAPPING_NAMES")
_ONLY_HEARS = "reads audio but, unlike Whisper, does not transcribe it token by token"
_NOT_ALONE = "is a part of another model, or is put together of two, and has no plain class in the library"
_NO_HEAD = "It has no output head: its attention can be viewed, but it predicts nothing."


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelTask:
    """A model's task and the library's class for it; `note` is for the user.

    `part` names the part of the configuration (`vision_config`) when only that part is opened.
    """

    kind: LibraryTask
    class_name: str
    form: Form
    note: str = ""
    part: str = ""

    @property
    def output_kind(self) -> OutputKind:
        return self.kind.output

    @property
    def is_writing(self) -> bool:
        return self.output_kind in WRITING

    @property
    def has_output(self) -> bool:
        return self.output_kind != "nothing"


def choose_task(lists: Any, config: CheckedConfig) -> ModelTask:
    """The task of a checked configuration; `lists` is the library's `modeling_auto`.

    Raises LoadError for architectures the library does not have and for inputs that are not offered.
    """
    kind = config.model_type
    family = family_named(kind)
    if family.vision_class and "vision_config" in config.values:
        note = f"Only the vision half of {kind} is opened. {_NO_HEAD}"
        name = family.vision_class
        return ModelTask(kind=IMAGE, class_name=name, form="encoder", note=note, part="vision_config")
    bases = _names(lists, _BASE, kind)
    if not bases:
        is_known = kind in getattr(lists, "CONFIG_MAPPING_NAMES", {})
        raise _not_offered(config, _NOT_ALONE) if is_known else _unknown(config)
    for name in config.architectures:
        can_fill = name in _names(lists, _MASKED, kind)
        for task in _LISTED:
            is_named = name in _names(lists, task.library_list, kind)
            if is_named and _fits(task, config, can_fill=can_fill):
                return ModelTask(kind=task, class_name=name, form=_form(task, lists, config))
    is_pretrained = any(name in _names(lists, _PRETRAINING, kind) for name in config.architectures)
    masked = _names(lists, _MASKED, kind)
    if is_pretrained and masked and family.predicts_words:
        return ModelTask(kind=MASKED, class_name=masked[0], form="encoder")
    for name in config.architectures:
        if name in _names(lists, _TEXT_ENCODING, kind):
            return ModelTask(kind=HEADLESS, class_name=name, form="encoder", note=_NO_HEAD)
    return _headless(lists, config, bases[0])


def _headless(lists: Any, config: CheckedConfig, base: str) -> ModelTask:
    kind = config.model_type
    for which in _PICTURE_AND_TEXT:
        if kind in getattr(lists, which, {}) or any(key in config.values for key in ("audio_config",)):
            raise _not_offered(config, "reads pictures or sounds together with text")
    has_pictures = "image_size" in config.values and "vocab_size" not in config.values
    if kind in lists.MODEL_FOR_IMAGE_MAPPING_NAMES or has_pictures:
        return ModelTask(kind=IMAGE, class_name=base, form="encoder", note=_NO_HEAD)
    if "vocab_size" not in config.values and kind in lists.MODEL_FOR_AUDIO_CLASSIFICATION_MAPPING_NAMES:
        raise _not_offered(config, _ONLY_HEARS)
    if kind in lists.MODEL_FOR_CTC_MAPPING_NAMES or kind in lists.MODEL_FOR_SPEECH_SEQ_2_SEQ_MAPPING_NAMES:
        raise _not_offered(config, _ONLY_HEARS)
    named = ", ".join(config.architectures)[:80]
    note = _NO_HEAD
    if named and base not in config.architectures:
        note = (
            f"The output head of {named} is not supported: its attention can be viewed, but it predicts "
            "nothing."
        )
    return ModelTask(kind=HEADLESS, class_name=base, form=_form(HEADLESS, lists, config), note=note)


def _fits(task: LibraryTask, config: CheckedConfig, *, can_fill: bool) -> bool:
    """Whether a class of one list is meant: some classes are in several.

    `can_fill`: it stands in that of masked models too, as XLM's, which looks ahead unless `causal`.
    """
    if task == CAUSAL and can_fill:
        return bool(config.values.get("causal"))
    return task != TRANSLATION or bool(config.values.get("is_encoder_decoder", True))


def _form(task: LibraryTask, lists: Any, config: CheckedConfig) -> Form:
    if task.form is not None:
        return task.form
    hears, translates, writes, fills = (
        bool(_names(lists, one.library_list, config.model_type))
        for one in (SPEECH, TRANSLATION, CAUSAL, MASKED)
    )
    if (hears or translates) and config.values.get("is_encoder_decoder", True):
        is_encoder = any(name.endswith("EncoderModel") for name in config.architectures)
        return "encoder" if is_encoder and task == HEADLESS else "encoder-decoder"
    return "decoder" if config.values.get("is_decoder") or (writes and not fills) else "encoder"


def _names(lists: Any, which: str, model_type: str) -> tuple[str, ...]:
    found = getattr(lists, which, {}).get(model_type, ())
    return (found,) if isinstance(found, str) else tuple(found)


def _unknown(config: CheckedConfig) -> LoadError:
    return LoadError(
        f"The architecture {config.model_type[:60]!r} is unknown to the installed transformers library.",
        kind="architecture",
        expected="an architecture whose code comes with the library; code from a model's folder is never run",
        action="Update transformers, or open another model.",
    )


def _not_offered(config: CheckedConfig, reason: str) -> LoadError:
    name = (config.architectures or (config.model_type,))[0][:60]
    return LoadError(
        f"{name} is not supported: it {reason}.",
        kind="architecture",
        expected="a model that reads text, pictures alone, or speech that it transcribes",
        action="Open another model.",
    )


_CLASSIFIED = (
    Sample(text="The film was far too long, but I loved every minute of it.", hint="Which words decide?"),
    Sample(text="I would not call this a good book.", hint="Which head looks from 'good' at 'not'?"),
    Sample(text="Nothing worked, nobody answered, and I want my money back.", hint="Which words decide?"),
)
_PICTURE_FILE = "still-life.png"


def samples_of(task: ModelTask, vocabulary: TokensById, values: Mapping[str, Any]) -> tuple[Sample, ...]:
    """Sample sentences for a model, a picture for one that reads pictures; none for speech."""
    if task.kind.reads == "picture":
        return (
            Sample(
                text=str(resources_folder() / "samples" / _PICTURE_FILE),
                hint="Which heads keep the ball apart from the table?",
            ),
        )
    if task.kind.reads == "recording":
        return ()
    if task.output_kind == "class":
        return _CLASSIFIED
    if task.kind == MASKED and vocabulary.has("mask"):
        return samples_for("encoder", "masked")
    if task.output_kind == "translation":
        prefix = _prefix(values)
        return tuple(_after(prefix, sample) for sample in samples_for("encoder-decoder", "translation"))
    if task.kind == HEADLESS and task.form == "encoder":
        return samples_for("encoder", "representations")
    return samples_for("decoder", "causal")


def _after(prefix: str, sample: Sample) -> Sample:
    return replace(sample, text=prefix + sample.text, pair=sample.pair and prefix + sample.pair)


def _prefix(values: Mapping[str, Any]) -> str:
    """Prefix that a multi-task model (T5) expects before a text to translate, from its own configuration."""
    tasks = values.get("task_specific_params")
    task = tasks.get("translation_en_to_fr") if isinstance(tasks, dict) else None
    prefix = task.get("prefix") if isinstance(task, dict) else None
    return prefix[:80] if isinstance(prefix, str) else ""
