"""`attnscope.from_arrays()`: attention weights from any source, as a trace.

Records of attention whose weights are given as they are: arrays, and softmaxes written by hand.

Queries and keys of such a record have the width 0 and the logarithms of the weights are its bias, so that
everything that reads records works. Nothing is changed: rows that do not sum to 1 stay so, and are told of.

| symbol  | meaning                                   | shape                       |
|---------|-------------------------------------------|-----------------------------|
| weights | after softmax; NaN where not allowed      | [n_heads, n_queries, n_keys]|

Texts of recorded attention have no tokenizer: pieces that a user gave, or numbers.
"""

import math
import re
from collections.abc import Iterable, Mapping, Sequence

import torch
from torch import Tensor

from attnscope.counting import plural, there_are
from attnscope.errors import UserError
from attnscope.models.huggingface.rule_finding import find_rule_of
from attnscope.models.recording.placing import Lengths, RecordedCall
from attnscope.nn import DenseBias, MaskRule, ScoreRule
from attnscope.records.models import Recorded
from attnscope.records.sites import NO_GATES, STACKS, Site, SiteKey, Stack, axes_of
from attnscope.records.tokens import Token, Tokens
from attnscope.text.vocabulary import METASPACE, Notation, read_entry, split_pieces
from attnscope.trace import SiteProof, SiteRecord, TextRecord, Trace

_SPECIAL = re.compile(r"\[[A-Z0-9_]{1,20}\]|<\|?[^<>\s]{1,40}\|?>")
_MAX_SHOWN = 60


def tokens_named(given: object, extra: Sequence[str] = ()) -> Tokens:
    """Tokens from pieces, in a vocabulary's notation (`Ġthe`, `▁the`, `##ing`), or from tokens.

    Marks are read and left out; pieces such as `[CLS]` and `</s>` are special tokens. `extra` are keys that
    are no tokens, named after them. An array or a tensor of ids, [T] or [1, T], is read as its numbers.
    """
    if isinstance(given, Tokens):
        return given
    pieces = pieces_of(given, "tokens")
    if pieces and all(isinstance(token, Token) for token in pieces):
        read = [token for token in pieces if isinstance(token, Token)]
    else:
        read = _read([str(piece) for piece in pieces])
    return _in_text([*read, *(Token(id=-1 - i, piece=name, is_special=True) for i, name in enumerate(extra))])


def pieces_of(given: object, name: str) -> Sequence[object]:
    """The pieces or ids of one text, from a list, a tuple, an array or a tensor, [T] or [1, T].

    Raises UserError for one string, for several texts and for what is no list.
    """
    if isinstance(given, Tokens):
        return given.tokens
    as_list = getattr(given, "tolist", None)
    pieces = as_list() if callable(as_list) else given
    if isinstance(pieces, str):
        raise UserError(
            f"The {name} are one text: {pieces[:_MAX_SHOWN]!r}.",
            expected="a list of pieces, one for each query or key",
            action="Give the pieces as your tokenizer cut them, or text.split() where tokens are words.",
        )
    if isinstance(pieces, Mapping) or not isinstance(pieces, Iterable):
        raise UserError(
            f"The {name} are of type {type(given).__name__}.",
            expected="a list of pieces or of ids, [T], one for each query or key",
            action='Of a tokenizer\'s encoding give the ids: encoding["input_ids"].',
        )
    pieces = list(pieces)
    texts = [text for text in pieces if isinstance(text, list | tuple)]
    if not texts:
        return pieces
    if len(texts) == len(pieces) == 1 and not any(isinstance(piece, list | tuple) for piece in texts[0]):
        return list(texts[0])
    raise UserError(
        f"The {name} are of {len(texts)} texts, one below the other; a map shows one.",
        expected="the pieces or ids of one text, [T] or [1, T]",
        action=f"Give those of the row that was recorded: {name}=ids[0] with record(module, row=0).",
    )


def numbered_tokens(n: int, extra: Sequence[str] = ()) -> Tokens:
    """Tokens named by position, if no names were given."""
    return tokens_named([str(place) for place in range(n - len(extra))], extra)


def _read(pieces: list[str]) -> list[Token]:
    if not any(piece.startswith(("Ġ", METASPACE, "##")) and len(piece) > 1 for piece in pieces):
        return [_token(place, piece, piece, joins=False) for place, piece in enumerate(pieces)]
    notation = Notation(
        is_byte_level=any(piece.startswith("Ġ") for piece in pieces),
        has_metaspace=any(piece.startswith(METASPACE) for piece in pieces),
        has_byte_entries=any(piece.startswith(METASPACE) for piece in pieces),
        part_prefix="##" if any(piece.startswith("##") for piece in pieces) else "",
    )
    plain = [_SPECIAL.fullmatch(piece) is not None for piece in pieces]
    readings = [read_entry(piece, notation) for piece in pieces]
    shown = split_pieces([reading.data for reading in readings])
    tokens = []
    for place, (piece, reading) in enumerate(zip(pieces, readings, strict=True)):
        joins = reading.is_part and place > 0 and not plain[place] and not plain[place - 1]
        tokens.append(_token(place, piece, piece if plain[place] else shown[place], joins=joins))
    return tokens


def _token(place: int, written: str, shown: str, *, joins: bool) -> Token:
    is_special = _SPECIAL.fullmatch(written) is not None
    return Token(id=place, piece=shown or "∅", is_special=is_special, joins_previous=joins)


def _in_text(tokens: list[Token]) -> Tokens:
    """The tokens with their positions in the text of their pieces, words separated by a space."""
    text, placed = "", []
    for token in tokens:
        if text and not token.joins_previous:
            text += " "
        start = len(text)
        text += token.piece
        placed.append(
            Token(
                id=token.id,
                piece=token.piece,
                is_special=token.is_special,
                joins_previous=token.joins_previous,
                start=start,
                end=len(text),
                segment=token.segment,
            )
        )
    return Tokens(text=text, tokens=tuple(placed))


def texts_of_calls(
    calls: Sequence[RecordedCall],
    lengths: Lengths,
    tokens: Sequence[object] | None,
    target: Sequence[object] | None,
) -> tuple[Tokens, Tokens | None]:
    """Both texts; raises UserError if the number of tokens differs from that attended to."""
    extra = next((call.extra for call in calls if call.extra and call.record.n_keys == lengths.source), ())
    if tokens is None:
        source = numbered_tokens(lengths.source, extra)
    else:
        source = tokens_named(tokens, extra if len(tokens) == lengths.source - len(extra) else ())
        _check_count("tokens", len(source), extra, lengths, calls)
    if lengths.target is None:
        return source, None
    if target is not None:
        second = tokens_named(target)
    elif tokens is not None and len(tokens) == lengths.target and extra:
        second = tokens_named(tokens)
    else:
        second = numbered_tokens(lengths.target)
    _check_count("target", len(second), (), lengths, calls)
    return source, second


def _check_count(
    what: str, n: int, extra: tuple[str, ...], lengths: Lengths, calls: Sequence[RecordedCall]
) -> None:
    n_wanted = (lengths.target or 0) if what == "target" else lengths.source
    if n == n_wanted:
        return
    other = [call.words for call in calls if call.function == "softmax" and _sizes(call) != (n, n)]
    no_attention = f" Or leave out what is not attention with calls=, such as: {other[-1]}." if other else ""
    if n == n_wanted + 1 and any(call.n_steps > 1 for call in calls):
        no_attention += " The last token that a model generates is never read by it: leave it out."
    texts = plural(lengths.source, "key")
    texts += "" if lengths.target is None else f" and {plural(lengths.target, 'query', 'queries')}"
    raise UserError(
        f"{there_are(n, 'token')} in `{what}`, and the module attended over {texts} of them.",
        expected=f"{plural(n_wanted - len(extra), 'piece')} as `{what}`, special tokens included",
        action="Give the pieces as they went into the module; `tokens` are the keys of cross-attention, "
        f"`target` its queries.{no_attention}",
    )


def _sizes(call: RecordedCall) -> tuple[int, int]:
    return call.record.n_queries, call.record.n_keys


NO_WEIGHT = -1e4
"""The logarithm that stands for a weight of exactly 0: exp of it is 0, and it is not "not allowed"."""


def record_of_weights(weights: Tensor, name: str) -> SiteRecord:
    """The record of a site's weights; raises UserError for numbers that cannot be weights.

    NaN means "not allowed". A later token that no head of a square map ever looks at counts as not allowed
    as well (a causal mask); every other 0 is a weight of 0.
    """
    check_weights(weights, name)
    n_heads, n_queries, n_keys = weights.shape
    own = weights.detach().float()
    allowed = ~own.isnan()
    logs = own.nan_to_num(nan=0.0).log().clamp_(min=NO_WEIGHT)
    eps = torch.finfo(weights.dtype).eps if weights.dtype.itemsize < 4 else 0.0
    return SiteRecord(
        q=own.new_zeros(n_heads, n_queries, 0),
        k=own.new_zeros(n_heads, n_keys, 0),
        lse=own.new_zeros(n_heads, n_queries),
        rule=_rule_of(own, allowed),
        score=ScoreRule(scale=1.0, bias=DenseBias(cells=logs[None])),
        proof=SiteProof(
            row_sum_error=max(0.0, row_sum_error(own) - eps),
            forbidden_weight=0.0,
            output_error=0.0,
            n_rows=n_queries,
            n_queries=n_queries,
            is_training=False,
            is_given=True,
        ),
    )


def check_weights(weights: Tensor, name: str) -> None:
    """Raise UserError unless these are weights: floating-point, finite, not negative."""
    if not weights.is_floating_point():
        raise UserError(
            f"The weights of {name} are {str(weights.dtype).removeprefix('torch.')} numbers.",
            expected="floating-point numbers from 0 to 1",
            action="Give the weights after the softmax.",
        )
    if min(weights.shape) < 1:
        raise UserError(
            f"The weights of {name} have the shape {list(weights.shape)}.",
            expected="[n_heads, n_queries, n_keys] with something in it",
        )
    if bool(weights.isinf().any()):
        raise UserError(
            f"The weights of {name} are not all finite: {int(weights.isinf().sum())} are infinite.",
            expected="numbers from 0 to 1, or NaN where the mask does not allow a key",
            action="Give the weights after the softmax, not the scores before it.",
        )
    least = float(weights.nan_to_num(nan=0.0).min())
    if least < 0.0:
        raise UserError(
            f"The smallest weight of {name} is {least:.3g}.",
            expected="numbers from 0 to 1",
            action="Give the weights after the softmax, not the scores before it.",
        )
    if bool(weights.isnan().all()):
        raise UserError(
            f"The weights of {name} are all NaN: no key is allowed anywhere.",
            expected="numbers from 0 to 1, NaN only where the mask does not allow a key",
        )


def row_sum_error(weights: Tensor) -> float:
    """Max |Σ_j a_ij − 1| over the rows that may see a key."""
    sums = weights.nan_to_num(nan=0.0).sum(dim=-1, dtype=torch.float64)
    sees = ~weights.isnan().all(dim=-1)
    error = (sums - 1.0).abs()[sees]
    return float(error.max()) if error.numel() else 0.0


def weight_notes(maps: Mapping[str, Tensor]) -> tuple[str, ...]:
    """Notes for the user on given weights, by layer name: sums other than 1, and NaN."""
    sums, wrong, n_rows, n_missing = [], [], 0, 0
    for name, weights in maps.items():
        found = weights.detach().float()
        sees = ~found.isnan().all(dim=-1)
        own = found.nan_to_num(nan=0.0).sum(dim=-1)[sees]
        off = (own - 1.0).abs() > max(1e-4, torch.finfo(weights.dtype).eps)
        n_rows, n_missing = n_rows + len(own), n_missing + int(found.isnan().sum())
        if bool(off.any()):
            sums.append(own[off])
            wrong.append(name)
    notes = []
    if sums:
        off_by = torch.cat(sums)
        more = f" and {len(wrong) - 1} more" if len(wrong) > 1 else ""
        do, shown = (
            ("does", "it is shown as it is") if len(off_by) == 1 else ("do", "they are shown as they are")
        )
        ends = dict.fromkeys(f"{float(end):.3g}" for end in (off_by.min(), off_by.max()))
        notes.append(
            f"{len(off_by):,} of {plural(n_rows, 'row')} {do} not sum to 1 but to {' to '.join(ends)} "
            f"({wrong[0]}{more}); {shown}."
        )
    if n_missing:
        cells = plural(n_missing, "cell is NaN and is", "cells are NaN and are")
        notes.append(f"{cells} shown as not allowed.")
    return tuple(notes)


def _rule_of(weights: Tensor, allowed: Tensor) -> MaskRule:
    n_queries, n_keys = weights.shape[1:]
    if not bool(allowed.all()):
        return find_rule_of(allowed[None], n_queries, n_keys)
    is_square = n_queries == n_keys and n_queries > 1
    if is_square and not bool(weights.triu(diagonal=1).any()) and math.isfinite(float(weights.sum())):
        return MaskRule(is_causal=True)
    return MaskRule()


_STACKS: tuple[Stack, ...] = ("encoder", "decoder", "cross", "back", "second")
_SHAPE = "[n_heads, n_queries, n_keys] for each layer"


def from_arrays(
    weights: object,
    tokens: Sequence[object] | None = None,
    target: Sequence[object] | None = None,
    *,
    name: str = "arrays",
    names: Sequence[str] = (),
) -> Trace:
    """A trace of given weights: figures, measures, values and `save` work as with any other trace.

    `weights` is an array [n_layers, n_heads, n_queries, n_keys], a list with one [n_heads, n_queries, n_keys]
    for each layer (numpy or torch; a batch axis of 1 is left out, as in `outputs.attentions`), or a mapping
    of stacks (`encoder`, `decoder`, `cross`, …) to these, or of sites such as ("cross", 2) to one layer each.
    `tokens` are the pieces of the text, `target` those of a second one, whose queries look at the first in
    `cross`. `name` is what the trace is called, `names` are the modules' names, a list's layer by layer.

    Weights are shown as they are. NaN means "not allowed"; rows that do not sum to 1 are reported by
    `check()` and in `recorded.notes`.
    Raises UserError for shapes that do not fit, infinite or negative numbers.
    """
    maps = _maps_of(weights, has_target=target is not None)
    records = {key: record_of_weights(array, _named(key)) for key, array in maps.items()}
    source, second = _texts(maps, tokens, target)
    sites = tuple(_site(key, record) for key, record in records.items())
    site_names = _names_of(sites, names)
    notes = weight_notes({_named(key): array for key, array in maps.items()})
    trace = Trace(
        TextRecord(
            sites=sites,
            gates=NO_GATES,
            source=source,
            target=second,
            records=records,
            recorded=Recorded(name=name, site_names=site_names, notes=notes),
        )
    )
    for site in sites:
        _check_axes(trace, site)
    return trace


def _maps_of(weights: object, *, has_target: bool) -> dict[SiteKey, Tensor]:
    """The weights of each site, [n_heads, n_queries, n_keys], stacks in order."""
    if not isinstance(weights, Mapping):
        layers = _layers(weights, "the weights")
        return {(_stack_of(layers, has_target=has_target), n): layer for n, layer in enumerate(layers)}
    found: dict[SiteKey, Tensor] = {}
    for key, values in weights.items():
        if isinstance(key, Site):
            key = key.key
        if isinstance(key, str):
            stack = _stack_named(key)
            found |= {(stack, n): layer for n, layer in enumerate(_layers(values, stack))}
        elif isinstance(key, tuple) and len(key) == 2 and type(key[1]) is int and key[1] >= 0:
            found[_stack_named(key[0]), key[1]] = _one_layer(_as_tensor(values), str(key))
        else:
            raise UserError(
                f"{str(key)[:60]!r} is not a site.",
                expected='a stack such as "encoder", or a stack and a layer such as ("cross", 2)',
            )
    if not found:
        raise UserError("There are no weights.", expected=_SHAPE)
    return dict(sorted(found.items(), key=lambda item: (STACKS.index(item[0][0]), item[0][1])))


def _names_of(sites: tuple[Site, ...], names: Sequence[str]) -> tuple[tuple[SiteKey, str], ...]:
    if names and len(names) != len(sites):
        raise UserError(
            f"{there_are(len(names), 'name')} for {plural(len(sites), 'layer')}.",
            expected=f"{plural(len(sites), 'name')}, or none",
        )
    return tuple((site.key, str(name)) for site, name in zip(sites, names, strict=False))


def _stack_named(name: object) -> Stack:
    for stack in _STACKS:
        if stack == name:
            return stack
    raise UserError(f"There is no stack {str(name)[:40]!r}.", expected=", ".join(_STACKS))


def _layers(values: object, name: str) -> list[Tensor]:
    if isinstance(values, list | tuple) and values and not isinstance(values[0], list | tuple | int | float):
        return [_one_layer(_as_tensor(value), f"layer {n} of {name}") for n, value in enumerate(values)]
    whole = _as_tensor(values)
    if whole.ndim == 5 and whole.shape[1] == 1:
        whole = whole[:, 0]
    if whole.ndim == 3:
        whole = whole[None]
    if whole.ndim != 4 or not len(whole):
        raise UserError(
            f"The array of {name} has the shape {list(whole.shape)}.",
            expected=f"[n_layers, n_heads, n_queries, n_keys], or a list of {_SHAPE}",
        )
    return list(whole)


def _one_layer(layer: Tensor, name: str) -> Tensor:
    if layer.ndim == 4 and layer.shape[0] == 1:
        layer = layer[0]
    if layer.ndim == 4:
        raise UserError(
            f"The weights of {name} are of {layer.shape[0]} texts, {list(layer.shape)}.",
            expected=_SHAPE,
            action="Choose one text of the batch, for instance [layer[0] for layer in attentions].",
        )
    if layer.ndim != 3:
        raise UserError(f"The weights of {name} have the shape {list(layer.shape)}.", expected=_SHAPE)
    return layer


def _stack_of(layers: list[Tensor], *, has_target: bool) -> Stack:
    """The stack of layers without one: cross-attention between two texts, else self-attention."""
    if has_target or any(layer.shape[1] != layer.shape[2] for layer in layers):
        return "cross"
    is_causal = layers[0].shape[1] > 1 and all(
        not bool(layer.float().nan_to_num(nan=0.0).triu(diagonal=1).any()) for layer in layers
    )
    return "decoder" if is_causal else "encoder"


def _site(key: SiteKey, record: SiteRecord) -> Site:
    n_heads = record.q.shape[0]
    return Site(stack=key[0], layer=key[1], n_heads=n_heads, n_kv_heads=n_heads)


def _named(key: SiteKey) -> str:
    return f"{key[0]} L{key[1]}"


def _texts(
    maps: Mapping[SiteKey, Tensor], tokens: Sequence[object] | None, target: Sequence[object] | None
) -> tuple[Tokens, Tokens | None]:
    """Both texts; missing ones have the length of the first map of them, and are named by position."""
    stacks = {key[0] for key in maps}
    is_double = target is not None or bool(stacks & {"cross", "back", "second"}) or len(stacks) > 1
    counts: dict[str, int] = {}
    for key, weights in maps.items():
        axes = axes_of(key[0], has_target=is_double)
        for axis, n in zip(axes, weights.shape[1:], strict=True):
            counts.setdefault(axis, n)
    if "source" not in counts:  # a decoder alone, with a target that is its text
        counts["source"] = counts["target"] if tokens is None else len(tokens)
    source = numbered_tokens(counts["source"]) if tokens is None else tokens_named(tokens)
    if not is_double:
        return source, None
    n_target = counts.get("target", counts["source"])
    return source, numbered_tokens(n_target) if target is None else tokens_named(target)


def _check_axes(trace: Trace, site: Site) -> None:
    queries, keys = trace.tokens(site)
    record = trace.records[site.key]
    wanted, found = (len(queries), len(keys)), (record.n_queries, record.n_keys)
    if wanted == found:
        return
    is_turned = wanted == found[::-1]
    raise UserError(
        f"The weights of {_named(site.key)} are {plural(found[0], 'query', 'queries')} × "
        f"{plural(found[1], 'key')}, and its tokens are "
        f"{wanted[0]} × {wanted[1]}.",
        expected="as many tokens as queries and keys; rows are queries, columns are keys",
        action="The axes look swapped: give weights.transpose(-1, -2), or swap `tokens` and `target`."
        if is_turned
        else "Give every token, special ones too, as it went into the model.",
    )


def _as_tensor(values: object) -> Tensor:
    """An array, a tensor or nested lists as a tensor on the CPU; raises UserError for anything else."""
    try:
        found = values if isinstance(values, Tensor) else torch.as_tensor(values)
    except (TypeError, ValueError, RuntimeError) as error:
        raise UserError(
            f"An object of type {type(values).__name__} is not an array of weights ({error}).",
            expected="a numpy array, a torch tensor, or lists of numbers",
        ) from error
    return found.detach().cpu()
