"""Settings are read strictly, written in one step, and never keep the program from starting."""

import json
from pathlib import Path

import pytest

from attnscope.errors import SaveError
from attnscope.settings import (
    SETTINGS_NAME,
    Settings,
    read_settings,
    reset_settings,
    settings_from_json,
    settings_to_json,
    write_settings,
)

FULL = Settings(
    theme="dark",
    colour_map="magma",
    scale="row",
    device="cpu",
    page="train",
    geometry=(10, 20, 1280, 800),
    is_maximised=True,
    splitters=(("explore", (300, 500)), ("right", (1, 2, 3))),
    recent=("grammar", "a folder"),
    export_folder="figures",
)


def test_that_what_is_written_is_read_again(tmp_path: Path) -> None:
    write_settings(FULL, tmp_path / "new")
    remembered = read_settings(tmp_path / "new")
    assert remembered.settings == FULL
    assert remembered.warning == ""


def test_that_no_file_means_defaults_without_a_warning(tmp_path: Path) -> None:
    remembered = read_settings(tmp_path / "nowhere")
    assert remembered.settings == Settings()
    assert remembered.warning == ""


def test_that_unknown_keys_of_a_newer_program_are_left_out() -> None:
    assert settings_from_json('{"format": 9, "invented": [1], "theme": "light"}') == Settings(theme="light")


def test_that_a_key_left_out_has_its_default() -> None:
    assert settings_from_json("{}") == Settings()


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("theme", "purple"),
        ("theme", ["dark"]),
        ("geometry", [1, 2, 3]),
        ("geometry", [1, 2, 3, "4"]),
        ("geometry", [1, 2, 3, True]),
        ("geometry", [1, 2, 3, 10**30]),
        ("is_maximised", 1),
        ("recent", "grammar"),
        ("recent", [None]),
        ("splitters", [["a", [1.5]]]),
        ("splitters", {"a": 1}),
        ("device", None),
    ],
)
def test_that_a_value_of_the_wrong_type_is_named(key: str, value: object) -> None:
    with pytest.raises(ValueError, match=f"the key '{key}'"):
        settings_from_json(json.dumps({key: value}))


def test_that_the_recent_models_are_newest_first_without_repeats_and_few() -> None:
    settings = Settings()
    for name in [*(f"m{n}" for n in range(30)), "m25"]:
        settings = settings.with_recent(name)
    assert settings.recent[:3] == ("m25", "m29", "m28")
    assert len(settings.recent) == len(set(settings.recent)) == 12


def test_that_a_reset_keeps_the_old_file(tmp_path: Path) -> None:
    write_settings(FULL, tmp_path)
    aside = reset_settings(tmp_path)
    assert aside is not None
    assert settings_from_json(aside.read_text()) == FULL
    assert not (tmp_path / SETTINGS_NAME).exists()
    assert reset_settings(tmp_path) is None


def test_that_a_folder_that_cannot_be_made_is_a_save_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(SaveError, match="could not be written"):
        write_settings(FULL, tmp_path / "file")


def test_that_the_text_of_the_file_names_its_format() -> None:
    assert json.loads(settings_to_json(FULL))["format"] == 1
