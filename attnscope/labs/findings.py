"""What the labs' examples found, for those that train longer than a lecture waits: there at once."""

from pathlib import Path

from attnscope.codec import Codec
from attnscope.errors import LoadError
from attnscope.paths import resources_folder
from attnscope.records.experiments import Finding, Question, ReachFinding, WritingFinding
from attnscope.strict_json import as_object, read_json

FINDINGS = Codec(is_strict=True, is_sparse=True, odd="texts")


def findings_path() -> Path:
    """Where they are kept."""
    return resources_folder() / "labs" / "findings.json"


def kept_findings() -> dict[Question, Finding]:
    """The findings by their questions; none where the file is missing or cannot be read."""
    try:
        values = as_object(read_json(findings_path()), what="the labs' findings")
        reach = FINDINGS.read(ReachFinding, values.get("reach"))
        writing = FINDINGS.read(WritingFinding, values.get("writing"))
    except (LoadError, ValueError):
        return {}  # the labs train them instead
    return {reach.question: reach, writing.question: writing}
