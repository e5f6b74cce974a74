"""Precomputed findings of the labs' examples, for those that take longer than a lecture can wait."""

from dataclasses import replace
from pathlib import Path

from attnscope.codec import Codec
from attnscope.errors import LoadError
from attnscope.outside import as_object, read_json
from attnscope.paths import resources_folder
from attnscope.records.experiments import (
    BleuFinding,
    DelayFinding,
    Finding,
    GradientFinding,
    ModifyFinding,
    ProbeFinding,
    Question,
    ReachFinding,
    StepsFinding,
    StoreFinding,
    TuneFinding,
    WarmupFinding,
    WritingFinding,
)

FINDINGS = Codec(is_strict=True, is_sparse=True, odd="texts")
KEPT: dict[str, type[Finding]] = {
    "reach": ReachFinding,
    "writing": WritingFinding,
    "modifications": ModifyFinding,
    "tuning": TuneFinding,
    "gradients": GradientFinding,
    "warmup": WarmupFinding,
    "delay": DelayFinding,
    "steps": StepsFinding,
    "store": StoreFinding,
    "bleu": BleuFinding,
    "probes": ProbeFinding,
}
"""The kinds that are kept, by their keys in the file: a list of findings each."""


TRANSLATOR = "english-french"
"""The model whose BLEU is asked for where none is named."""


def findings_path() -> Path:
    return resources_folder() / "labs" / "findings.json"


def kept_findings() -> dict[Question, Finding]:
    """The findings by their questions; none if the file is missing or unreadable."""
    try:
        values = as_object(read_json(findings_path()), what="the labs' findings")
        found: list[Finding] = [
            FINDINGS.read(kind, one) for key, kind in KEPT.items() for one in _listed(values.get(key, []))
        ]
    except (LoadError, ValueError):
        return {}  # the labs train them instead
    return {one.question: one for finding in found for one in _asked_alike(finding)}


def _asked_alike(finding: Finding) -> tuple[Finding, ...]:
    """The finding, and the same under the question as the command line and Python ask it, without an open
    model.
    """
    if isinstance(finding, BleuFinding) and finding.question.model.split(" ")[0] == TRANSLATOR:
        return finding, replace(finding, question=replace(finding.question, model=""))
    if isinstance(finding, ProbeFinding) and not finding.question.source:
        name = finding.question.model.split(" ")[0]
        return finding, replace(finding, question=replace(finding.question, model="", source=name))
    return (finding,)


def _listed(value: object) -> list[object]:
    """List stored under a key; raises ValueError if it is not a list."""
    if not isinstance(value, list):
        raise ValueError("the labs' findings of a kind are no list")
    return value
