"""Observing attention: probes on the one attention function, and traces recomputed from them.

Must not import anything of models, analysis, training or the window.
"""

from typing import TYPE_CHECKING

from attnscope.doors import door_of

# mypy: implicit-reexport
if TYPE_CHECKING:
    from attnscope.trace.check import SiteProof, SiteTensors, merge_proofs, prove, prove_again
    from attnscope.trace.pyramid import *
    from attnscope.trace.record import *
    from attnscope.trace.store import is_trace_file, read_rules, rule_tensors, rules_as_json, save_records
    from attnscope.trace.tensor_file import *
    from attnscope.trace.trace import Trace, load_trace, load_traces, save_trace, tile_of
else:
    __getattr__, __dir__ = door_of(__name__)
