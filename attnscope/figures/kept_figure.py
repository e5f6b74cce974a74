"""The figure of a figure file that holds its numbers: written whole, and looked at before it is painted.

Types are seen to by `record_json` and shapes within a record by the record; here are the rules between them,
so that no painter meets a map without tokens or a token that is not there.
"""

import dataclasses
import itertools
from collections.abc import Iterator

import numpy as np

from attnscope.figures.figure_checks import check_look
from attnscope.figures.record_json import kind_from_json, record_as_json
from attnscope.figures.spec import FigureSpec, check_spec
from attnscope.figures.views import VIEWS
from attnscope.figures.views.panels import PanelsFigure
from attnscope.records.maps import HeadMap, SelfCheck


def kept_as_json(spec: FigureSpec) -> dict[str, object]:
    """Everything that is painted; where it came from is in the caption."""
    spec = dataclasses.replace(spec, origin=None)
    if isinstance(spec, PanelsFigure):
        bare = tuple(dataclasses.replace(panel, origin=None) for panel in spec.panels)
        spec = dataclasses.replace(spec, panels=bare)
    return record_as_json(spec)


def kept_from_json(values: object) -> FigureSpec:
    """The figure again; raises ValueError or UserError where it could not be painted."""
    spec = kind_from_json(VIEWS, values)
    for part in (spec, *spec.parts()):
        check_spec(part)
        check_look(part.style)
        for reason in _reasons(part):
            raise ValueError(reason)
    return spec.mapped(lambda head_map: dataclasses.replace(head_map, check=_check_again(head_map)))


def _check_again(head_map: HeadMap) -> SelfCheck | None:
    """A warning as it is; of a good check the sums of a head's rows, and nothing where they tell nothing.

    Rows may sum to less than 1, where a head has a sink, and never to more.
    """
    claimed, weights = head_map.check, head_map.weights
    if claimed is None or claimed.is_empty or not claimed.is_good:
        return claimed
    if head_map.name or head_map.is_partial:
        return None
    seen = weights[~np.isnan(weights).all(axis=1)]
    sums = np.where(np.isnan(seen), 0.0, seen).sum(axis=1, dtype=np.float64)
    error = float(np.abs(sums - 1.0).max(initial=0.0))
    check = SelfCheck(
        row_sum_error=error, forbidden_weight=0.0, output_error=0.0, is_evaluation_mode=True, is_given=True
    )
    is_less = bool((sums <= 1.0 + check.tolerance).all()) and not bool((weights < 0.0).any())
    return None if is_less and not check.is_good else check


def _reasons(spec: FigureSpec) -> Iterator[str]:
    """What stands against painting a figure or one of its panels."""
    heads = itertools.chain(spec.heads(), (head for head, _ in spec.gates.values))
    if any(min(head.layer, head.head) < 0 for head in heads):
        yield "a head below 0"
    if any(not head_map.weights.size or not head_map.full > 0 for head_map in spec.held_maps()):
        yield "a map without a cell"
    if not spec.fits_together():
        yield "its parts do not fit together"
