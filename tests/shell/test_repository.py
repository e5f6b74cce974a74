"""What the repository says to those who join: forms for issues, checks on three systems, citation, pins."""

import re
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
FORMS = sorted(path for path in (ROOT / ".github/ISSUE_TEMPLATE").glob("*.yml") if path.stem != "config")
WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))
KINDS = {"markdown", "textarea", "input", "dropdown", "checkboxes"}
LISTING = {"dropdown", "checkboxes"}


def read(path: Path) -> dict[str, Any]:
    return yaml.safe_load(path.read_text(encoding="utf-8"))


@pytest.mark.parametrize("path", FORMS, ids=lambda path: path.stem)
def test_that_a_form_for_issues_is_as_github_reads_it(path: Path) -> None:
    form = read(path)
    assert form.keys() <= {"name", "description", "labels", "body", "title"}
    assert form["name"]
    assert form["description"]
    names = [part["id"] for part in form["body"]]
    assert len(names) == len(set(names))
    assert any(part.get("validations", {}).get("required") for part in form["body"])
    for part in form["body"]:
        assert part.keys() <= {"type", "id", "attributes", "validations"}
        assert part["type"] in KINDS
        assert re.fullmatch(r"[a-z_-]+", part["id"])
        assert part["attributes"]["label"]
        assert ("options" in part["attributes"]) == (part["type"] in LISTING)


def test_that_there_are_forms_for_faults_models_and_wishes() -> None:
    assert [path.stem for path in FORMS] == ["fault", "model", "wish"]
    assert read(ROOT / ".github/ISSUE_TEMPLATE/config.yml") == {"blank_issues_enabled": True}


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_that_a_workflow_has_jobs_with_steps_that_may_only_read(path: Path) -> None:
    workflow = read(path)
    assert workflow[True]  # `on`, which YAML 1.1 takes for a truth
    assert workflow["permissions"] == {"contents": "read"}
    for job in workflow["jobs"].values():
        assert job["runs-on"]
        assert all(("uses" in step) != ("run" in step) for step in job["steps"])


def test_that_every_system_runs_what_a_checkout_runs() -> None:
    (job,) = read(ROOT / ".github/workflows/checks.yml")["jobs"].values()
    systems = {name.partition("-")[0] for name in job["strategy"]["matrix"]["system"]}
    assert systems == {"ubuntu", "windows", "macos"}
    assert "bash .ci/run" in [step.get("run") for step in job["steps"]]


@pytest.mark.parametrize("name", ["run", "packages"])
def test_that_the_checks_are_a_script_that_bash_reads(name: str) -> None:
    assert subprocess.run(["bash", "-n", f".ci/{name}"], cwd=ROOT, check=False).returncode == 0


def test_that_what_people_install_is_built_and_tried_every_night() -> None:
    workflow = read(ROOT / ".github/workflows/release.yml")
    assert workflow[True]["schedule"]
    (job,) = workflow["jobs"].values()
    lines = [line for step in job["steps"] for line in step.get("run", "").splitlines()]
    assert [line for line in lines if ".ci/packages" in line] == [
        "bash .ci/packages python bundle",
        "sudo bash .ci/packages deb",
    ]


def test_that_an_unknown_package_is_refused_in_one_line() -> None:
    done = subprocess.run(
        ["bash", ".ci/packages", "rpm"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (1, "failed: 'rpm': expected python, bundle or deb\n")


@pytest.mark.parametrize("place", ["README.md", "packaging/RELEASE.md", ".github/workflows/release.yml"])
def test_that_torch_is_never_installed_past_its_pin(place: str) -> None:
    assert "pip install torch --index-url" not in (ROOT / place).read_text(encoding="utf-8")


def test_that_a_citation_has_what_its_format_requires_and_no_second_version() -> None:
    cited = read(ROOT / "CITATION.cff")
    assert {"cff-version", "message", "title", "authors", "type", "license"} <= cited.keys()
    assert (
        not {"version", "date-released"} & cited.keys()
    )  # they would have to be kept equal to the program's
    assert cited["cff-version"] == "1.2.0"
    assert cited["license"] == project()["license"]
    assert cited["authors"][0]["name"] in (ROOT / "LICENSE").read_text(encoding="utf-8")


def project() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def pinned() -> set[str]:
    """The names of all that is pinned."""
    found = project()
    pins = [
        *found["dependencies"],
        *(pin for pins in found["optional-dependencies"].values() for pin in pins),
    ]
    return {re.split(r"[^\w-]", pin)[0] for pin in pins}


def test_that_every_pin_has_a_note_on_updating_it_and_no_other() -> None:
    rows = re.findall(
        r"^\| ([^|]+) \|", (ROOT / "packaging/UPDATING.md").read_text(encoding="utf-8"), re.MULTILINE
    )
    named = [name for row in rows for name in row.split(", ") if row != "pin"]
    assert sorted(named) == sorted(pinned())


def test_that_every_path_in_the_notes_is_there() -> None:
    text = (ROOT / "packaging/UPDATING.md").read_text(encoding="utf-8")
    paths = set(re.findall(r"(?:tests|attnscope|packaging|resources|\.github)/[\w/.]+\w", text))
    assert len(paths) > 8
    assert [path for path in paths if not (ROOT / path).exists()] == []
