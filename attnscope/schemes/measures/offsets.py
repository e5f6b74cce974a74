"""A head's consistency at one offset; both measures follow from the table of offsets
(`analysis/corpus.py`).
"""

from attnscope.schemes.measures.measure import Measure


class Positional(Measure):
    name = "positional"
    title = "one offset"
    order = 80
    unit = "share of rows"
    is_self_only = True
    like = "confidence"
    definition = (
        "Rows of words whose largest weight lies at the head's most frequent offset; 0.9 makes it a"
        " positional head. (Voita et al. 2019)"
    )


class Offset(Measure):
    name = "offset"
    title = "offset, weight"
    order = 90
    is_further = True
    is_self_only = True
    like = "confidence"
    definition = (
        "The weight of rows of words at the offset that gets most of it, from 8 tokens before to 8 after."
        " (after Clark et al. 2019)"
    )
