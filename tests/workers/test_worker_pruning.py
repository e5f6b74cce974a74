"""Removing heads from the open model, from request to replies."""

from pathlib import Path

import pytest
from worker_tools import WORDS, ask

from attnscope.models import load
from attnscope.records import (
    Failed,
    ForgetPruned,
    Gates,
    HeadRef,
    LoadModel,
    Progress,
    PrunedSaved,
    PruningTried,
    SavePruned,
    TryPruning,
)
from attnscope.workers import Engine

OFF = Gates.of({HeadRef(stack="decoder", layer=0, head=1): 0.0})


@pytest.fixture
def opened(engine: Engine, decoder: str) -> Engine:
    ask(engine, LoadModel(number=1, source=decoder, device="cpu"))
    return engine


def test_that_a_smaller_copy_is_tried_then_saved(opened: Engine, tmp_path: Path) -> None:
    *progress, tried = ask(opened, TryPruning(number=2, gates=OFF, text=WORDS[0]))
    assert [p.what for p in progress if isinstance(p, Progress)] == [
        "Removing heads",
        "Comparing every logit",
        "Measuring the speed",
    ]
    assert isinstance(tried, PruningTried)
    assert tried.shapes == ("small",)
    assert tried.report.proof.is_good
    assert tried.report.speed is not None
    assert tried.report.folder == ""
    saved = ask(opened, SavePruned(number=3, tried=2, folder=str(tmp_path / "small")))[-1]
    assert isinstance(saved, PrunedSaved)
    assert saved.report.after.file_bytes is not None
    assert load(tmp_path / "small", device="cpu").sites[0].n_heads == 1


def test_that_a_copy_that_is_gone_is_not_saved(opened: Engine, tmp_path: Path) -> None:
    ask(opened, TryPruning(number=2, gates=OFF, text=WORDS[0]))
    (stale,) = ask(opened, SavePruned(number=3, tried=1, folder=str(tmp_path / "x")))
    assert isinstance(stale, Failed)
    assert ask(opened, ForgetPruned(number=4)) == []
    (gone,) = ask(opened, SavePruned(number=5, tried=2, folder=str(tmp_path / "x")))
    assert isinstance(gone, Failed)
    assert "no longer available" in gone.message
    assert not (tmp_path / "x").exists()


def test_that_nothing_off_and_no_model_are_said(engine: Engine, opened: Engine, crashes: list[str]) -> None:
    failed = ask(opened, TryPruning(number=2))[-1]
    assert isinstance(failed, Failed)
    assert failed.message.startswith("No head is off.")
    empty = ask(Engine(lambda *_: None), TryPruning(number=2, gates=OFF))[-1]
    assert isinstance(empty, Failed)
    assert "No model is open" in empty.message
    assert crashes == []
