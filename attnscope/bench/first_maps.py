"""From a text to the first paint of all 144 maps of 12 × 12 heads, and BertViz's model view beside it.

BertViz writes a page that a browser has to load afterwards; only the writing is timed, and only when it
is installed. Its page grows with the square of the text: at 512 tokens it takes 8.5 GB of memory.
"""

import importlib
import importlib.util
import time
from typing import Any

import torch
from PySide6.QtWidgets import QApplication

from attnscope.app import make_application
from attnscope.bench.report import Measurement, percentile
from attnscope.bench.tracing import Subject, build_subject
from attnscope.records.sites import NO_GATES
from attnscope.records.tokens import Token, Tokens
from attnscope.trace import Trace, TraceProbe
from attnscope.widgets.explore.grid_view import GridView

N_TOKENS = 512
N_ROUNDS = 5
TARGET_SHARE = 0.1
THUMBNAIL_PX = 96


def measure_first_maps(device: str = "cpu", n_tokens: int = N_TOKENS) -> tuple[Measurement, ...]:
    """Seconds from ids to painted maps, and as a share of the time BertViz takes to write its page."""
    make_application()
    subject = build_subject("bert-base", device)
    view = GridView()
    view.resize(900, 800)
    view.show()
    while not view.windowHandle().isExposed():
        QApplication.processEvents()
    seconds = [_paint_s(subject, view, n_tokens) for _ in range(N_ROUNDS)]
    view.close()
    view.deleteLater()
    results = [
        Measurement(
            name=f"144 maps, T = {n_tokens}: text to first paint",
            value=percentile(seconds, 50),
            unit="s",
            n_samples=N_ROUNDS,
            note="median, the forward pass of 12 layers included",
        )
    ]
    if importlib.util.find_spec("bertviz") is not None:
        page_s = _bertviz_s(subject, n_tokens)
        results.append(
            Measurement(
                name=f"144 maps, T = {n_tokens}: share of BertViz's page",
                value=percentile(seconds, 50) / page_s,
                unit="×",
                target=TARGET_SHARE,
                note=f"BertViz's model view took {page_s:.1f} s to write its page",
            )
        )
    return tuple(results)


def _paint_s(subject: Subject, view: GridView, n_tokens: int) -> float:
    ids = subject.ids(n_tokens)
    tokens = Tokens(text="", tokens=tuple(Token(id=int(id), piece=str(int(id))) for id in ids[0]))
    begin_s = time.perf_counter()
    sites = subject.sites
    probe = TraceProbe(sites, NO_GATES)
    with torch.inference_mode():
        subject.module(ids, probe=probe)
        trace = Trace(
            sites=sites, gates=NO_GATES, source=tokens, target=None, records=probe.records, logits=None
        )
        grids = tuple(trace.grid(site, THUMBNAIL_PX) for site in sites)
    view.set_grids(grids)
    view.repaint()
    return time.perf_counter() - begin_s


def _bertviz_s(subject: Subject, n_tokens: int) -> float:
    """Seconds that BertViz takes to write the page of the same attention, which it is handed."""
    bertviz: Any = importlib.import_module("bertviz")
    attention = tuple(torch.rand(1, 12, n_tokens, n_tokens).softmax(dim=-1) for _ in subject.sites)
    pieces = [f"t{index}" for index in range(n_tokens)]
    begin_s = time.perf_counter()
    page = bertviz.model_view(attention, pieces, html_action="return")
    _ = page.data
    return time.perf_counter() - begin_s
