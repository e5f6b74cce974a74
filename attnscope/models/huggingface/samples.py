"""Sentences to begin with, for models whose training is not known here."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from attnscope.models.huggingface.tasks import Task
from attnscope.models.network import Vocabulary
from attnscope.paths import resources_folder
from attnscope.records.models import Sample
from attnscope.text.samples import samples_for

_CLASSIFIED = (
    Sample(text="The film was far too long, but I loved every minute of it.", hint="Which words decide?"),
    Sample(text="I would not call this a good book.", hint="Which head looks from 'good' at 'not'?"),
    Sample(text="Nothing worked, nobody answered, and I want my money back.", hint="Which words decide?"),
)
_PICTURE_FILE = "still-life.png"


def samples_of(task: Task, vocabulary: Vocabulary, values: Mapping[str, Any]) -> tuple[Sample, ...]:
    """Sample sentences for a model, a picture for one that reads pictures; none for speech."""
    if task.reads_pictures:
        return (
            Sample(
                text=str(resources_folder() / "samples" / _PICTURE_FILE),
                hint="Which heads keep the ball apart from the table?",
            ),
        )
    if task.name == "speech":
        return ()
    if task.name in ("classification", "tagging"):
        return _CLASSIFIED
    if task.name == "masked" and vocabulary.has("mask"):
        return samples_for("encoder", "masked")
    if task.name == "translation":
        prefix = _prefix(values)
        return tuple(_after(prefix, sample) for sample in samples_for("encoder-decoder", "translation"))
    if task.name == "headless" and task.form == "encoder":
        return samples_for("encoder", "representations")
    return samples_for("decoder", "causal")


def _after(prefix: str, sample: Sample) -> Sample:
    return replace(sample, text=prefix + sample.text, pair=sample.pair and prefix + sample.pair)


def _prefix(values: Mapping[str, Any]) -> str:
    """What a model of several tasks (T5) wants before a text to translate, from its own configuration."""
    tasks = values.get("task_specific_params")
    task = tasks.get("translation_en_to_fr") if isinstance(tasks, dict) else None
    prefix = task.get("prefix") if isinstance(task, dict) else None
    return prefix[:80] if isinstance(prefix, str) else ""
