"""What the labs' examples found, for those that train longer than a lecture waits: there at once.

`resources/labs/findings.json` is made by `packaging/make_lab_findings.py` with the experiments themselves; a
choice other than the example has them done anew. Must not import Qt.
"""

from pathlib import Path

from attnscope.errors import LoadError
from attnscope.figures.record_json import record_from_json
from attnscope.paths import resources_folder
from attnscope.records.experiments import Finding, Question, ReachFinding, WritingFinding
from attnscope.strict_json import as_object, read_json


def findings_path() -> Path:
    """Where they are kept."""
    return resources_folder() / "labs" / "findings.json"


def kept_findings() -> dict[Question, Finding]:
    """The findings by their questions; none where the file is missing or cannot be read."""
    try:
        values = as_object(read_json(findings_path()), what="the labs' findings")
        reach = record_from_json(ReachFinding, values.get("reach"))
        writing = record_from_json(WritingFinding, values.get("writing"))
    except (LoadError, ValueError):
        return {}  # the labs train them instead
    return {reach.question: reach, writing.question: writing}
