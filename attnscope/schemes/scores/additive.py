"""The additive score: a layer of tanh units over query and key (Bahdanau et al. 2014, appendix A.1.2).

v · tanh(W [q; k]) with W [q; k] = W_q q + W_k k, which are the projections that a head has anyway.
"""

from attnscope.schemes.scores.score import Score


class Additive(Score):
    name, title, order = "additive", "additive", 5
    formula, source = "v · tanh(q + k)", "Bahdanau et al. 2014"
    comparison = "additive"
    is_bilinear = False
    learned = "vector"
    samples_formula = "s = v·tanh(W q + U k + b) / σ²"

    def learned_shape(self, d_head: int) -> tuple[int, ...]:
        return (d_head,)

    def n_kept(self, n: int, k: int, n_heads: int) -> int:
        return n + k
