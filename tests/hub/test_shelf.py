"""The shelf of open models: what its file says, and what is refused of it."""

import tomllib
from pathlib import Path

import pytest

from attnscope.errors import LoadError
from attnscope.hub.shelf import is_model_id, read_shelf, shelf_entries

ENTRY = """
[[model]]
name = "someone/tiny"
title = "Tiny"
kind = "next token"
look_for = "Nothing much."
n_parameters = 1_000
about_mb = 1
licence = "MIT"
"""


def test_that_the_shelf_holds_about_twenty_models_with_a_sentence_each() -> None:
    entries = shelf_entries()
    assert 18 <= len(entries) <= 30
    for entry in entries:
        assert is_model_id(entry.name)
        assert entry.name.count("/") == 1
        assert entry.look_for.endswith((".", "?"))
        assert 40 < len(entry.look_for) < 200
        assert entry.licence in ("MIT", "Apache-2.0", "CC-BY-4.0")


def test_that_the_rounded_sizes_fit_the_parameters() -> None:
    for entry in shelf_entries():
        bytes_a_parameter = entry.about_mb * 1e6 / entry.n_parameters
        assert 1.9 < bytes_a_parameter < 4.6, entry.name


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ("surprise = 1", "unknown key 'surprise'"),
        ("licence = 3", "Cannot overwrite a value"),
        ('package = "minilm"', "without"),
        (
            'package = "minilm"\nfile = "../w.safetensors"\nsha256 = "' + "0" * 64 + '"',
            "not inside its package",
        ),
        ('package = "a.b"\nfile = "w.safetensors"\nsha256 = "' + "0" * 64 + '"', "imported by"),
        ('package = "minilm"\nfile = "w.safetensors"\nsha256 = "short"', "64 hexadecimal digits"),
        (ENTRY, "twice"),
        ('short = "tiny"', "short name 'tiny', which does not belong to a package's model"),
    ],
)
def test_that_a_shelf_with_a_fault_is_refused_by_name(tmp_path: Path, more: str, reason: str) -> None:
    path = tmp_path / "shelf.toml"
    path.write_text(ENTRY + more, encoding="utf-8")
    with pytest.raises(LoadError, match=reason) as caught:
        read_shelf(path)
    assert caught.value.kind == "shelf"


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ('licence = "MIT"\n', "", "has no licence"),
        ("about_mb = 1", 'about_mb = "many"', "about_mb is 'many'"),
        ("about_mb = 1", "about_mb = true", "about_mb is 'True'"),
        ("about_mb = 1", "about_mb = -1", "about_mb is '-1'"),
        ("someone/tiny", "../../tiny", "not an owner/name"),
        ("someone/tiny", "gpt2", "not an owner/name"),
        ("[[model]]", "[model]", r"not listed under \[\[model\]\]"),
    ],
)
def test_that_what_is_no_model_is_refused(tmp_path: Path, old: str, new: str, reason: str) -> None:
    path = tmp_path / "shelf.toml"
    path.write_text(ENTRY.replace(old, new), encoding="utf-8")
    with pytest.raises(LoadError, match=reason):
        read_shelf(path)


def test_that_an_entry_may_name_the_package_that_carries_it(tmp_path: Path) -> None:
    path = tmp_path / "shelf.toml"
    more = f'package = "minilm"\nfile = "data/model.safetensors"\nsha256 = "{"a1" * 32}"\n'
    path.write_text(ENTRY + more, encoding="utf-8")
    (entry,) = read_shelf(path)
    assert (entry.package, entry.file, entry.sha256) == ("minilm", "data/model.safetensors", "a1" * 32)


def test_that_each_short_name_is_an_extra_that_pins_the_package_and_its_sha256_is_in_the_shelf() -> None:
    project = Path(__file__).parents[2] / "pyproject.toml"
    extras = tomllib.loads(project.read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    carried = [entry for entry in shelf_entries() if entry.short]
    assert [entry.short for entry in carried] == ["minilm"]
    for entry in carried:
        distribution = entry.package.replace("_", "-")
        assert any(line.startswith(f"{distribution}==") for line in extras[entry.short])
        assert "transformers>=5.3,<6" in extras[entry.short]
        assert len(entry.sha256) == 64
