"""Every question that few models can be asked names a kept run, whose model answers it."""

from pathlib import Path

import pytest

import attnscope as at
from attnscope.errors import LoadError
from attnscope.models import kept_run_folder
from attnscope.paths import resources_folder
from attnscope.questions import QUESTIONS

RARE = [question for question in QUESTIONS.values() if question.kept_run]
MODELS = sorted(path.parent.name for path in (resources_folder() / "films").glob("*/checkpoints"))


@pytest.mark.parametrize("question", RARE, ids=lambda question: question.name)
def test_that_the_kept_run_of_a_question_answers_it(question):
    model = at.load(question.kept_run)
    sample = model.info.samples[0]
    head = model.sites[0].heads[0] if question.is_of_head else None
    found = at.ask(question.name, model, sample.text, target=sample.target, head=head)
    assert found.sentence
    assert found.charts or found.maps or found.tables


@pytest.mark.parametrize("name", MODELS)
def test_that_a_kept_run_opens_by_the_name_of_its_recipe_with_its_last_model(name):
    model = at.load(name)
    (checkpoint,) = (resources_folder() / "films" / name / "checkpoints").iterdir()
    last = (resources_folder() / "films" / name / "probes" / f"{checkpoint.name}.safetensors").is_file()
    assert (model.info.name, last) == (name, True)


def test_that_questions_without_a_rare_part_are_asked_of_any_model():
    assert {question.kept_run for question in RARE} <= set(MODELS)
    assert not QUESTIONS["residual-stream"].kept_run


def test_that_a_folder_of_ones_own_comes_before_a_kept_run(tmp_path: Path, monkeypatch):
    (tmp_path / MODELS[0]).mkdir()
    monkeypatch.chdir(tmp_path)
    with pytest.raises(LoadError):
        at.load(MODELS[0])


@pytest.mark.parametrize("name", ["", "..", "../films", "no-such-recipe", "."])
def test_that_nothing_else_is_taken_for_a_kept_run(name):
    assert kept_run_folder(name) is None
