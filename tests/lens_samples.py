"""A small made-up lens table: one position, two levels."""

import numpy as np

from attnscope.records import Candidate, LensTable, Token


def table() -> LensTable:
    def said(*pairs: tuple[str, float]) -> tuple[Candidate, ...]:
        return tuple(Candidate(token=Token(id=i, piece=w), probability=p) for i, (w, p) in enumerate(pairs))

    first, last = said(("dog", 0.25), ("cat", 0.125)), said(("cat", 0.75))
    return LensTable(
        stack="decoder",
        levels=("input", "layer 0"),
        positions=(3,),
        tokens=(Token(id=9, piece="the"),),
        candidates=((first,), (last,)),
        probability=np.array([[0.125], [0.75]]),
        rank=np.array([[1], [0]]),
        kl_nats=np.array([[2.0], [0.0]]),
        entropy=np.array([[1.5], [0.5]]),
    )
