"""From interventions, as people name them, to edits of single sites."""

from collections.abc import Callable, Mapping

import torch
from torch import Tensor

from attnscope.nn.edits import CopiedPattern, Edits
from attnscope.records.interventions import (
    CopyPattern,
    Interventions,
    MakeMean,
    MakeUniform,
    RemoveEdge,
    UseMask,
)
from attnscope.records.sites import HeadRef, Site, SiteKey, check_heads
from attnscope.trace.record import SiteRecord

RecordOf = Callable[[CopyPattern], SiteRecord]
"""Gives what the site of a pattern's head did on the pattern's own text."""


def build_edits(
    interventions: Interventions, sites: tuple[Site, ...], record_of: RecordOf
) -> Mapping[SiteKey, Edits]:
    """The edits of each site that has any; raises UserError for a head that does not exist."""
    check_heads((intervention.head for intervention in interventions), sites)
    by_site: dict[SiteKey, Interventions] = {}
    for intervention in interventions:
        keys = [intervention.head.site_key]
        if isinstance(intervention, UseMask):
            keys = [site.key for site in sites if site.stack == intervention.stack]
        for key in keys:
            by_site[key] = (*by_site.get(key, ()), intervention)
    return {key: _site_edits(own, sites, record_of) for key, own in by_site.items()}


def without_copies(edits: Mapping[SiteKey, Edits]) -> Mapping[SiteKey, Edits] | None:
    """The edits as they can go with a text that grows.

    None when a copied pattern is among them, or a mask drawn for the tokens of a stack that grows.
    """
    has_fixed = any(
        site.copied or (site.cells is not None and key[0] == "decoder") for key, site in edits.items()
    )
    return None if has_fixed else edits


def _site_edits(interventions: Interventions, sites: tuple[Site, ...], record_of: RecordOf) -> Edits:
    removed: list[tuple[int, int, int]] = []
    uniform: list[int] = []
    mean: list[int] = []
    copied: dict[int, CopiedPattern] = {}
    cells: Tensor | None = None
    for intervention in interventions:
        head = intervention.head.head
        match intervention:
            case RemoveEdge():
                removed.append((head, intervention.query, intervention.key))
            case MakeUniform():
                uniform.append(head)
            case MakeMean():
                mean.append(head)
            case CopyPattern():
                check_heads((intervention.from_head,), sites)
                copied[head] = _pattern(record_of(intervention), intervention.from_head)
            case UseMask():
                cells = torch.from_numpy(intervention.cells.copy())
            case _:
                raise TypeError(f"unknown intervention {type(intervention).__name__}")
    return Edits(removed=tuple(removed), uniform=tuple(uniform), mean=tuple(mean), copied=copied, cells=cells)


def _pattern(record: SiteRecord, head: HeadRef) -> CopiedPattern:
    n_groups = record.q.shape[0] // record.k.shape[0]
    return CopiedPattern(
        q=record.q[head.head],
        k=record.k[head.head // n_groups],
        rule=record.rule,
        score=record.score,
        head=head.head,
    )
