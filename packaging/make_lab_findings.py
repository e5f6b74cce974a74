"""Works out the examples of the labs that take longer than a lecture waits, and keeps what was found.

Run from the repository's root after a change of those experiments, with the kinds that changed, all without:
python packaging/make_lab_findings.py [reach] [writing] [modifications] [tuning] [gradients] [warmup] [delay]
[steps] [store]
What is not named stays as it was.
"""

import json
import sys
from collections.abc import Iterator

import torch

from attnscope.files import replace_file
from attnscope.labs import LABS
from attnscope.labs.findings import FINDINGS, KEPT, findings_path
from attnscope.records.experiments import (
    DelayQuestion,
    GradientQuestion,
    ModifyQuestion,
    Question,
    ReachQuestion,
    StepsQuestion,
    StoreQuestion,
    TuneQuestion,
    WarmupQuestion,
    WritingQuestion,
)
from attnscope.records.modifications import GROUPS
from attnscope.strict_json import json_text
from attnscope.workers.serve_experiments import experiment_news


def asked_of(lab: str) -> Question:
    """What the example of a lab asks."""
    entry = LABS[lab]
    return entry.question(entry.example, None)


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
}


def found(questions: tuple[Question, ...]) -> Iterator[dict[str, object]]:
    """What the worker finds, as it stands in the file."""
    for question in questions:
        *_, last = experiment_news(question)
        yield FINDINGS.write(last.finding)


torch.set_num_threads(1)
wanted = sys.argv[1:] or list(KEPT)
kept = json.loads(findings_path().read_text(encoding="utf-8"))
kept |= {kind: list(found(QUESTIONS[kind])) for kind in wanted}
replace_file(findings_path(), json_text(kept).encode())
