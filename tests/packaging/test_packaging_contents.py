"""What a bundle is told to hold, and what stays out."""

import sys
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

import pytest

from attnscope.cli.main import COMMANDS, module_of
from attnscope.schemes import module_names
from shipping import contents, papers

FOLDERS = (
    "attnscope.figures.views", "attnscope.labs", "attnscope.models.families", "attnscope.questions",
    *(f"attnscope.schemes.{kind}" for kind in module_names("attnscope.schemes")),
)  # fmt: skip


@pytest.fixture(scope="module")
def wanted() -> set[str]:
    return set(contents.wanted_modules(has_library=True))


@pytest.mark.parametrize("folder", FOLDERS)
def test_that_every_module_found_by_its_folder_is_wanted(folder: str, wanted: set[str]) -> None:
    assert {folder, *(f"{folder}.{name}" for name in module_names(folder))} <= wanted


def test_that_every_command_and_answer_of_the_worker_is_wanted(wanted: set[str]) -> None:
    answers = [name for name in module_names("attnscope.workers") if name.startswith("serve_")]
    assert len(answers) > 3
    assert {module_of(name) for name in COMMANDS} <= wanted
    assert {f"attnscope.workers.{name}" for name in answers} <= wanted


def test_that_what_functions_and_studies_import_is_wanted(wanted: set[str]) -> None:
    assert {"sacrebleu.metrics.bleu", "tokenizers", "PySide6.QtSvg", "safetensors.torch"} <= wanted
    assert {"transformers.masking_utils", "huggingface_hub.constants"} <= wanted


def test_that_everything_wanted_is_required_by_the_program(wanted: set[str]) -> None:
    owners = metadata.packages_distributions()
    tops = {name.partition(".")[0] for name in wanted} - {"attnscope", *sys.stdlib_module_names}
    required = set(papers.runtime_names(has_library=True))
    lost = {
        top for top in tops if not required & {name.replace("_", "-").lower() for name in owners.get(top, ())}
    }
    assert not lost, "a package that is not required belongs into contents.NEVER"


def test_that_a_bundle_without_the_library_wants_none_of_it() -> None:
    wanted = contents.wanted_modules(has_library=False)
    assert not [name for name in wanted if name.startswith("transformers")]


def test_that_imports_are_found_wherever_they_stand() -> None:
    source = (
        "from typing import TYPE_CHECKING\nimport a.b\nif TYPE_CHECKING:\n    import unseen\n"
        "else:\n    import seen\ndef late():\n    from c import d\n    from .own import e\n"
        "    return import_module('f.g'), import_module(name)\n"
    )
    assert set(contents.imports_of(source)) == {"typing", "a.b", "seen", "c", "f.g"}


def test_that_studies_are_read_too(tmp_path: Path) -> None:
    (tmp_path / "attnscope").mkdir()
    (tmp_path / "resources" / "studies").mkdir(parents=True)
    (tmp_path / "attnscope" / "__init__.py").write_text("import sys\n")
    (tmp_path / "resources" / "studies" / "one.py").write_text("def f():\n    import rare.part\n")
    assert contents.wanted_modules(has_library=False, root=tmp_path) == ["attnscope", "rare.part"]
    assert contents.missing_modules(["attnscope"], has_library=False, root=tmp_path) == ["rare.part"]
    assert contents.missing_modules(["attnscope", "rare.part"], has_library=False, root=tmp_path) == []


def test_that_a_whole_analysis_lacks_nothing_and_a_lost_scheme_is_named() -> None:
    held = set(contents.wanted_modules(has_library=False))
    assert contents.missing_modules(held, has_library=False) == []
    lost = "attnscope.schemes.masks.dilated"
    assert contents.missing_modules(held - {lost}, has_library=False) == [lost]


@pytest.mark.parametrize(
    "place",
    [
        "PySide6/Qt/translations/qtbase_de.qm",
        "PySide6/Qt/qml/QtQuick/x.so",
        "PySide6/Qt/lib/libQt6Quick.so.6",
        "PySide6\\Qt6Quick.dll",
        "PySide6/Qt/lib/libQt6WebEngineCore.so.6",
        "PySide6/Qt/lib/libQt6Qml.so.6",
        "torch/lib/libtorch_cuda.so",
        "torch/lib/libcudnn.so.9",
        "nvidia/cublas/lib/libcublas.so.12",
        "torch/test/test_jit",
        "torch/include/torch/x.h",
        "torch/bin/protoc",
        "torch/_C/__init__.pyi",
        "numpy/core/tests/a.py",
    ],
)
def test_that_what_nobody_needs_stays_out(place: str) -> None:
    assert contents.is_left_out(place)


@pytest.mark.parametrize(
    "place",
    [
        "PySide6/Qt/lib/libQt6Gui.so.6",
        "PySide6/Qt/plugins/platforms/libqoffscreen.so",
        "torch/lib/libtorch_cpu.so",
        "torch/bin/torch_shm_manager",
        "PySide6/QtSvg.abi3.so",
        "attnscope/resources/models/grammar/model.safetensors",
        "torch/cuda/__init__.py",
    ],
)
def test_that_what_the_program_needs_stays(place: str) -> None:
    assert not contents.is_left_out(place)


def test_that_nothing_is_both_wanted_and_excluded(wanted: set[str]) -> None:
    both = [name for name in wanted if any(f"{name}.".startswith(f"{out}.") for out in contents.EXCLUDED)]
    assert not both


def test_that_the_libraries_which_import_late_are_there() -> None:
    assert all(find_spec(package) is not None for package in contents.LATE_IN_LIBRARIES)
