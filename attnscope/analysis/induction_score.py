"""The induction stripe: random tokens repeated once, and the heads that attend to the token after the same
one before.

Random tokens, because in them nothing but the repetition tells which token comes next (Olsson et al.
2022, section "Per-head induction scores").

| symbol | meaning                                        | shape                      |
|--------|------------------------------------------------|----------------------------|
| scores | mean weight at offset 1 − s over the second copy | [n_rows, n_sites, n_heads] |
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from attnscope.analysis.corpus_texts import NumberedInputs, batch_kind, run_batch
from attnscope.analysis.model_adapter import QuietProbe
from attnscope.models import Inputs, Model
from attnscope.nn import Call, log_weights
from attnscope.records.sites import Site, SiteKey, is_self_attention
from attnscope.records.tokens import Token, Tokens

N_ROWS = 8
N_PERIOD = 24
"""Tokens of one copy, where the model reads as many; shorter copies otherwise."""


def stripe_scores(
    model: Model, *, n_rows: int = N_ROWS, n_period: int = N_PERIOD, seed: int = 0
) -> NDArray[np.float32]:
    """The stripe of every head on repeated random texts: [n_rows, n_sites, n_heads].

    NaN where it does not apply: cross-attention, the decoder of a translation model, models that read
    fewer than 4 tokens, recorded attention, and heads that a site does not have.
    """
    shape = (n_rows, len(model.sites), max(site.n_heads for site in model.sites))
    found = np.full(shape, np.nan, np.float32)
    if model.info.is_recorded:
        return found
    before, after = _frame(model)
    texts = repeated_rows(model, n_rows=n_rows, n_period=n_period, seed=seed)
    rows = [NumberedInputs(number=number, inputs=inputs) for number, inputs in enumerate(texts)]
    for batch in [rows] if rows and batch_kind(model) != "one" else [[row] for row in rows]:
        probe = _StripeProbe(model.sites, len(before), (batch[0].n_tokens - len(before) - len(after)) // 2)
        run_batch(model, batch, probe)
        for index, site in enumerate(model.sites):
            if site.key in probe.stripes:
                first, last = batch[0].number, batch[-1].number + 1
                found[first:last, index, : site.n_heads] = probe.stripes[site.key].cpu().numpy()
    return found


def repeated_rows(
    model: Model, *, n_rows: int = N_ROWS, n_period: int = N_PERIOD, seed: int = 0
) -> list[Inputs]:
    """Random tokens of the whole vocabulary, repeated, as the model reads them.

    None for a model that reads fewer than 4 tokens.
    """
    before, after = _frame(model)
    n_period = min(n_period, (model.network.max_tokens - len(before) - len(after)) // 2)
    ordinary = _ordinary_tokens(model)
    if n_period < 2 or not ordinary:
        return []
    rng = np.random.default_rng(seed)
    copies = [[ordinary[index] for index in _draw(rng, len(ordinary), n_period)] for _ in range(n_rows)]
    return [Inputs(source=Tokens(text="", tokens=(*before, *copy, *copy, *after))) for copy in copies]


class _StripeProbe(QuietProbe):
    """The stripe of every self-attention site, [batch, n_heads]."""

    def __init__(self, sites: Sequence[Site], n_before: int, n_period: int) -> None:
        self._wanted = {site.key for site in sites if is_self_attention(site)}
        self._n_before, self._n_period = n_before, n_period
        self.stripes: dict[SiteKey, Tensor] = {}

    def wants(self, site: SiteKey) -> bool:
        """Sites that look at their own sequence."""
        return site in self._wanted

    def record(self, site: SiteKey, call: Call, *, lse: Tensor, out: Tensor, is_training: bool) -> None:
        """Keep two numbers a head."""
        logs = log_weights(call.q, call.k, lse, rule=call.rule, score=call.score)
        part = slice(self._n_before, self._n_before + 2 * self._n_period)
        self.stripes[site] = induction_stripe(logs.exp()[:, :, part, part], self._n_period)


def _draw(rng: np.random.Generator, n: int, n_period: int) -> NDArray[np.int64]:
    """Draw different tokens if there are enough, so that each has one right answer."""
    drawn: NDArray[np.int64] = rng.choice(n, size=n_period, replace=n < n_period)
    return drawn


def _frame(model: Model) -> tuple[tuple[Token, ...], tuple[Token, ...]]:
    """The special tokens that the model puts before and after a text."""
    tokens = model.network.encode("a").source.tokens
    ordinary = [index for index, token in enumerate(tokens) if not token.is_special]
    if not ordinary:
        return tokens, ()
    return tokens[: ordinary[0]], tokens[ordinary[-1] + 1 :]


def _ordinary_tokens(model: Model) -> list[Token]:
    """A few thousand tokens that are not special."""
    n = model.info.vocab_size
    step = max(1, n // 4096)
    tokens = [model.network.vocabulary.token(id) for id in range(0, n, step)]
    return [token for token in tokens if not token.is_special]


def induction_stripe(weights: Tensor, n_period: int) -> Tensor:
    """Mean weight, over the second half of a text repeated once, on the token after the same one before.

    Query i looks at key i + 1 − s, where s = `n_period` is the length of one copy; weights [..., n, n]
    start at the first token of the first copy. Near 1 for an induction head.
    """
    stripe = weights.diagonal(1 - n_period, dim1=-2, dim2=-1)  # queries from s − 1 on
    return stripe[..., 1:].mean(dim=-1)
