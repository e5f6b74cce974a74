"""The weight on the token before, which makes a previous-token head."""

from attnscope.schemes.measures.measure import AtOffset, OnText


class Previous(AtOffset):
    name = "previous"
    title = "previous"
    order = 10
    offset = -1
    terminal = 6
    definition = "The weight of rows of words on the token just before the query, where there is one."
    on_text = OnText(
        order=40,
        title="previous token",
        definition="The weight on the token just before the query, averaged over rows of words.",
    )
    says = "attends to the previous token"
