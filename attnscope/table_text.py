"""Tables as text: HTML for a notebook, in which no text is markup, and CSV. Must import nothing heavy."""

import csv
import io
import math
from collections.abc import Iterable, Mapping, Sequence

MOST_ROWS = 200
"""Rows that are shown; a longer table says how many it has."""


def html_table(columns: Sequence[str], rows: Iterable[Sequence[object]], *, title: str = "") -> str:
    """A table with a title above it; numbers in four digits, and no number as an empty cell."""
    shown = list(rows)
    lines = [f"<tr>{''.join(f'<td>{_cell(cell)}</td>' for cell in row)}</tr>" for row in shown[:MOST_ROWS]]
    head = f"<tr>{''.join(f'<th>{_escaped(name)}</th>' for name in columns)}</tr>" if any(columns) else ""
    more = f"<p>… {len(shown):,} rows in all</p>" if len(shown) > MOST_ROWS else ""
    above = f"<p><b>{_escaped(title)}</b></p>" if title else ""
    return f"<div>{above}<table><thead>{head}</thead><tbody>{''.join(lines)}</tbody></table>{more}</div>"


def by_column(rows: Sequence[Mapping[str, object]]) -> dict[str, list[object]]:
    """Rows of the same columns, turned: each column by its name."""
    return {name: [row[name] for row in rows] for name in (rows[0] if rows else ())}


def _cell(value: object) -> str:
    if isinstance(value, float):
        return "" if math.isnan(value) else f"{value:.4g}"
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return _escaped(str(value))


def _escaped(text: str) -> str:
    from html import escape  # brings a table of two thousand entities

    return escape(text)


def csv_text(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Comma-separated values: a line for the header and one for each row."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(rows)
    return out.getvalue()
