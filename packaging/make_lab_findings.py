"""Works out the examples of the labs that take longer than a lecture waits, and keeps what was found.

Run from the repository's root after a change of those experiments, with the kinds that changed, all without:
python packaging/make_lab_findings.py [reach] [writing] [modifications] [tuning] [gradients] [warmup] [delay]
[steps] [store] [bleu] [probes]
What is not named stays as it was.
"""

import json
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # this checkout, not an installed copy

from attnscope.files import replace_file
from attnscope.labs import LABS
from attnscope.labs.findings import FINDINGS, KEPT, findings_path
from attnscope.models import load
from attnscope.outside import json_text
from attnscope.records.experiments import (
    BleuQuestion,
    DelayQuestion,
    GradientQuestion,
    ModifyQuestion,
    OpenModel,
    ProbeQuestion,
    Question,
    ReachQuestion,
    StepsQuestion,
    StoreQuestion,
    TuneQuestion,
    WarmupQuestion,
    WritingQuestion,
)
from attnscope.records.modifications import GROUPS
from attnscope.workers.serve_models import experiment_news


def asked_of(lab: str) -> Question:
    """Question of a lab's example."""
    entry = LABS[lab]
    return entry.question(entry.example, None)


TRANSLATOR = "english-french"


def asked_of_translator(lab: str) -> Question:
    """Question of a lab's example about the model that the program opens with."""
    entry = LABS[lab]
    key = f"{TRANSLATOR} {load(TRANSLATOR, device='cpu').info.sha256}"
    return entry.question(entry.example, OpenModel(key=key, translates=True))


QUESTIONS: dict[str, tuple[Question, ...]] = {
    "reach": (ReachQuestion(),),
    "writing": (WritingQuestion(),),
    "modifications": (
        *(ModifyQuestion(group=group) for group in GROUPS),
        asked_of("Learned positions, row E"),
    ),
    "tuning": (TuneQuestion(),),
    "gradients": (GradientQuestion(),),
    "warmup": (WarmupQuestion(),),
    "delay": (DelayQuestion(),),
    "steps": (StepsQuestion(),),
    "store": (StoreQuestion(),),
    "bleu": (asked_of_translator("BLEU"),),
    "probes": (asked_of_translator("Probing"),),
}


def found(questions: tuple[Question, ...]) -> Iterator[dict[str, object]]:
    """The worker's finding, as stored in the file."""
    for question in questions:
        *_, last = experiment_news(without_model(question))
        yield FINDINGS.write(replace(last.finding, question=question))


def without_model(question: Question) -> Question:
    """The same question of the translator by its name, where it is of the open model."""
    match question:
        case BleuQuestion():
            return replace(question, model="")
        case ProbeQuestion():
            return replace(question, model="", source=TRANSLATOR)
        case _:
            return question


torch.set_num_threads(1)
wanted = sys.argv[1:] or list(KEPT)
kept = json.loads(findings_path().read_text(encoding="utf-8"))
kept |= {kind: list(found(QUESTIONS[kind])) for kind in wanted}
replace_file(findings_path(), json_text(kept).encode())
