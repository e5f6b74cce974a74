"""Parts, patches and rank collapse of a Hugging Face model through the worker, as the window asks."""

from pathlib import Path

import numpy as np
import pytest
from hf_folders import make, save_folder, save_picture
from worker_tools import ask

from attnscope.models import load
from attnscope.records import (
    AttributeOutput,
    CollapseQuestion,
    ExperimentNews,
    Failed,
    InfluenceShown,
    LoadModel,
    OutputAttributed,
    PatchTexts,
    RunExperiment,
    ShowInfluence,
    TextsPatched,
    TraceText,
)
from attnscope.workers import Engine


def opened(folder: Path) -> Engine:
    engine = Engine(lambda error, what: None)
    ask(engine, LoadModel(number=1, source=str(folder), device="cpu"))
    return engine


def test_that_the_window_gets_parts_patches_and_collapse_of_gpt2(tmp_path: Path) -> None:
    folder = save_folder(tmp_path / "gpt2", *make("gpt2"))
    engine, model = opened(folder), load(folder, device="cpu")
    (reply,) = ask(engine, AttributeOutput(number=2, position=3, text="ham and", answer="the", other="t"))
    assert isinstance(reply, OutputAttributed)
    found, row = reply.attribution, model.trace("ham and").logits[3].astype(np.float64)
    assert {found.answer.piece.strip(), found.other.piece} == {"the", "t"}
    assert found.total == pytest.approx(row[found.answer.id] - row[found.other.id], abs=1e-4)
    replies = ask(engine, PatchTexts(number=3, clean="ham and", corrupt="jam and", kind="head"))
    while engine.is_training:
        replies += engine.advance_training()
    assert isinstance(replies[-1], TextsPatched)
    assert replies[-1].patched.patched.shape == (2, 4)
    replies = ask(engine, RunExperiment(number=4, question=CollapseQuestion(model="gpt2", text="ham and")))
    while engine.is_training:
        replies += engine.advance_training()
    news = next(one for one in replies if isinstance(one, ExperimentNews) and one.is_done)
    assert {len(curve.ratios) for curve in news.finding.curves} == {3}  # type: ignore[union-attr]


def test_that_a_model_of_labels_is_taken_apart_where_its_label_stands(tmp_path: Path) -> None:
    engine = opened(save_folder(tmp_path / "labels", *make("gpt2-classes")))
    (failed,) = ask(engine, AttributeOutput(number=2, position=0, text="ham"))
    assert isinstance(failed, Failed)
    assert "one class for the whole text, not for token 0" in failed.message
    (reply,) = ask(engine, AttributeOutput(number=3, position=2, text="ham", answer="LABEL_1"))
    assert isinstance(reply, OutputAttributed)
    assert reply.attribution.answer.piece == "LABEL_1"
    assert reply.picture is None


def test_that_a_picture_comes_with_what_is_laid_over_it(tmp_path: Path) -> None:
    folder = save_folder(tmp_path / "vit", *make("vit"))
    engine, path = opened(folder), save_picture(tmp_path / "p.png", height=8, width=8)
    ask(engine, TraceText(number=2, text=path))
    (reply,) = ask(engine, AttributeOutput(number=3, position=0, text=path, answer="dog"))
    assert isinstance(reply, OutputAttributed)
    assert reply.picture is not None
    assert reply.attribution.reads is not None
    assert len(reply.attribution.reads) == reply.picture.n_tokens
    replies = ask(engine, ShowInfluence(number=4, trace=2, position=0, text=path))
    while engine.is_training:
        replies += engine.advance_training()
    last = replies[-1]
    assert isinstance(last, InfluenceShown)
    assert [row.refusal for row in last.rows] == ["", "", "", ""]
    assert last.picture is not None
