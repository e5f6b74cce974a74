"""Records of attention whose weights are given as they are: arrays, and softmaxes written by hand.

Queries and keys of such a record have the width 0 and the logarithms of the weights are its bias, so that
everything that reads records works. Nothing is changed: rows that do not sum to 1 stay so, and are told of.

| symbol  | meaning                                   | shape                       |
|---------|-------------------------------------------|-----------------------------|
| weights | after softmax; NaN where not allowed      | [n_heads, n_queries, n_keys]|
"""

import math
from collections.abc import Mapping

import torch
from torch import Tensor

from attnscope.counting import plural
from attnscope.errors import UserError
from attnscope.models.huggingface.rule_finding import find_rule_of
from attnscope.nn.masks import MaskRule
from attnscope.nn.scores import DenseBias, ScoreRule
from attnscope.trace.check import SiteProof
from attnscope.trace.record import SiteRecord

NO_WEIGHT = -1e4
"""The logarithm that stands for a weight of exactly 0: exp of it is 0, and it is not "not allowed"."""


def record_of_weights(weights: Tensor, name: str) -> SiteRecord:
    """The record of a site's weights; raises UserError for numbers that can be no weights.

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
    """Raise UserError unless these are weights: floating-point, no infinity, none below 0."""
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
    """What a person should know of given weights, by the names of layers: sums other than 1, and NaN."""
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
