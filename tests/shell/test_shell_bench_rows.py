"""Every row of a benchmark can fail: a subject that is too slow, or too large, is told as too high."""

import functools
import importlib.machinery
import itertools
import sys
import time
import types
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from pytestqt.qtbot import QtBot

from attnscope.analysis import corpus
from attnscope.errors import UserError
from attnscope.nn import ModelConfig, build_transformer
from attnscope.records import HeadRef, LongMap, MapTile, Request, ShowTile, TileShown, Token
from attnscope.viewmodels import Requests
from attnscope.viewmodels.maps import MapTiles
from bench import (
    analysis,
    first_maps,
    frames,
    keystroke,
    lag,
    loading,
    long_window,
    start,
    tiles,
    tracing,
    window_memory,
    writing,
)
from bench.analysis import made_up_model
from bench.curves import measure_curves
from bench.exports import measure_exports
from bench.grid import measure_grid
from bench.lines import measure_lines
from bench.ratios import time_ratios
from bench.report import Doing, Measurement, NotRun, Row, is_clear
from bench.tracing import Subject

CPU = torch.device("cpu")


class Clock:
    """Time that passes only where a test says so."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s

    def taking(self, seconds: float, work: Callable[..., Any] = lambda *_, **__: None) -> Callable[..., Any]:
        """The same work, which takes so long."""

        def slow(*arguments: Any, **named: Any) -> Any:
            self.now_s += seconds
            return work(*arguments, **named)

        return slow


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(time, "perf_counter", made)
    return made


def judged(rows: Iterator[Row | Doing] | Row) -> list[bool | None]:
    """Whether each row kept its promise."""
    found = [rows] if isinstance(rows, Measurement) else [*rows]
    return [row.is_met for row in found if isinstance(row, Measurement)]


def tiny_subject(clock: Clock) -> Subject:
    """A model whose pass takes a second."""
    config = ModelConfig(form="encoder", vocab_size=16, d_model=16, n_layers=1, n_heads=2, d_ff=16)
    module = build_transformer(config, seed=0).eval()
    module.register_forward_pre_hook(clock.taking(1.0))
    return Subject(name="tiny", module=module, device=CPU, sites=module.sites())


@pytest.mark.parametrize(("seconds", "is_met"), [(0.5, True), (50.0, False)])
def test_that_a_slow_start_is_too_high(
    monkeypatch: pytest.MonkeyPatch, *, seconds: float, is_met: bool
) -> None:
    monkeypatch.setattr(time, "time", lambda: 0.0)
    told = {"ok": True, "started_at_s": 0.0, "painted_s": seconds, "traced_s": seconds}
    monkeypatch.setattr(start, "told_by", lambda *_, **__: told)
    assert judged(start.measure_start(n_runs=2)) == [is_met, is_met]


@pytest.mark.parametrize(
    ("seconds", "are_met"), [(1.1, [True] * 5), (1.3, [True] * 3 + [False, True]), (9, [False] * 5)]
)
def test_that_slow_commands_are_too_high(
    clock: Clock, monkeypatch: pytest.MonkeyPatch, *, seconds: float, are_met: list[bool]
) -> None:
    def run(command: list[str], **_: Any) -> SimpleNamespace:
        clock.now_s += seconds if "attnscope" in command else 1.0
        return SimpleNamespace(returncode=0)

    monkeypatch.setattr(start.subprocess, "run", run)
    assert judged(start.measure_commands(n_runs=2)) == are_met


@pytest.mark.parametrize(("seconds", "is_met"), [(7.0, True), (8.0, False)])
def test_that_a_slow_figure_of_a_large_model_is_too_high(
    clock: Clock, monkeypatch: pytest.MonkeyPatch, *, seconds: float, is_met: bool
) -> None:
    def run(command: list[str], **_: Any) -> SimpleNamespace:
        assert (Path(command[command.index("figure") + 1]) / "model.safetensors").exists()
        clock.now_s += seconds
        return SimpleNamespace(returncode=0)

    monkeypatch.setattr(start.subprocess, "run", run)
    monkeypatch.setattr(start, "BERT_BASE", {"n_pieces": 80, "d_model": 8, "n_layers": 1})
    assert judged(start.measure_large_figure(n_runs=2)) == [is_met]


@pytest.mark.slow
def test_that_the_model_of_that_figure_is_one_of_the_library(tmp_path: Path) -> None:
    library = pytest.importorskip("transformers")
    folder = loading.make_encoder_folder(tmp_path / "bert", n_pieces=80, d_model=128, n_layers=2)
    _, found = library.AutoModelForMaskedLM.from_pretrained(folder, output_loading_info=True)
    assert not any(found.values())  # no weight is missing, or more than the model has


def test_that_a_command_that_fails_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    failed = SimpleNamespace(returncode=2, stderr=b"no such model")
    monkeypatch.setattr(start.subprocess, "run", lambda *_, **__: failed)
    with pytest.raises(UserError, match="no such model"):
        judged(start.measure_commands(n_runs=2))


@pytest.mark.parametrize(("seconds", "is_met"), [(2.5, True), (3.5, False)])
def test_that_an_opening_much_slower_than_the_librarys_is_too_high(
    clock: Clock, monkeypatch: pytest.MonkeyPatch, *, seconds: float, is_met: bool
) -> None:
    def told(module: str, way: str, folder: str) -> dict[str, Any]:
        assert (Path(folder) / "model.safetensors").exists()
        clock.now_s += seconds if way == "attnscope" else 2.0
        return {}

    monkeypatch.setattr(start, "told_by", told)
    monkeypatch.setattr(start, "SHAPE", {"n_pieces": 80, "d_model": 8, "n_layers": 1})
    assert judged(start.measure_opening(n_runs=2)) == [is_met]


@pytest.mark.qt
@pytest.mark.parametrize(
    ("measure", "n_rows"),
    [
        (partial(measure_grid, n_frames=2), 4),
        (partial(measure_lines, n_frames=2, n_heads=2, n_tokens=12), 5),
        (partial(measure_curves, n_frames=2, n_runs=2, n_steps=60), 3),
        (partial(measure_exports, n_rounds=1), 3),
    ],
)
def test_that_slow_pictures_are_too_high(
    qtbot: QtBot, monkeypatch: pytest.MonkeyPatch, measure: Callable[[], Iterator[Row]], n_rows: int
) -> None:
    seconds = itertools.count()
    monkeypatch.setattr(time, "perf_counter", lambda: 2.0 * next(seconds))  # two seconds between two looks
    assert judged(measure()) == [False] * n_rows


def test_that_a_frame_is_judged_by_the_slow_ones_among_many(clock: Clock) -> None:
    def step(index: int) -> None:
        clock.now_s += 0.1 if index % 10 == 0 else 0.001

    row = frames.measure_frames("x", step, lambda: None, 40, target_ms=16.0)
    assert (row.name, row.is_met) == ("x p95", False)
    assert "median 1," in row.note


@pytest.mark.parametrize(("rss", "is_met"), [(100_000_000, True), (900_000_000, False)])
def test_that_a_large_window_is_too_high(monkeypatch: pytest.MonkeyPatch, *, rss: int, is_met: bool) -> None:
    told = {"rss": rss, "rss_after_pages": rss, "pss": rss, "uss": rss, "has_torch": False}
    monkeypatch.setattr(window_memory, "told_by", lambda *_, **__: told)
    assert judged(window_memory.measure_window_memory()) == [is_met, is_met]


def test_that_memory_which_the_system_does_not_tell_is_a_row_that_was_not_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    told = {"rss": 0, "rss_after_pages": 0, "pss": 0, "uss": 0, "has_torch": False, "peak_bytes": 0}
    for module in (window_memory, tiles):
        monkeypatch.setattr(module, "told_by", lambda *_, **__: told)
    rows = [*window_memory.measure_window_memory(), tiles.measure_long_memory()]
    assert [isinstance(row, NotRun) and "does not say" in row.reason for row in rows] == [True, True]


def test_that_memory_left_behind_is_too_high(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = iter((100_000_000, 300_000_000))
    monkeypatch.setattr(window_memory, "open_program", lambda: nullcontext(SimpleNamespace()))
    monkeypatch.setattr(window_memory, "wait_until", lambda *_: None)
    monkeypatch.setattr(window_memory, "turn_loop", lambda _: None)
    monkeypatch.setattr(window_memory, "resident_bytes", lambda: next(seen))
    assert judged(window_memory.measure_leak(n_actions=0, n_first=0)) == [False]


@pytest.mark.qt
def test_that_maps_slow_to_paint_are_too_high_and_a_missing_bertviz_is_told(
    qtbot: QtBot, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(first_maps, "build_subject", lambda *_: tiny_subject(clock))
    monkeypatch.setattr(tracing, "VOCAB_SIZE", 16)
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    slow = type("SlowView", (first_maps.GridView,), {"set_grids": clock.taking(1.0)})
    monkeypatch.setattr(first_maps, "GridView", slow)
    row, beside = first_maps.measure_first_maps(n_tokens=8)
    assert isinstance(row, Measurement)
    assert (row.value, row.is_met) == (2.0, False)
    assert isinstance(beside, NotRun)
    assert "BertViz" in beside.name
    assert beside.sentence.endswith("NOT RUN  bertviz is not installed")


@pytest.mark.qt
@pytest.mark.parametrize(("page_s", "is_met"), [(100.0, True), (5.0, False)])
def test_that_maps_are_set_against_the_page_that_bertviz_writes(
    qtbot: QtBot, clock: Clock, monkeypatch: pytest.MonkeyPatch, *, page_s: float, is_met: bool
) -> None:
    bertviz: Any = types.ModuleType("bertviz")
    bertviz.__spec__ = importlib.machinery.ModuleSpec("bertviz", None)
    bertviz.model_view = clock.taking(page_s, lambda *_, **__: SimpleNamespace(data=""))
    monkeypatch.setitem(sys.modules, "bertviz", bertviz)
    monkeypatch.setattr(first_maps, "build_subject", lambda *_: tiny_subject(clock))
    monkeypatch.setattr(first_maps, "N_PAGE_TOKENS", 8)
    monkeypatch.setattr(tracing, "VOCAB_SIZE", 16)
    *_, beside = judged(first_maps.measure_first_maps(n_tokens=8))
    assert beside is is_met


@pytest.mark.parametrize(("extra_s", "is_met"), [(0.01, True), (0.2, False)])
def test_that_a_slow_trace_is_too_high(
    clock: Clock, monkeypatch: pytest.MonkeyPatch, *, extra_s: float, is_met: bool
) -> None:
    monkeypatch.setattr(tracing, "LENGTHS", {"bert-base": (8, 12)})
    monkeypatch.setattr(tracing, "VOCAB_SIZE", 16)
    monkeypatch.setattr(tracing, "build_subject", lambda *_: tiny_subject(clock))
    monkeypatch.setattr(tracing, "TraceProbe", clock.taking(extra_s, tracing.TraceProbe))
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    *rows, peer = tracing.measure_tracing()
    assert judged(iter(rows)) == [is_met, is_met]
    assert isinstance(peer, NotRun)
    assert peer.reason == "transformers is not installed"


@pytest.mark.parametrize(("seconds", "is_met"), [(0.9, True), (2.0, False)])
def test_that_a_slow_probe_in_the_model_of_a_library_is_too_high(
    clock: Clock, monkeypatch: pytest.MonkeyPatch, *, seconds: float, is_met: bool
) -> None:
    import transformers

    config = transformers.BertConfig(
        vocab_size=tracing.VOCAB_SIZE, hidden_size=8, num_hidden_layers=1, num_attention_heads=2,
        intermediate_size=8, max_position_embeddings=64,
    )  # fmt: skip
    monkeypatch.setattr(transformers, "BertConfig", lambda **_: config)
    forward = transformers.BertForMaskedLM.forward

    @functools.wraps(forward)
    def timed(module, *given, **named):
        clock.now_s += 1.0 if named.get("output_attentions") else seconds
        return forward(module, *given, **named)

    monkeypatch.setattr(transformers.BertForMaskedLM, "forward", timed)
    row = tracing.measure_peer("bert-base", "cpu")
    assert isinstance(row, Measurement)
    assert (row.value, row.is_met) == (pytest.approx(seconds), is_met)


def test_that_rounds_end_in_time_but_three_are_measured(clock: Clock) -> None:
    ratios, plain_ms = time_ratios(clock.taking(10.0), clock.taking(20.0), 40, device=CPU, within_s=1.0)
    assert (ratios, plain_ms) == ([2.0] * 3, [10_000.0] * 3)
    ratios, _ = time_ratios(clock.taking(1.0), clock.taking(2.0), 40, device=CPU, within_s=60.0)
    assert 3 < len(ratios) < 40
    assert len(time_ratios(clock.taking(1.0), clock.taking(2.0), 40, device=CPU)[0]) == 40


@pytest.mark.parametrize(("seconds", "n_rounds"), [(1.0, 3), (1.9, 3), (1.1, 3), (1.5, 12)])
def test_that_rounds_end_once_it_is_clear_whether_a_limit_is_kept(
    clock: Clock, seconds: float, n_rounds: int
) -> None:
    times = itertools.cycle((seconds - 0.1, seconds + 0.1))

    def other() -> None:
        clock.now_s += next(times)

    ratios, _ = time_ratios(clock.taking(1.0), other, 12, device=CPU, target=1.5)
    assert len(ratios) == n_rounds


def test_that_a_limit_is_judged_by_samples_further_from_it_than_from_each_other() -> None:
    assert is_clear([1.0, 1.1], 1.3)
    assert is_clear([1.5, 1.6], 1.3)
    assert not is_clear([1.0, 1.2], 1.3)
    assert not is_clear([1.2, 1.4], 1.3)
    assert not is_clear([1.0], 9.0)


def test_that_slow_keystrokes_are_too_high(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    session = SimpleNamespace(traced=None, model=None)
    monkeypatch.setattr(keystroke, "open_program", lambda _: nullcontext(SimpleNamespace(session=session)))
    monkeypatch.setattr(keystroke, "write_small_model", lambda folder: folder)
    monkeypatch.setattr(keystroke, "text_of", lambda *_: "the cat")
    monkeypatch.setattr(keystroke, "wait_until", lambda *_: None)
    module = clock.taking(1.0)
    module.config = SimpleNamespace(vocab_size=10)  # type: ignore[attr-defined]
    monkeypatch.setattr(keystroke, "write_gpt2_model", lambda _: module)
    for key_ms, is_met in ((90.0, True), (2_000.0, False)):
        monkeypatch.setattr(keystroke, "type_text", lambda *_, key_ms=key_ms: key_ms)
        monkeypatch.setattr(keystroke, "translate_once", lambda *_, key_ms=key_ms: (key_ms, key_ms))
        assert judged(keystroke.measure_typing(3)) == [is_met]
        assert judged(keystroke.measure_translating(3)) == [is_met, is_met]
        assert judged(keystroke.measure_large_typing(2)) == [is_met]


def test_that_a_window_that_answers_late_is_too_high(monkeypatch: pytest.MonkeyPatch) -> None:
    probe: Any = SimpleNamespace(lags_ms=[], work_ms=[], start=lambda: None, stop=lambda: None)
    monkeypatch.setattr(lag, "turn_loop", lambda _: probe.lags_ms.extend([1.0] * 90 + [80.0] * 10))
    row = lag.watch(probe, "training", 1.0)
    assert (row.name, row.value, row.is_met) == ("event-loop lag, training p99", 80.0, False)


def test_that_opening_that_holds_up_the_window_is_too_high_or_told_as_not_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    told = {"loading GPT-2": [1.0] * 5, "loading 250,000 pieces": [1.0, 500.0]}
    monkeypatch.setattr(loading, "told_by", lambda *_, **__: told)
    rows = list(loading.measure_loading())
    assert judged(rows[::2]) == [True, False]
    assert [row.value for row in rows[1::2]] == [1.0, 500.0]
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    (row,) = loading.measure_loading()
    assert isinstance(row, NotRun)


@pytest.mark.parametrize(("extra_s", "is_met"), [(0.0, True), (5.0, False)])
def test_that_intervals_and_stripe_count_as_what_measures_cost(
    clock: Clock, monkeypatch: pytest.MonkeyPatch, *, extra_s: float, is_met: bool
) -> None:
    model = made_up_model(form="encoder", d_model=16, n_layers=1, n_heads=2, d_ff=16, max_tokens=64)
    monkeypatch.setattr(analysis, "run_batch", clock.taking(10.0, analysis.run_batch))
    monkeypatch.setattr(corpus, "run_batch", clock.taking(10.0, corpus.run_batch))
    monkeypatch.setattr(corpus, "stripe_scores", clock.taking(extra_s, corpus.stripe_scores))
    row = analysis.measure_corpus_cost(4, model=model)
    assert row.is_met is is_met
    assert row.value == pytest.approx(1.0 + extra_s / 10.0)


@pytest.mark.slow
def test_that_slow_importance_and_rollout_are_too_high(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(analysis, "token_losses", clock.taking(3.0, analysis.token_losses))
    for seconds, is_met in ((2.0, True), (4.0, False)):
        monkeypatch.setattr(analysis, "measure_importance", clock.taking(seconds, lambda *_: iter(())))
        row = analysis.measure_importance_cost(n_rounds=1, n_texts=2, n_tokens=4)
        assert (row.value, row.is_met) == (pytest.approx(seconds / 3.0), is_met)
    assert analysis.measure_rollout(n_rounds=1, n_tokens=8).is_met
    monkeypatch.setattr(analysis, "rollout", clock.taking(9.0))
    assert analysis.measure_rollout(n_rounds=1, n_tokens=8).is_met is False


def test_that_importance_runs_beside_a_pass_that_computes_gradients() -> None:
    row = analysis.measure_importance_cost(n_rounds=1, n_texts=2, n_tokens=4)
    assert row.n_samples == 1
    assert row.value > 0


@pytest.mark.slow
def test_that_slow_tiles_are_too_high(monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = itertools.count()
    record = tiles.make_record(1_000, CPU)
    monkeypatch.setattr(time, "perf_counter", lambda: 3.0 * next(seconds))
    assert judged(tiles.head_measurements(record)) == [False] * 4


@pytest.mark.parametrize(("peak", "is_met"), [(500_000_000, True), (9_000_000_000, False)])
def test_that_the_memory_of_a_long_text_is_too_high(
    monkeypatch: pytest.MonkeyPatch, *, peak: int, is_met: bool
) -> None:
    told = {"n_tokens": 32_768, "seconds": 1.0, "peak_bytes": peak}
    monkeypatch.setattr(tiles, "told_by", lambda *_, **__: told)
    assert judged(tiles.measure_long_memory()) == [is_met]


class FarMap:
    """A long map whose tiles come when the event loop is turned, each after so many seconds."""

    def __init__(self, clock: Clock, tile_s: float, n_tokens: int = 4_000) -> None:
        self._clock, self._tile_s = clock, tile_s
        self._asked: list[Request] = []
        self.seen: list[tuple[tuple[int, int], tuple[int, int]]] = []
        self.state = MapTiles(Requests(self._asked.append))
        tokens = tuple(Token(id=index, piece="t") for index in range(n_tokens))
        head = HeadRef(stack="decoder", layer=0, head=0)
        self.state.set_area(400.0, 300.0)
        self.state.show(LongMap(model="far", trace=1, head=head, queries=tokens, keys=tokens))
        self.street: Any = SimpleNamespace(layout_now=lambda: None, repaint=self._note)
        self.turn_loop(0.0)

    def turn_loop(self, _seconds: float) -> None:
        """Answer what was asked for."""
        for request in self._asked:
            if isinstance(request, ShowTile):
                self._clock.now_s += self._tile_s
                self.state.handle(TileShown(number=request.number, slot=request.slot, tile=_tile(request)))
        self._asked.clear()

    def _note(self) -> None:
        assert self.state.window is not None
        self.seen.append((self.state.window.rows, self.state.window.cols))


def _tile(request: ShowTile) -> MapTile:
    shape = tuple(-(-(stop - first) // request.b) for first, stop in (request.rows, request.cols))
    return MapTile(
        head=request.head,
        trace=request.trace,
        rows=request.rows,
        cols=request.cols,
        b=request.b,
        levels=np.ones(shape, np.uint8),
        peak=1.0,
        head_peak=1.0,
        weights=np.ones(shape, np.float32) if request.b == 1 else None,
    )


@pytest.mark.parametrize(("tile_s", "is_fast"), [(0.01, True), (0.5, False)])
def test_that_a_jump_goes_where_nothing_was_seen_before_and_waits_for_its_tile(
    clock: Clock, monkeypatch: pytest.MonkeyPatch, *, tile_s: float, is_fast: bool
) -> None:
    far = FarMap(clock, tile_s)
    monkeypatch.setattr(long_window, "turn_loop", far.turn_loop)
    took_ms = long_window.jump(far.street, far.state, n_jumps=12)
    assert took_ms == pytest.approx([tile_s * 1e3] * 12)
    assert (max(took_ms) <= long_window.JUMP_MS) is is_fast
    assert len(far.seen) == 13
    for (rows, cols), (others, other_cols) in itertools.combinations(far.seen, 2):
        assert (
            rows[1] <= others[0]
            or others[1] <= rows[0]
            or cols[1] <= other_cols[0]
            or other_cols[1] <= cols[0]
        )


class Library:
    """A rival that takes a second for anything."""

    n_threads, name = 1, "generate"

    def __init__(self, clock: Clock, ids: list[int]) -> None:
        self._ids = ids
        self.write = clock.taking(1.0, lambda _prompt, n: self._ids[:n])


@pytest.mark.parametrize(("seconds", "is_met"), [(0.9, True), (1.5, False)])
def test_that_slow_writing_is_too_high(clock: Clock, *, seconds: float, is_met: bool) -> None:
    model = writing.own(CPU)
    quick = model.write(writing.PROMPT, writing.WriteSettings(max_tokens=3))
    rival: Any = Library(clock, [])
    slow: Any = SimpleNamespace(
        write=clock.taking(seconds, lambda *_: quick), network=model.network, device=CPU
    )
    (row,) = writing.in_turns({"own": slow}, [rival], 3)
    assert isinstance(row, Measurement)
    assert (row.value, row.is_met) == (pytest.approx(seconds), is_met)
    assert "own: 3 tokens" in row.name


def test_that_a_library_that_is_not_installed_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    (row,) = writing.measure_writing()
    assert isinstance(row, NotRun)
    assert row.reason == "transformers is not installed"


@pytest.mark.slow
def test_that_the_library_writes_the_same_text_with_the_same_weights(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writing, "quickest_way", lambda work, ways: ways[-1])
    folder = writing.make_folder(tmp_path / "model", n_pieces=80, d_model=64, n_layers=1)
    model, library = writing.load(str(folder), device="cpu"), writing.Library(folder, CPU)
    telling = writing.Library(folder, CPU, has_attention=True)
    other: Any = Library(Clock(), [-1] * 5)
    monkeypatch.setattr(writing, "N_ROUNDS", 1)
    plain, with_attention, differing = writing.in_turns({"same": model}, [library, telling, other], 5)
    assert plain.name.endswith("generate")
    assert with_attention.name.endswith("generate with output_attentions")
    assert ["DIFFER" in row.sentence for row in (plain, with_attention, differing)] == [False, False, True]


def test_that_a_model_that_ends_its_text_early_is_told() -> None:
    model = writing.own(CPU)
    short: Any = SimpleNamespace(
        write=lambda *_: model.write(writing.PROMPT, writing.WriteSettings(max_tokens=2))
    )
    with pytest.raises(UserError, match="own wrote 2 tokens, expected 3"):
        next(writing.in_turns({"own": short}, [], 3))
