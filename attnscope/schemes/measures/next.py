"""The weight on the next token, which no causal head can give (Clark et al. 2019)."""

from attnscope.schemes.measures.measure import AtOffset, OnText


class Next(AtOffset):
    name = "next"
    title = "next"
    order = 220
    offset = 1
    definition = (
        "The weight of rows of words on the token just after the query, where there is one; 0 under a"
        " causal mask. (Clark et al. 2019)"
    )
    on_text = OnText(
        order=70,
        title="next token",
        definition="The weight on the token just after the query, averaged over rows of words; 0 under a"
        " causal mask. (Clark et al. 2019)",
    )
    says = "attends to the next token"
