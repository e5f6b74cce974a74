"""A mask drawn for another number of tokens is left out of the window's own trace, and said to be."""

from pathlib import Path

import numpy as np

from attnscope.records import Failed, HeadRef, LoadModel, MakeUniform, Traced, TraceText, UseMask
from attnscope.workers import Engine


def write_nothing(_error: BaseException, _what: str) -> Path | None:
    return None


def test_that_only_a_mask_of_another_length_is_left_out() -> None:
    engine = Engine(write_nothing)
    list(engine.handle(LoadModel(number=1, source="shakespeare-masked", device="cpu")))
    (plain,) = engine.handle(TraceText(number=2, text="to be or not"))
    assert isinstance(plain, Traced)
    n = len(plain.source)
    uniform = MakeUniform(head=HeadRef(stack="encoder", layer=0, head=0))
    fitting, other = (UseMask.of_cells("encoder", np.eye(m, dtype=np.bool_)) for m in (n, n + 1))
    for mask, kept in ((fitting, (uniform, fitting)), (other, (uniform,))):
        request = TraceText(number=3, text="to be or not", interventions=(uniform, mask))
        (reply,) = engine.handle(request)
        assert isinstance(reply, Traced)
        assert reply.interventions == kept
    asked_by_compare = TraceText(number=4, text="to be or not", interventions=(other,), view="compare A")
    assert any(isinstance(reply, Failed) for reply in engine.handle(asked_by_compare))
