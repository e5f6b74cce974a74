"""What a trace says of itself."""

import numpy as np

from attnscope import from_arrays


def test_that_a_trace_says_in_a_line_what_it_holds() -> None:
    rows = np.full((2, 3, 4, 4), 0.25)
    trace = from_arrays(
        {"encoder": rows, "cross": np.full((1, 3, 2, 4), 0.25)}, ["a", "b", "c", "d"], ["x", "y"]
    )
    assert repr(trace) == "Trace of 4 and 2 tokens: encoder 2 layers × 3 heads, cross 1 layer × 3 heads"
