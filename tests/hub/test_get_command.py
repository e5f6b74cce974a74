"""`attnscope get` against a server on this computer."""

import io
import json
import os
import sys
from pathlib import Path

import pytest
from hub_server import COMMIT, Hub, drop_after, page, status

from attnscope.cli.main import main
from attnscope.hub import fetching, shelf
from attnscope.hub.shelf import part_paths, shelf_entries, whole_snapshot

NAME = "someone/tiny"
Output = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The pauses that were asked for, none of which is made."""
    paused: list[float] = []
    monkeypatch.setitem(fetching.fetch_now.__kwdefaults__, "pause", paused.append)
    return paused


def answer(monkeypatch: pytest.MonkeyPatch, words: str) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO(words))


def test_that_the_list_asks_nobody(hub: Hub, capsys: Output) -> None:
    assert main(["get", "--list"]) == 0
    told = capsys.readouterr().out
    for entry in shelf_entries():
        assert entry.name in told
        assert entry.look_for in told
    assert "about 550 MB" in told
    assert hub.asked == []


def test_that_the_list_for_machines_has_every_field(hub: Hub, capsys: Output) -> None:
    assert main(["get", NAME, "--yes"]) == 0
    capsys.readouterr()
    assert main(["get", "--list", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert (rows[0]["name"], rows[0]["place"], rows[0]["source"]) == (NAME, "cache", NAME)
    assert rows[1]["name"] == "openai-community/gpt2"
    assert rows[1]["about_mb"] == 550
    assert {row["place"] for row in rows[1:]} == {"away"}


@pytest.mark.slow
@pytest.mark.parametrize("words", ["y\n", "Yes\n", "y"])
def test_that_a_yes_downloads_what_the_question_named(
    hub: Hub, capsys: Output, monkeypatch: pytest.MonkeyPatch, words: str
) -> None:
    answer(monkeypatch, words)
    assert main(["get", NAME]) == 0
    told = capsys.readouterr()
    assert f"{NAME}: 512,143 bytes, from {hub.host}, licence mit. Download? [y/N]" in " ".join(
        told.err.split()
    )
    assert "512 kB of 512 kB" in told.err
    assert "(100 %)" in told.err
    assert f"{NAME} is on this computer, every file verified: 512,143 bytes in " in told.out
    assert "left (100 %)" not in told.err
    assert f"attnscope open {NAME}" in told.out
    assert whole_snapshot(NAME) is not None


@pytest.mark.parametrize("words", ["n\n", "\n", "", "maybe\n"])
def test_that_anything_but_a_yes_downloads_nothing(
    hub: Hub, capsys: Output, monkeypatch: pytest.MonkeyPatch, cache: Path, words: str
) -> None:
    answer(monkeypatch, words)
    assert main(["get", NAME]) == 2
    assert "Nothing was downloaded" in capsys.readouterr().err
    assert len(hub.asked) == 1
    assert not cache.exists()


def test_that_without_an_input_nobody_has_said_yes(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    assert main(["get", NAME]) == 2
    assert whole_snapshot(NAME) is None


def test_that_a_model_that_is_here_is_not_asked_for(hub: Hub, capsys: Output) -> None:
    assert main(["get", NAME, "--yes", "--json"]) == 0
    first = json.loads(capsys.readouterr().out)
    hub.asked.clear()
    assert main(["get", f"hf:{NAME}", "--json"]) == 0
    again = json.loads(capsys.readouterr().out)
    assert hub.asked == []
    assert (first["host"], first["commit"], first["licence"]) == (hub.host, COMMIT, "mit")
    assert again == {key: first[key] for key in ("name", "place", "source", "n_bytes", "folder")}
    assert Path(again["folder"]) == whole_snapshot(NAME)
    assert again["n_bytes"] == 512_143


@pytest.mark.slow
@pytest.mark.parametrize("name", ["gpt2", "GPT2", "gpt-2 small", "hf:gpt2", "http://h/openai-community/gpt2"])
def test_that_a_short_name_of_the_shelf_is_enough(hub: Hub, capsys: Output, name: str) -> None:
    hub.models["openai-community/gpt2"] = hub.models[NAME]
    assert main(["get", name, "--yes", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["name"] == "openai-community/gpt2"


def test_that_a_misspelt_short_name_is_asked_of_nobody(hub: Hub, capsys: Output) -> None:
    assert main(["get", "destilgpt2", "--yes"]) == 2
    assert "Did you mean distilgpt2?" in capsys.readouterr().err
    assert hub.asked == []


@pytest.mark.parametrize(
    ("fault", "told"),
    [
        (page, "a web page"),
        (status(404), "no public model"),
        (status(429), "wait 60 s"),
        (status(500), "500"),
    ],
)
def test_that_what_goes_wrong_is_one_line_and_code_2(hub: Hub, capsys: Output, fault, told: str) -> None:
    hub.faults["/api/"] = [fault]
    assert main(["get", NAME, "--yes"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("attnscope: ")
    assert told in line


def test_that_a_pause_is_told_and_made(hub: Hub, capsys: Output, no_pauses: list[float]) -> None:
    hub.faults["model.safetensors"] = [drop_after(100), status(429, **{"Retry-After": "30"})]
    assert main(["get", NAME, "--yes"]) == 0
    told = capsys.readouterr().err
    assert f"The connection to {hub.host} broke off. Next try in 1 s" in told
    assert "Next try in 30 s" in told
    assert no_pauses == [1.0, 30.0]


def test_that_ctrl_c_keeps_what_came_and_the_next_time_goes_on(
    hub: Hub, capsys: Output, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[int] = []

    def write(descriptor: int, data: memoryview) -> int:
        written.append(len(data))
        if len(written) == 6:
            raise KeyboardInterrupt
        return os.write(descriptor, data)

    monkeypatch.setattr(fetching, "write_bytes", write)
    assert main(["get", NAME, "--yes"]) == 130
    assert f"attnscope get {NAME} continues from there" in capsys.readouterr().err
    n_kept = sum(path.stat().st_size for path in part_paths(NAME))
    assert 0 < n_kept < 512_143
    assert main(["get", "--list"]) == 0
    assert whole_snapshot(NAME) is None
    answer(monkeypatch, "y\n")
    hub.asked.clear()
    assert main(["get", NAME]) == 0
    assert f"512,143 bytes, of which {n_kept:,} are here" in capsys.readouterr().err
    assert any(headers.get("Range", "").startswith("bytes=") for _, headers in hub.asked)


def test_that_nothing_is_asked_where_the_network_is_switched_off(
    hub: Hub, capsys: Output, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shelf, "_is_offline_by_choice", lambda: True)
    assert main(["get", NAME, "--yes"]) == 2
    assert "HF_HUB_OFFLINE" in capsys.readouterr().err
    assert hub.asked == []


def test_that_without_the_library_the_list_is_there_and_a_download_says_what_to_install(
    hub: Hub, capsys: Output, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    assert main(["get", "--list"]) == 0
    assert "GPT-2 small" in capsys.readouterr().out
    assert main(["get", NAME, "--yes"]) == 2
    assert "Install it with: pip install 'attnscope[hf]'" in capsys.readouterr().err
    monkeypatch.setattr(sys, "frozen", True, raising=False)
    assert main(["get", NAME, "--yes"]) == 2
    assert "take the one with -hf in its name" in capsys.readouterr().err
    assert hub.asked == []


def test_that_hostile_words_of_a_server_cannot_move_the_cursor(
    hub: Hub, capsys: Output, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer(monkeypatch, "no\n")
    hub.card = {"license": "m\x1b[2Jit\u202e"}
    assert main(["get", NAME]) == 2
    told = capsys.readouterr().err
    assert "\x1b" not in told
    assert "\u202e" not in told
