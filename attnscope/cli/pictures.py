"""`attnscope figure --view picture`: one head of a vision model over its picture."""

from typing import TYPE_CHECKING

from attnscope.errors import UserError

if TYPE_CHECKING:
    from attnscope.figures.figure import Figure
    from attnscope.models import Model
    from attnscope.records.pictures import Picture


def on_picture(drawn: "Figure", model: "Model", text: str, query: str) -> "Figure":
    """The figure of one head, laid over the picture that the text names.

    Raises UserError for a model of text, a long map, and a query that is not there.
    """
    from attnscope.models.pictures import picture

    seen = picture(model, text)
    return drawn.on_picture(seen, _token(query, seen))


def _token(query: str, picture: "Picture") -> int:
    """The token that `--query` names; raises UserError."""
    row, comma, column = query.partition(",")
    if row.strip().isdecimal() and (column.strip().isdecimal() or not comma):
        numbers = (int(row), int(column or 0))
        if comma and numbers[0] < picture.n_rows and numbers[1] < picture.n_columns:
            return picture.token(*numbers)
        if not comma and numbers[0] < picture.n_tokens:
            return numbers[0]
    raise UserError(
        f"--query {query!r} is no token of this picture.",
        expected=f"a number from 0 to {picture.n_tokens - 1}, or row,column of {picture.n_rows} × "
        f"{picture.n_columns} patches, from 0",
        action="Correct it, for instance --query 3,4.",
    )
