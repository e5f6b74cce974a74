"""Small made-up insides of a head: three keys of which the last may be masked, all numbers from ramps."""

import dataclasses

import numpy as np

from attnscope.records import HeadInside, HeadRef, Token


def inside(*, n: int = 3, d: int = 4, query: int = 1, is_masked: bool = True, **other: object) -> HeadInside:
    """The inside of L0H1 (decoder) on a query that sees all keys but, when masked, the last."""
    q = np.sin(np.arange(d) + 1.0)
    k = np.cos(np.arange(n * d) * 1.3).reshape(n, d)
    v = np.sin(np.arange(n * d) * 0.7 + 2.0).reshape(n, d)
    products = q * k
    dot = products.sum(axis=1)
    scale = d**-0.5
    score = scale * dot
    if is_masked:
        score = np.where(np.arange(n) == n - 1, -np.inf, score)
    lse = float(np.log(np.exp(score).sum()))
    weight = np.where(np.isneginf(score), np.nan, np.exp(score - lse))
    weighted = np.nan_to_num(weight)[:, None] * v
    made = HeadInside(
        head=HeadRef(stack="decoder", layer=0, head=1),
        query=query,
        n_queries=n,
        query_token=Token(id=query, piece=f"w{query}"),
        n_keys=n,
        n_allowed=n - is_masked,
        keys=tuple(range(n)),
        key_tokens=tuple(Token(id=i, piece=f"w{i}") for i in range(n)),
        comparison="product",
        scale=scale,
        lse=lse,
        q=q,
        k=k,
        products=products,
        dot=dot,
        scaled=scale * dot,
        score=score,
        weight=weight,
        v=v,
        value_norms=np.linalg.norm(v, axis=1),
        weighted=weighted,
        output=weighted.sum(axis=0),
        own_output=weighted.sum(axis=0),
        output_error=0.0,
        row_sum_error=0.0,
    )
    return dataclasses.replace(made, **other)  # type: ignore[arg-type]
