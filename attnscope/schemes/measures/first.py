"""The weight on the first key, where many heads rest (Xiao et al. 2024 call it the attention sink)."""

from attnscope.schemes.measures.measure import AtFirst, OnText


class First(AtFirst):
    name = "first"
    title = "first"
    order = 30
    terminal = 4
    definition = "The weight on the first key; in self-attention of rows of words."
    on_text = OnText(
        order=50,
        title="first token",
        definition="The weight on the first token, averaged over rows; in self-attention over rows of words."
        " High values often mean that the head has nothing to do here.",
    )
    says = "attends to the first {noun}"
