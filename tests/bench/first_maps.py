"""From a text to the first paint of all 144 maps of 12 × 12 heads: over the plain pass, and over BertViz.

BertViz's model view writes a page that a browser has to load afterwards; only the writing is timed, of
attention that it is handed, and at a length at which it is quick: its page grows with the square of the text.
"""

import importlib
import importlib.util
from collections.abc import Iterator
from typing import Any

import torch

from attnscope.app import make_application
from attnscope.records import NO_GATES, Token, Tokens
from attnscope.trace import TextRecord, Trace, TraceProbe
from attnscope.widgets.explore import GridView
from bench.frames import show_and_wait
from bench.ratios import time_ratios
from bench.report import NotRun, Row, median_of, percentile
from bench.tracing import Subject, build_subject

N_TOKENS, N_PAGE_TOKENS = 512, 128
N_ROUNDS, WITHIN_S = 5, 6.0
MAX_RATIO, MAX_SHARE = 1.5, 0.1
THUMBNAIL_PX = 96


def measure_first_maps(device: str = "cpu", n_tokens: int = N_TOKENS) -> Iterator[Row]:
    """Time from ids to painted maps over that of the pass alone, and over BertViz's time for its page."""
    make_application()
    subject = build_subject("bert-base", device)
    view = GridView()
    view.resize(900, 800)
    show_and_wait(view)
    ids = subject.ids(n_tokens)
    ratios, plain_ms = time_ratios(
        lambda: subject.module(ids),
        lambda: _paint(subject, view, n_tokens),
        N_ROUNDS,
        device=subject.device,
        within_s=WITHIN_S,
        target=MAX_RATIO,
    )
    yield median_of(
        f"144 maps, T = {n_tokens}: text to first paint / plain pass",
        ratios,
        "×",
        target=MAX_RATIO,
        note=f"plain {percentile(plain_ms, 50):.0f} ms on {subject.device}",
    )
    yield _beside_bertviz(subject, view)
    view.close()
    view.deleteLater()


def _beside_bertviz(subject: Subject, view: GridView) -> Row:
    name = f"144 maps, T = {N_PAGE_TOKENS}: text to first paint / BertViz's page"
    if importlib.util.find_spec("bertviz") is None:
        return NotRun(name=name, reason="bertviz is not installed")
    ratios, page_ms = time_ratios(
        lambda: _write_page(subject, N_PAGE_TOKENS),
        lambda: _paint(subject, view, N_PAGE_TOKENS),
        N_ROUNDS,
        device=subject.device,
        within_s=WITHIN_S,
        target=MAX_SHARE,
    )
    note = f"BertViz's model view took {percentile(page_ms, 50) / 1e3:.1f} s to write its page"
    return median_of(name, ratios, "×", target=MAX_SHARE, note=note)


def _paint(subject: Subject, view: GridView, n_tokens: int) -> None:
    ids = subject.ids(n_tokens)
    tokens = Tokens(text="", tokens=tuple(Token(id=int(id), piece=str(int(id))) for id in ids[0]))
    sites = subject.sites
    probe = TraceProbe(sites, NO_GATES)
    subject.module(ids, probe=probe)
    trace = Trace(
        TextRecord(
            sites=sites,
            gates=NO_GATES,
            source=tokens,
            target=None,
            records=probe.records,
        )
    )
    view.set_grids(trace.grids(THUMBNAIL_PX))
    view.repaint()


def _write_page(subject: Subject, n_tokens: int) -> None:
    """BertViz's page of attention that it is handed."""
    bertviz: Any = importlib.import_module("bertviz")
    attention = tuple(torch.rand(1, 12, n_tokens, n_tokens).softmax(dim=-1) for _ in subject.sites)
    page = bertviz.model_view(attention, [f"t{index}" for index in range(n_tokens)], html_action="return")
    _ = page.data
