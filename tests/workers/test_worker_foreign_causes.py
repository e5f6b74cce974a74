"""Parts, patches and rank collapse of a Hugging Face model through the worker, as the window asks."""

from pathlib import Path

import numpy as np
import pytest
from hf_folders import make, save_folder
from worker_tools import ask

from attnscope.models import load
from attnscope.records.causes import AttributeOutput, OutputAttributed, PatchTexts, TextsPatched
from attnscope.records.experiments import CollapseQuestion, ExperimentNews, RunExperiment
from attnscope.records.messages import Failed, LoadModel
from attnscope.workers.handlers import Engine


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


def test_that_a_model_of_labels_says_why_it_has_no_parts(tmp_path: Path) -> None:
    engine = opened(save_folder(tmp_path / "labels", *make("gpt2-classes")))
    (reply,) = ask(engine, AttributeOutput(number=2, position=0, text="ham"))
    assert isinstance(reply, Failed)
    assert "no vocabulary" in reply.message
