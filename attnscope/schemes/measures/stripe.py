"""The induction stripe; `analysis/induction_score.py` computes it, in passes of its own."""

from attnscope.schemes.measures.measure import Measure


class Stripe(Measure):
    name = "stripe"
    title = "induction"
    order = 50
    terminal = 9
    is_self_only = True
    of, like = "random row", "induction_mul"
    definition = (
        "On 8 rows of random tokens written twice: the weight on the token after the same one before, the"
        " stripe of a map. Near 1: an induction head. (Olsson et al. 2022)"
    )
