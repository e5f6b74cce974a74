"""Which heads attend alike, from the worker: over texts, and over the text that is shown."""

from pathlib import Path

import numpy as np
import pytest
from worker_tools import ask, save_tiny, train_to_end

from attnscope.analysis import head_pairs
from attnscope.models import load
from attnscope.records import (
    CompareHeads,
    ComparingNews,
    Failed,
    HeadPairs,
    HeadsCompared,
    LoadModel,
    StopWork,
    TraceText,
)
from attnscope.workers import Engine, serve_measuring

TEXT = "the cat sat on the mat"


def test_that_the_shown_text_and_a_file_of_it_give_the_same_pairs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = save_tiny(tmp_path / "model", "decoder")
    engine = Engine(lambda error, what: None)
    ask(engine, LoadModel(number=1, source=folder, device="cpu"))
    ask(engine, TraceText(number=2, text=TEXT))
    ask(engine, CompareHeads(number=3, stack="decoder", trace=2))
    shown = list(train_to_end(engine))[-1]
    assert isinstance(shown, HeadsCompared)
    path = tmp_path / "texts.txt"
    path.write_text(f"{TEXT}\n", encoding="utf-8")
    ask(engine, CompareHeads(number=4, stack="decoder", source="file", path=str(path)))
    first = next(iter(engine.advance_training()))
    assert isinstance(first, ComparingNews)
    read = list(train_to_end(engine))[-1]
    assert isinstance(read, HeadsCompared)
    assert (read.texts, read.number) == ("texts.txt", 4)
    (pairs,) = [p for p in head_pairs(load(folder), [TEXT]) if isinstance(p, HeadPairs)]
    for found in (shown.pairs, read.pairs):
        np.testing.assert_allclose(found.divergences, pairs.divergences, atol=1e-6)
    ask(engine, CompareHeads(number=5, stack="decoder", trace=1))
    last = list(train_to_end(engine))[-1]
    assert isinstance(last, Failed)
    monkeypatch.setattr(serve_measuring, "MAX_SHOWN", 3)
    ask(engine, CompareHeads(number=6, stack="decoder", trace=2))
    last = list(train_to_end(engine))[-1]
    assert isinstance(last, Failed)
    assert "at most 3 tokens" in last.message
    ask(engine, CompareHeads(number=7, stack="decoder", source="samples"))
    ask(engine, StopWork(work="CompareHeads", number=8))
    assert not engine.is_training
