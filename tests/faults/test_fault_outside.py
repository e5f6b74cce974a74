"""Every file from outside is looked at before it is read: pipes, devices, folders, sizes, odd numbers."""

import ast
import io
import json
import os
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest
from tiny_models import tiny_model

import attnscope
from attnscope import files, outside
from attnscope.cli.inputs import read_file_argument
from attnscope.conllu import read_conllu
from attnscope.errors import LoadError, UserError
from attnscope.figures import read_figure_file
from attnscope.models import load
from attnscope.outside import parse_json, parse_toml, read_json
from attnscope.paths import resources_folder
from attnscope.records import read_edge_list
from attnscope.settings import read_settings
from attnscope.text import read_pairs, read_tokenizer_file
from attnscope.trace import is_trace_file, load_trace
from attnscope.training import (
    INSPECTIONS,
    LOCK_NAME,
    RunLock,
    event_from_line,
    mend_metrics,
    read_inspections,
    read_metric_lines,
    read_news,
    read_recipe,
    read_writer,
)
from attnscope.viewmodels.session import read_session
from attnscope.viewmodels.training import read_recipe_text

has_pipes = pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="pipes with names, as Unix has them")

_READERS: dict[str, Callable[[Path], object]] = {
    "json": read_json,
    "text": read_file_argument,
    "tokenizer": read_tokenizer_file,
    "corpus": read_pairs,
    "conllu": read_conllu,
    "mask": read_edge_list,
    "recipe": read_recipe,
    "recipe text": read_recipe_text,
    "metrics": read_metric_lines,
    "metrics to mend": mend_metrics,
    "session": read_session,
    "figure": read_figure_file,
    "recording": load_trace,
}


@has_pipes
@pytest.mark.parametrize("kind", ["pipe", "device", "folder"])
@pytest.mark.parametrize("reader", _READERS)
def test_that_what_is_no_regular_file_is_refused_at_once(tmp_path: Path, reader: str, kind: str) -> None:
    path = {"pipe": tmp_path / "pipe", "device": Path("/dev/zero"), "folder": tmp_path}[kind]
    if kind == "pipe":
        os.mkfifo(path)
    reads_folders = (reader, kind) == ("corpus", "folder")
    with pytest.raises(LoadError, match="has no .txt file" if reads_folders else "not a regular file"):
        _READERS[reader](path)


class Waiting(io.RawIOBase):
    """A file that is regular and gives nothing now, as /proc/kmsg."""

    def readable(self) -> bool:
        return True

    def readinto(self, _buffer: object) -> None:
        return None

    def fileno(self) -> int:
        return sys.__stderr__.fileno()


def test_that_a_file_which_gives_nothing_now_is_as_an_empty_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outside, "open", lambda *_, **__: io.BufferedReader(Waiting()), raising=False)
    assert read_file_argument(tmp_path / "log") == ""
    with pytest.raises(LoadError, match="not an AttnScope session"):
        read_session(tmp_path / "log")


@pytest.mark.parametrize("reader", sorted(set(_READERS) - {"text", "recording"}))
def test_that_eight_gigabytes_are_refused_before_they_are_read(tmp_path: Path, reader: str) -> None:
    path = tmp_path / "sparse.json"
    with path.open("wb") as stream:
        stream.truncate(8 * 2**30)
    with pytest.raises(LoadError, match=r"8,589,934,592 bytes"):
        _READERS[reader](path)


@has_pipes
def test_that_pipes_among_the_files_of_a_run_are_not_waited_for(tmp_path: Path) -> None:
    for name in (LOCK_NAME, INSPECTIONS, "metrics.jsonl", "recipe.toml"):
        os.mkfifo(tmp_path / name)
    assert read_writer(tmp_path) is None
    assert read_inspections(tmp_path) == ()
    with pytest.raises(LoadError, match="not a regular file"):
        list(read_news(tmp_path, attnscope.records.runs.RunMark()))
    with pytest.raises(UserError, match="not a regular file"):
        RunLock(tmp_path)
    with pytest.raises(OSError, match="not a regular file"):
        outside.open_to_append(tmp_path / INSPECTIONS)


@has_pipes
@pytest.mark.parametrize("name", ["manifest.json", "config.json", "tokenizer.json", "card.md"])
def test_that_a_pipe_in_a_model_folder_is_not_waited_for(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "model"
    tiny_model("decoder").save(folder)
    if name != "manifest.json":
        (folder / "manifest.json").unlink()
    (folder / name).unlink()
    os.mkfifo(folder / name)
    if name == "card.md":
        assert load(folder, "cpu").info.form == "decoder"
    else:
        with pytest.raises(LoadError):
            load(folder, "cpu")


def test_that_a_manifest_of_eight_gigabytes_is_refused_before_it_is_read(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    tiny_model("decoder").save(folder)
    with (folder / "manifest.json").open("wb") as stream:
        stream.truncate(8 * 2**30)
    with pytest.raises(LoadError, match="manifest"):
        load(folder, "cpu")


@pytest.mark.parametrize(
    "entry",
    [
        {"x": {"n_bytes": 10**29, "sha256": ""}},
        {"x": {"n_bytes": -1, "sha256": ""}},
        {"x": {"n_bytes": 1.5, "sha256": ""}},
        {"x": {"n_bytes": True, "sha256": None}},
        {"x" * 5000: {"n_bytes": 1, "sha256": ""}},
        {"x\0": {"n_bytes": 1, "sha256": ""}},
        {"": {"n_bytes": 1, "sha256": ""}},
        {"..": {"n_bytes": 1, "sha256": ""}},
    ],
)
def test_that_odd_entries_of_a_manifest_are_one_error(tmp_path: Path, entry: object) -> None:
    (tmp_path / "manifest.json").write_text(json.dumps(entry))
    with pytest.raises(LoadError):
        files.check_manifest(tmp_path)


@pytest.mark.parametrize("number", ["1e400", "-1", "10e30", "1" + "0" * 30, "null", "true", '"4"'])
@pytest.mark.parametrize("key", ["pid", "since"])
def test_that_odd_numbers_in_a_lock_are_no_writer(tmp_path: Path, number: str, key: str) -> None:
    values = {"pid": str(os.getpid()), "since": "1.5", key: number}
    content = f'{{"pid": {values["pid"]}, "host": "elsewhere", "since": {values["since"]}}}'
    (tmp_path / LOCK_NAME).write_text(content)
    assert read_writer(tmp_path) is None
    RunLock(tmp_path).release()


@pytest.mark.parametrize("field", ["attempt", "step", "loss"])
@pytest.mark.parametrize("number", ["1e400", "-1e400", "1" + "0" * 29, "1" * 5000])
def test_that_odd_numbers_in_metrics_are_no_events(field: str, number: str) -> None:
    event = attnscope.records.runs.Evaluated
    values: dict[str, object] = {"attempt": 1, "event": "evaluated"}
    for name, kind in event.__annotations__.items():
        values[name] = "" if kind is str else [["L0H0", 1]] if name == "spans" else 1
    assert event_from_line(json.dumps(values).encode()) is not None
    line = json.dumps({**values, field: "ODD"}).replace('"ODD"', number)
    assert event_from_line(line.encode()) is None


@pytest.mark.parametrize(
    "text",
    [
        "a." * 50_000 + "b = 1",
        "x = {" + "a." * 50_000 + "b = 1}",
        "[" + "'a' . " * 100 + "b]",
        "x = " + "[" * 50_000,
        "x = " + "1" * 5_000,
        "#" * 1_000_001,
    ],
)
def test_that_toml_that_explodes_is_refused_as_toml(text: str) -> None:
    with pytest.raises(tomllib.TOMLDecodeError):
        parse_toml(text)
    assert parse_toml("[a.b]\nc.d = 'x.y'")["a"]["b"]["c"]["d"] == "x.y"


def test_that_settings_behind_a_folder_are_the_defaults_with_a_warning(tmp_path: Path) -> None:
    (tmp_path / "settings.json").mkdir()
    assert "not a regular file" in read_settings(tmp_path).warning


def test_that_a_recording_is_told_without_reading_a_device() -> None:
    if sys.platform != "win32":
        assert not is_trace_file("/dev/zero")


_OWN = {
    "outside.py",
    "files.py",
    "boot.py",
    "crash.py",
    "lifetime.py",
    "studies/study.py",  # what comes with the program
    "text/samples.py",
    "viewmodels/help_pages.py",
    "viewmodels/tours/tours.py",
    "workers/serve_tokens.py",
    "nn/machine.py",  # /proc/meminfo
    "models/huggingface/pruning.py",  # what it wrote itself, in a temporary folder
    "hub/fetching.py",  # parts of files that it wrote itself, against their checksums
    "training/run.py",  # what it appended itself is cut
    "viewmodels/training/sweeping.py",  # writes
}


@pytest.mark.slow
def test_that_no_other_module_opens_files() -> None:
    root = Path(attnscope.__file__).parent
    found = set()
    scripts = resources_folder() / "studies"
    for path in (*root.rglob("*.py"), *scripts.glob("*.py")):
        name = path.relative_to(root if root in path.parents else scripts).as_posix()
        if name in _OWN:
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and _opens(node):
                found.add(f"{name}:{node.lineno}")
    assert not found, f"read it through attnscope.outside: {sorted(found)}"


def _opens(call: ast.Call) -> bool:
    function = call.func
    if isinstance(function, ast.Name):
        return function.id == "open"
    if not isinstance(function, ast.Attribute):
        return False
    is_mode = bool(call.args) and isinstance(call.args[0], ast.Constant) and call.args[0].value in ("r", "rb")
    return function.attr in ("read_bytes", "read_text") or (function.attr == "open" and is_mode)


@pytest.mark.parametrize("has_infinity", [False, True])
def test_that_a_key_twice_is_told_before_infinity_which_other_readers_allow(has_infinity: bool) -> None:
    with pytest.raises(LoadError, match="'a' appears twice"):
        parse_json(b'{"x": Infinity, "a": 1, "a": 2}', what="config.json", has_infinity=has_infinity)
    if not has_infinity:
        with pytest.raises(LoadError, match="holds -Infinity"):
            parse_json(b'{"x": [-Infinity], "y": NaN}', what="config.json")
