"""Looking at attention: probes on the one attention function, and traces recomputed from them.

Must not import anything of models, analysis, training or the window.
"""

from attnscope.records.sites import SiteName
from attnscope.trace.record import GateProbe, SiteRecord, TextRecord, TraceProbe
from attnscope.trace.trace import Trace, load_trace, load_traces, save_trace

__all__ = [
    "GateProbe",
    "SiteName",
    "SiteRecord",
    "TextRecord",
    "Trace",
    "TraceProbe",
    "load_trace",
    "load_traces",
    "save_trace",
]
