"""The bill of materials and the licences of a bundle."""

import json
from importlib import metadata
from pathlib import Path

import pytest

import attnscope
from shipping import papers, program_version


def test_that_the_version_has_one_place() -> None:
    assert program_version() == attnscope.__version__


@pytest.fixture(scope="module")
def bill() -> dict:
    parts = [papers.part_of(metadata.distribution(name)) for name in ("numpy", "tokenizers", "pyqtgraph")]
    return papers.bill_of_materials("1.2.3", [*parts, papers.python_part(), papers.qt_part()])


def test_that_the_bill_is_one_of_cyclonedx(bill: dict) -> None:
    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.6")
    assert bill["metadata"]["component"]["version"] == "1.2.3"
    assert json.loads(json.dumps(bill)) == bill


def test_that_every_part_has_its_version_its_address_and_its_licence(bill: dict) -> None:
    parts = {part["name"]: part for part in bill["components"]}
    assert set(parts) == {"numpy", "tokenizers", "pyqtgraph", "python", "qt"}
    assert parts["numpy"]["purl"] == f"pkg:pypi/numpy@{metadata.version('numpy')}"
    assert parts["qt"]["version"] == metadata.version("PySide6-Essentials")
    assert parts["qt"]["licenses"] == [{"license": {"name": "LGPL-3.0-only"}}]
    assert all(part["licenses"][0]["license"]["name"] for part in parts.values())
    assert bill["dependencies"][0]["dependsOn"] == [part["purl"] for part in bill["components"]]


def test_that_the_same_parts_give_the_same_bill() -> None:
    one, other = papers.python_part(), papers.qt_part()
    first = papers.bill_of_materials("1", [one, other])
    assert first == papers.bill_of_materials("1", [other, one])
    assert first["serialNumber"] != papers.bill_of_materials("2", [one, other])["serialNumber"]


def test_that_modules_lead_to_their_distributions() -> None:
    owners = {
        "PIL": ["pillow"],
        "torch": ["torch"],
        "PySide6": ["PySide6_Essentials"],
        "attnscope": ["attnscope"],
    }
    held = papers.held_distributions(
        ["PIL.Image", "torch", "torch.nn", "PySide6.QtGui", "attnscope", "json"], owners
    )
    assert held == ["pillow", "pyside6-essentials", "torch"]


def write(modules: list[str], folder: Path) -> Path:
    papers.write_papers(folder, modules, [], "1.2.3")
    return folder


def test_that_every_part_comes_with_its_licence(tmp_path: Path) -> None:
    folder = write(["numpy", "tokenizers", "PySide6.QtGui", "shiboken6", "psygnal"], tmp_path / "papers")
    parts = {part["name"] for part in json.loads((folder / papers.SBOM).read_text())["components"]}
    assert {"numpy", "psygnal", "pyside6-essentials", "python", "qt", "shiboken6", "tokenizers"} <= parts
    folders = {path.name for path in (folder / "licences").iterdir() if path.is_dir()}
    assert folders == parts - {"pyside6-essentials", "shiboken6"}
    assert all(
        any(path.stat().st_size for path in (folder / "licences" / name).rglob("*")) for name in folders
    )


def test_that_qts_licence_and_how_to_exchange_it_are_there(tmp_path: Path) -> None:
    folder = write(["PySide6"], tmp_path / "papers") / "licences"
    assert "LESSER GENERAL PUBLIC LICENSE" in (folder / "qt" / "LGPL-3.0.txt").read_text()
    assert "GNU GENERAL PUBLIC LICENSE" in (folder / "qt" / "GPL-3.0.txt").read_text()
    assert "_internal/PySide6/Qt/lib" in (folder / "QT.md").read_text(encoding="utf-8")
    assert {"LICENSE", "NOTICE"} <= {path.name for path in folder.iterdir()}


def test_that_a_part_without_its_licence_is_not_packed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bare = papers.Part(name="bare", version="1", purl="pkg:pypi/bare@1", licence="MIT")
    monkeypatch.setattr(papers, "python_part", lambda: bare)
    with pytest.raises(ValueError, match=r"bare 1 \(MIT\) comes without its licence"):
        papers.write_papers(tmp_path / "papers", [], [], "1")


def test_that_a_bundle_takes_nothing_of_the_builders_tools() -> None:
    foreign = set(papers.foreign_packages(has_library=False))
    assert {"_pytest", "pytest", "pytestqt"} <= foreign
    assert not foreign & {
        "PIL",
        "PySide6",
        "attnscope",
        "numpy",
        "psygnal",
        "sacrebleu",
        "tokenizers",
        "torch",
    }
