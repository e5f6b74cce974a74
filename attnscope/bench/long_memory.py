"""Opens a long text the way the window's worker does, and prints what memory that took; run as a process."""

import json
import sys
import time
from pathlib import Path


def main(source: str, path: str) -> None:
    """Trace the text, make its first thumbnails, measures and one pyramid; print one line of JSON."""
    from attnscope.analysis.measures import measure
    from attnscope.models import load
    from attnscope.trace.pooling import OneHead
    from attnscope.trace.pyramid import build_pyramid

    model = load(source, device="cpu")
    text = Path(path).read_text(encoding="utf-8")
    before_mb, begin_s = peak_mb(), time.perf_counter()
    if source == "shakespeare":
        text = text[: len(text) * 32_768 // 61_000]  # about as many tokens of its own vocabulary
    look = model.look(text, n_continue=0, past_trained=True)
    look.trace.grids(96)
    measure(look.trace)
    record = look.trace.records[look.trace.sites[0].key]
    for _ in build_pyramid(OneHead(record, 0)):
        pass
    found = {
        "n_tokens": len(look.trace.source),
        "seconds": time.perf_counter() - begin_s,
        "before_mb": before_mb,
        "peak_mb": peak_mb(),
    }
    print(json.dumps(found))  # noqa: T201  another process reads it


def peak_mb() -> float:
    """The most memory this process has had, in MB; 0 where the system does not say.

    Not `getrusage`: that counts what the process was before it became this program.
    """
    try:
        lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    except OSError:
        return 0.0
    return next((int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM:")), 0.0)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
