"""Measures every row of one long text and prints what memory that took; run as a process.

A process of its own: this one's memory would count what was measured before.
"""

import json
import time

from attnscope.analysis.measures import measure
from attnscope.bench.analysis import made_up_model, made_up_texts
from attnscope.bench.resident import MemoryWatch

N_TOKENS = 32_768


def main() -> None:
    """Trace the text and measure it with a watch on; print one line of JSON."""
    model = made_up_model(form="decoder", d_model=64, n_layers=1, n_heads=2, d_ff=64, max_tokens=N_TOKENS)
    text = made_up_texts(1, N_TOKENS - 1)[0]
    with MemoryWatch() as watch:
        trace = model.trace(text)
        begin_s = time.perf_counter()
        measured = measure(trace, max_cells=None)
    found = {
        "n_tokens": len(trace.source),
        "n_heads": len(measured),
        "seconds": time.perf_counter() - begin_s,
        "peak_bytes": watch.peak_bytes,
    }
    print(json.dumps(found))  # noqa: T201  another process reads it


if __name__ == "__main__":
    main()
