"""Measures of heads, a file each, or one for a family with the same sums: `MEASURES` has them by name.

A measure is a column of the table of heads over texts; one that has words `on_text` is a number of one text
as well. Tables, tooltips, CSV headers, JSON, help and tours read these lists.
"""

from attnscope.schemes import schemes_of
from attnscope.schemes.measures.measure import AtFirst, AtOffset, Measure, OnText, RowBlock

__all__ = ["ESTIMATED", "MEASURES", "TEXT_MEASURES", "AtFirst", "AtOffset", "Measure", "OnText", "RowBlock"]

MEASURES = schemes_of(__name__, Measure)
"""Every measure, in the order of the table."""

_PLACES = {measure.on_text.order: measure for measure in MEASURES.values() if measure.on_text is not None}
TEXT_MEASURES = {_PLACES[order].name: _PLACES[order] for order in sorted(_PLACES)}
"""Those of one text, in their own order."""

ESTIMATED = {name: measure for name, measure in TEXT_MEASURES.items() if measure.is_estimated}
"""Those that are estimated from some of the rows of a very long text."""
