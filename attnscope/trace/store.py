"""Stores traces in files, so that attention can be replayed without the model.

One safetensors file holds any number of traces: the tensors of each site (`0.encoder.3.q`), and
everything else as JSON in the file's metadata, with a SHA-256 of both. Opening one runs no code.
"""

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast, get_args

import torch
from torch import Tensor

from attnscope.codec import Caps, Codec
from attnscope.errors import LoadError, SaveError
from attnscope.nn.masks import PATTERNS, MaskRule, RemovedCells, pattern_kind
from attnscope.nn.scores import BIASES, Bias, ScoreRule
from attnscope.outside import as_object, open_outside, parse_json
from attnscope.records.interventions import interventions_as_json, interventions_from_json
from attnscope.records.models import Recorded
from attnscope.records.outputs import Candidate, Output, OutputKind, Prediction
from attnscope.records.sites import Gates, HeadRef, Site, SiteKey, tokens_of_site
from attnscope.records.tokens import Token, Tokens, own_letters
from attnscope.trace.check import SiteProof, prove_again
from attnscope.trace.record import SiteRecord, TextRecord
from attnscope.trace.tensor_file import MAX_HEADER_BYTES, read_tensors, write_tensors

FORMAT = 2
_KEY = "attnscope_traces"
_MAX_SLOT = 40
_CODEC = Codec(is_sparse=True, odd="texts", caps=Caps(number=math.inf))  # a check may find ∞
_TENSORS = ("q", "k", "lse")
_VALUES = ("v", "out")
_MAX_NAME, _MAX_NOTE, _MAX_NOTES = 200, 1000, 20
"""Limits on a file's own text, in characters and in notes."""


def save_records(path: str | Path, texts: Sequence[TextRecord], *, has_logits: bool = True) -> None:
    """Write records of texts to one file; without logits it is much smaller and shows maps only.

    Of what the model said the last prediction and what is written are kept, and the label of each token.
    """
    tensors: dict[str, Tensor] = {}
    described = []
    for number, text in enumerate(texts):
        for site in text.sites:
            tensors.update(_site_tensors(f"{number}.{site.stack}.{site.layer}", text.records[site.key]))
        if has_logits and text.logits is not None:
            tensors[f"{number}.logits"] = text.logits
        described.append(_describe(text))
    sha256 = _digest(described, tensors)
    header = json.dumps({"format": FORMAT, "traces": described, "sha256": sha256}, ensure_ascii=True)
    if len(header) > MAX_HEADER_BYTES // 2:  # its quotes are escaped once more in the file
        raise SaveError(
            f"The tokens of {path} would take {len(header):,} bytes of its header.",
            expected=f"at most {MAX_HEADER_BYTES // 2:,}: about 100,000 tokens",
            action="Save the trace of a shorter text.",
        )
    write_tensors(Path(path), tensors, {_KEY: header})


def is_trace_file(path: str | Path) -> bool:
    """Whether a file's header says that it holds traces; it may still be damaged."""
    try:
        with open_outside(Path(path), expected="recorded attention") as stream:
            n_header = int.from_bytes(stream.read(8), "little")
            return n_header <= MAX_HEADER_BYTES and f'"{_KEY}"'.encode() in stream.read(n_header)
    except (OSError, LoadError):
        return False


def load_records(path: str | Path) -> tuple[TextRecord, ...]:
    """Read every trace of a file, as its record; raises LoadError if it is damaged or not such a file."""
    path = Path(path)
    file = read_tensors(path)
    text = file.metadata.get(_KEY)
    if text is None:
        raise _damaged(path, "it holds tensors but no traces")
    described = as_object(parse_json(text.encode(), what=f"The header of {path}"), what=str(path))
    if described.get("format") != FORMAT:
        raise LoadError(
            f"{path} has the trace format {str(described.get('format'))[:20]}.",
            kind="newer",
            expected=str(FORMAT),
            action="Open it with the version of AttnScope that wrote it.",
        )
    try:
        entries = cast("list[dict[str, Any]]", described["traces"])
        texts = tuple(_rebuild(n, entry, file.tensors) for n, entry in enumerate(entries))
    except (KeyError, TypeError, ValueError, AttributeError, IndexError, RuntimeError) as error:
        raise _damaged(path, f"its description does not fit its tensors ({error})") from error
    if not texts:
        raise _damaged(path, "it holds no trace")
    if "sha256" in described and described["sha256"] != _digest(entries, file.tensors):
        raise LoadError(
            f"{path} was changed after it was saved: its content does not match its SHA-256.",
            kind="changed",
            expected="the file as AttnScope wrote it",
            action="Record or trace again, or restore the file from a copy.",
        )
    return texts


def _site_tensors(prefix: str, record: SiteRecord) -> dict[str, Tensor]:
    found = {f"{prefix}.{name}": getattr(record, name) for name in _TENSORS}
    for name in _VALUES:
        if getattr(record, name) is not None:
            found[f"{prefix}.{name}"] = getattr(record, name)
    for name, tensor in rule_tensors(record.rule, record.score).items():
        found[f"{prefix}.rule.{name}"] = tensor
    return found


def _describe(text: TextRecord) -> dict[str, object]:
    return {
        **({} if text.said is None else {"said": _said_as_json(text.said)}),
        "source": _tokens_as_json(text.source),
        "target": None if text.target is None else _tokens_as_json(text.target),
        "gates": [[head.stack, head.layer, head.head, value] for head, value in text.gates.values],
        "interventions": interventions_as_json(text.interventions),
        "recorded": None if text.recorded is None else _recorded_as_json(text.recorded),
        "sites": [_site_as_json(site, text.records[site.key]) for site in text.sites],
    }


def _said_as_json(said: Output) -> dict[str, object]:
    last = said.predictions[-1] if said.predictions else None
    words = [] if last is None else [[*_token_as_json(c.token), c.probability] for c in last.candidates]
    place = [] if last is None else [last.position, _writable(last.context)]
    told: dict[str, object] = {
        "kind": said.kind,
        "generated": _writable(said.generated),
        "place": place,
        "candidates": words,
    }
    if said.kind == "class" and len(said.predictions) > 1:
        told["labels"] = [
            [one.position, _writable(one.context), *_token_as_json(first.token), first.probability]
            for one in said.predictions
            for first in one.candidates[:1]
        ]
    return told if said.follows is None else {**told, "follows": said.follows}


def _said_from_json(values: dict[str, Any] | None) -> Output | None:
    if values is None:
        return None
    if values["kind"] not in get_args(OutputKind):
        raise ValueError(f"unknown output {str(values['kind'])[:20]!r}")
    last = [(*values["place"], values["candidates"])] if values["place"] else []
    each = [(position, context, [first]) for position, context, *first in values.get("labels", ())]
    found = [
        Prediction(
            position=int(position),
            context=str(context),
            candidates=tuple(
                Candidate(token=_following(*token), probability=_share(p)) for *token, p in candidates
            ),
        )
        for position, context, candidates in each or last
    ]
    follows = _share(values["follows"]) if "follows" in values else None
    return Output(
        kind=values["kind"], predictions=tuple(found), generated=str(values["generated"]), follows=follows
    )


def _share(value: object) -> float:
    share = float(str(value))
    if not 0.0 <= share <= 1.0:
        raise ValueError(f"{share} is not a probability")
    return share


def _token_as_json(token: Token) -> list[object]:
    return [token.id, _writable(token.piece), token.is_special]


def _site_as_json(site: Site, record: SiteRecord) -> dict[str, object]:
    return {
        **_CODEC.write(site),
        "proof": _CODEC.write(record.proof),
        **rules_as_json(record.rule, record.score),
    }


def _tokens_as_json(tokens: Tokens) -> dict[str, object]:
    after = tokens.following
    return {
        "text": _writable(tokens.text),
        "n_dropped": tokens.n_dropped,
        "n_unknown": tokens.n_unknown,
        "n_replaced": tokens.n_replaced,
        "n_cut": tokens.n_cut,
        **({"n_copyable": tokens.n_copyable} if tokens.n_copyable else {}),
        "sentences": list(tokens.sentences),
        "second": [i for i, token in enumerate(tokens.tokens) if token.segment],
        "tokens": [
            [t.id, _writable(t.piece), t.is_special, t.joins_previous, t.start, t.end] for t in tokens.tokens
        ],
        **({"following": _token_as_json(after)} if after else {}),
    }


def _writable(text: str) -> str:
    return text.encode("utf-8", "replace").decode()


def _rebuild(number: int, entry: dict[str, Any], tensors: Mapping[str, Tensor]) -> TextRecord:
    sites: list[Site] = []
    records: dict[SiteKey, SiteRecord] = {}
    recorded = _recorded_from_json(entry.get("recorded"))
    for values in entry["sites"]:
        site = _site(values)
        sites.append(site)
        record = _record(f"{number}.{site.stack}.{site.layer}", values, site, tensors)
        # A recorded decoder may well see the future; older files do not say whether they were recorded.
        is_causal = site.stack == "decoder" and "recorded" in entry and recorded is None
        records[site.key] = _proved(record, is_causal_site=is_causal)
    target = entry["target"]
    text = TextRecord(
        sites=tuple(sites),
        gates=Gates.of((HeadRef(stack=s, layer=n, head=h), v) for s, n, h, v in entry["gates"]),
        source=_tokens_from_json(entry["source"]),
        target=None if target is None else _tokens_from_json(target),
        records=records,
        logits=tensors.get(f"{number}.logits"),
        interventions=interventions_from_json(entry.get("interventions", [])),
        recorded=recorded,
        said=_said_from_json(entry.get("said")),
    )
    for site in sites:
        queries, keys = tokens_of_site(site, text.source, text.target)
        if (len(queries), len(keys)) != (records[site.key].n_queries, records[site.key].n_keys):
            raise ValueError(f"{site.stack} {site.layer} has other sizes than its tokens")
    return text


def _recorded_as_json(recorded: Recorded) -> dict[str, object]:
    return {
        "name": _writable(recorded.name),
        "sites": [[stack, layer, _writable(name)] for (stack, layer), name in recorded.site_names],
        "notes": [_writable(note) for note in recorded.notes],
    }


def _recorded_from_json(values: dict[str, Any] | None) -> Recorded | None:
    if values is None:
        return None
    names = tuple(((stack, int(layer)), str(name)[:_MAX_NAME]) for stack, layer, name in values["sites"])
    notes = tuple(str(note)[:_MAX_NOTE] for note in values["notes"][:_MAX_NOTES])
    return Recorded(name=str(values["name"])[:_MAX_NAME], site_names=names, notes=notes)


def _digest(described: object, tensors: Mapping[str, Tensor]) -> str:
    """SHA-256 of a file's text and of all its numbers."""
    found = hashlib.sha256(json.dumps(described, ensure_ascii=True, sort_keys=True).encode())
    for name in sorted(tensors):
        tensor = tensors[name].detach().cpu().contiguous()
        found.update(f"{name} {tensor.dtype} {list(tensor.shape)}".encode())
        found.update(tensor.reshape(-1).view(torch.uint8).numpy().data)
    return found.hexdigest()


def _site(values: dict[str, Any]) -> Site:
    site = _CODEC.read(Site, values)
    return replace(site, former=site.former[: site.n_heads], slot=site.slot[:_MAX_SLOT])


def _record(prefix: str, values: dict[str, Any], site: Site, tensors: Mapping[str, Tensor]) -> SiteRecord:
    q, k, lse = (tensors[f"{prefix}.{name}"] for name in _TENSORS)
    v, out = (tensors.get(f"{prefix}.{name}") for name in _VALUES)
    given = [tensor for tensor in (q, k, lse, v, out) if tensor is not None]
    if not all(tensor.is_floating_point() for tensor in given):
        raise ValueError(f"{prefix} is not made of floating-point numbers")
    (n_heads, n_queries, d_head), (n_kv_heads, n_keys, _) = q.shape, k.shape
    if (
        n_heads != site.n_heads
        or n_kv_heads not in (site.n_kv_heads, n_heads)
        or n_heads % n_kv_heads
        or k.shape[2] != d_head
        or lse.shape != q.shape[:2]
        or (v is not None and v.shape[:2] != (site.n_kv_heads, n_keys))
        or (out is not None and (v is None or out.shape != (n_heads, n_queries, v.shape[2])))
    ):
        raise ValueError(f"{prefix} has sizes that do not go together")
    own = {
        name.removeprefix(f"{prefix}.rule."): t
        for name, t in tensors.items()
        if name.startswith(f"{prefix}.rule.")
    }
    rule, score = read_rules(values, own, n_heads=n_heads, n_queries=n_queries, n_keys=n_keys, d_head=d_head)
    return SiteRecord(
        q=q, k=k, lse=lse, v=v, out=out, rule=rule, score=score, proof=_CODEC.read(SiteProof, values["proof"])
    )


def _proved(record: SiteRecord, *, is_causal_site: bool) -> SiteRecord:
    """The record with the results of a new check, in place of its file's claims."""
    proof = prove_again(record.proof, record, is_causal_site=is_causal_site)
    return replace(record, proof=proof)


def _tokens_from_json(values: dict[str, Any]) -> Tokens:
    counts = {name: int(values[name]) for name in ("n_dropped", "n_unknown", "n_replaced", "n_cut")}
    counts["n_copyable"] = int(values.get("n_copyable", 0))
    second = {int(i) for i in values.get("second", ())}
    tokens = tuple(
        Token(
            id=int(id),
            piece=str(piece),
            is_special=bool(is_special),
            joins_previous=bool(joins),
            start=int(start),
            end=int(end),
            segment=int(i in second),
            own=own_letters(str(values["text"]), str(piece), int(start), int(end)) if is_special else "",
        )
        for i, (id, piece, is_special, joins, start, end) in enumerate(values["tokens"])
    )
    sentences = tuple(int(end) for end in values.get("sentences", ()))
    following = _following(*values["following"]) if "following" in values else None
    return Tokens(text=str(values["text"]), tokens=tokens, sentences=sentences, following=following, **counts)


def _following(id: object, piece: object, is_special: object) -> Token:
    return Token(id=int(str(id)), piece=str(piece), is_special=bool(is_special))


def _damaged(path: Path, reason: str) -> LoadError:
    return LoadError(
        f"{path} is not a usable file of traces: {reason}.",
        kind="damaged",
        expected="a file written by AttnScope",
        action="Trace the text again, or restore the file from a copy.",
    )


def rules_as_json(rule: MaskRule, score: ScoreRule) -> dict[str, object]:
    """Both rules as JSON."""
    bias = score.bias
    return {
        "is_causal": rule.is_causal,
        "window": None if rule.window is None else list(rule.window),
        "pattern": None if rule.pattern is None else pattern_kind(rule.pattern),
        "scale": score.scale,
        "softcap": score.softcap,
        "is_kernel": score.is_kernel,
        "bias": None
        if bias is None
        else next(name for name, kind in BIASES.items() if isinstance(bias, kind)),
    }


def rule_tensors(rule: MaskRule, score: ScoreRule) -> dict[str, Tensor]:
    """Every tensor of both rules under a unique name."""
    found: dict[str, Tensor] = {}
    if rule.key_valid is not None:
        found["key_valid"] = rule.key_valid
    if rule.pattern is not None:
        found |= {f"pattern.{name}": tensor for name, tensor in rule.pattern.tensors().items()}
    if rule.removed is not None:
        found["removed"] = rule.removed.cells
    if score.bias is not None:
        found |= {f"bias.{name}": tensor for name, tensor in score.bias.tensors().items()}
    if score.sinks is not None:
        found["sinks"] = score.sinks
    if score.vector is not None:
        found["vector"] = score.vector
    return found


def read_rules(
    values: Mapping[str, Any],
    tensors: Mapping[str, Tensor],
    *,
    n_heads: int,
    n_queries: int,
    n_keys: int,
    d_head: int,
) -> tuple[MaskRule, ScoreRule]:
    """Read both rules of one site; raises ValueError or KeyError if the parts do not fit the map."""
    key_valid = tensors.get("key_valid")
    if key_valid is not None and (key_valid.dtype != torch.bool or key_valid.shape != (1, n_keys)):
        raise ValueError("key_valid has the wrong size")
    pattern = None
    if values.get("pattern") is not None:
        kind = PATTERNS[str(values["pattern"])]
        pattern = kind(**_with_prefix(tensors, "pattern."))
        pattern.check(n_queries, n_keys)
    removed = tensors.get("removed")
    rule = MaskRule(
        is_causal=bool(values["is_causal"]),
        key_valid=key_valid,
        window=_window(values.get("window")),
        pattern=pattern,
        removed=None if removed is None else _removed(removed, n_heads, n_queries, n_keys),
    )
    sinks = tensors.get("sinks")
    if sinks is not None and sinks.shape != (n_heads,):
        raise ValueError("the sinks have the wrong size")
    vector = tensors.get("vector")
    if vector is not None and (vector.shape != (n_heads, d_head) or not vector.is_floating_point()):
        raise ValueError("the vector of the score has the wrong size")
    softcap = values.get("softcap")
    score = ScoreRule(
        scale=float(values["scale"]),
        softcap=None if softcap is None else float(softcap),
        bias=_bias(values.get("bias"), tensors, n_heads, n_queries, n_keys),
        sinks=sinks,
        vector=vector,
        is_kernel=bool(values.get("is_kernel", False)),
    )
    return rule, score


def _window(value: object) -> tuple[int | None, int | None] | None:
    if value is None:
        return None
    if not isinstance(value, list) or len(value) != 2:
        raise ValueError("the window is not a pair")
    back, ahead = (None if side is None else int(side) for side in value)
    return back, ahead


def _removed(cells: Tensor, n_heads: int, n_queries: int, n_keys: int) -> RemovedCells:
    limits = torch.tensor([n_heads, n_queries, n_keys])
    if cells.dtype != torch.int64 or cells.ndim != 2 or cells.shape[1] != 3:
        raise ValueError("the removed edges have the wrong size")
    if bool(((cells < 0) | (cells >= limits)).any()):
        raise ValueError("a removed edge lies outside the map")
    return RemovedCells(cells=cells, n_heads=n_heads)


def _bias(
    name: object, tensors: Mapping[str, Tensor], n_heads: int, n_queries: int, n_keys: int
) -> Bias | None:
    if name is None:
        return None
    bias: Bias = BIASES[str(name)](**_with_prefix(tensors, "bias."))
    corner = bias.part(n_queries, n_keys, slice(0, 1), slice(0, 1))
    if corner.ndim != 4 or corner.shape[1] not in (1, n_heads) or not corner.is_floating_point():
        raise ValueError("the bias has the wrong size")
    return bias


def _with_prefix(tensors: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): t for name, t in tensors.items() if name.startswith(prefix)}
