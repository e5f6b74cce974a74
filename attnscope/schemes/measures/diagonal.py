"""The weight on the token itself: the diagonal of the map."""

from attnscope.schemes.measures.measure import AtOffset, OnText


class Diagonal(AtOffset):
    name = "diagonal"
    title = "itself"
    order = 20
    offset = 0
    definition = "The weight of rows of words on the key at the query's own position."
    on_text = OnText(
        order=60,
        title="same position",
        definition="The weight on the key at the query's own position, averaged over rows of words.",
    )
    says = "attends to the same position"
