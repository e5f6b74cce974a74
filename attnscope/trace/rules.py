"""Score and mask rules in files: a few numbers as JSON, everything else as named tensors."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from attnscope.nn.masks import MaskRule, RemovedCells
from attnscope.nn.patterns import PATTERNS, kind_of
from attnscope.nn.scores import BIASES, Bias, ScoreRule


def rules_as_json(rule: MaskRule, score: ScoreRule) -> dict[str, object]:
    """What JSON can hold of both rules."""
    bias = score.bias
    return {
        "is_causal": rule.is_causal,
        "window": None if rule.window is None else list(rule.window),
        "pattern": None if rule.pattern is None else kind_of(rule.pattern),
        "scale": score.scale,
        "softcap": score.softcap,
        "is_kernel": score.is_kernel,
        "bias": None
        if bias is None
        else next(name for name, kind in BIASES.items() if isinstance(bias, kind)),
    }


def rule_tensors(rule: MaskRule, score: ScoreRule) -> dict[str, Tensor]:
    """Every tensor of both rules by a name of its own."""
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
    """Both rules of one site; raises ValueError or KeyError when the parts do not fit the map."""
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
