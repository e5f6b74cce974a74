"""Opens a long text the way the window's worker does, and prints what memory that took; run as a process.

A process of its own: this one's memory would count what was measured before.
"""

import json
import sys
import time
from pathlib import Path

from attnscope import measure
from attnscope.models import load
from attnscope.trace import OneHead, build_pyramid
from bench.resident import MemoryWatch


def main(source: str, path: str) -> None:
    """Trace the text, make its thumbnails and one pyramid, measure every row; print one line of JSON."""
    model = load(source, device="cpu")
    text = Path(path).read_text(encoding="utf-8")
    begin_s = time.perf_counter()
    with MemoryWatch() as watch:
        trace = model.look(text, n_continue=0).trace
        trace.grids(96)
        for _ in build_pyramid(OneHead(trace.records[trace.sites[0].key], 0)):
            pass
        measure(trace, max_cells=None)
    found = {
        "n_tokens": len(trace.source),
        "seconds": time.perf_counter() - begin_s,
        "peak_bytes": watch.peak_bytes,
    }
    print(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
