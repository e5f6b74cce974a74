"""Numbers about a model that its files give in many spellings: limits, special ids, labels, licence."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from attnscope.errors import LoadError
from attnscope.models.families import family_named
from attnscope.models.huggingface.cache import contained_file
from attnscope.outside import read_outside
from attnscope.strict_json import as_object, read_json

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
    """Ids by which a model begins and ends what it writes."""

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
    """The most tokens of the source and of the target; what positions have no limit get UNLIMITED."""
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
    """Positions that a table beginning after its padding row really has (RoBERTa: 514 rows, 512 tokens)."""
    for name, module in model.named_modules():
        if name.endswith("position_embeddings") and getattr(module, "padding_idx", None) is not None:
            return int(module.weight.shape[0]) - int(module.padding_idx) - 1
    return None


def read_processor(folder: Path, *parts: str) -> tuple[Mapping[str, Any], Path]:
    """What the first of some parts of a model's processor was saved with, and the file; raises LoadError.

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
    """A name for each column of a classifier; `label 3` where config.json names none."""
    named = values.get("id2label")
    found = named if isinstance(named, dict) else {}
    return tuple(str(found.get(str(i), "") or f"label {i}")[:80] for i in range(n_labels))


def licence_of(folder: Path) -> str:
    """The licence that the front matter of README.md names, as plain text; '' when there is none."""
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
