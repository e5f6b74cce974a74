"""Sessions as files: everything comes back, and nothing damaged or hostile gets in (F60–F64)."""

import dataclasses
import json
from pathlib import Path

import pytest
from session_samples import Desk, gates_off, ref

from attnscope import paths
from attnscope.errors import LoadError
from attnscope.records import CopyPattern, RemoveEdge
from attnscope.viewmodels.maps import Aspect
from attnscope.viewmodels.session import (
    MAX_BYTES,
    KeptView,
    LookSaved,
    SavedSession,
    Setting,
    every_head,
    read_session,
    session_bytes,
    session_from_bytes,
    setting_for,
)

SAVED = SavedSession(
    source="grammar",
    model="grammar",
    sha256="ab" * 32,
    setting=Setting(
        gates=gates_off(ref(0, 1)).with_value(ref(1, 0), 0.25),
        selection=(ref(0, 0), ref(1, 1)),
        aspect=Aspect(blend="mean", hidden="both", is_renormalised=True, is_by_word=True),
        text="the “cat” 猫 sleeps",
        target="le chat dort",
        interventions=(
            RemoveEdge(head=ref(0, 0), query=1, key=2),
            CopyPattern(head=ref(0, 1), from_head=ref(1, 1), text="a b", target=None),
        ),
    ),
    look=LookSaved(
        page="train", view="lines", colour_map="magma", scale="row", least_weight=0.1, n_strongest=3
    ),
    notes="look at the cat",
)


def test_that_everything_comes_back():
    assert session_from_bytes(session_bytes(SAVED), what="x") == SAVED


def test_that_kept_views_come_back_and_only_then_ask_for_a_newer_program():
    values = (("mask", "window"), ("n_tokens", 24), ("is_causal", True), ("sharpness", 0.5))
    look = LookSaved(
        page="labs", lab="Masks as structure", lab_values=values, is_enlarged=True, step="softmax", query=3
    )
    bare = dataclasses.replace(SAVED, notes="")
    views = (
        KeptView(name="the mask", saved=dataclasses.replace(bare, look=look)),
        KeptView(name="2", saved=bare),
    )
    saved = dataclasses.replace(SAVED, views=views)
    assert session_from_bytes(session_bytes(saved), what="x") == saved
    assert json.loads(session_bytes(saved))["format"] == 3
    assert json.loads(session_bytes(SAVED))["format"] == 2


def test_that_session_and_model_can_be_moved_together(tmp_path):
    saved = dataclasses.replace(SAVED, source=str(tmp_path / "a" / "model"))
    data = session_bytes(saved, folder=tmp_path / "a")
    assert b"./model" in data
    assert session_from_bytes(data, what="x", folder=tmp_path / "b").source == str(tmp_path / "b" / "model")


def changed(**values: object) -> bytes:
    return json.dumps({**json.loads(session_bytes(SAVED)), **values}).encode()


@pytest.mark.slow
@pytest.mark.parametrize(
    "data",
    [
        session_bytes(SAVED)[:-20],
        b"",
        b"PK\x03\x04 not a session",
        b"[1, 2]",
        b"{}",
        b'{"format": 1, "format": 1}',
        b'{"format": NaN}',
        "{}".encode("utf-16"),
        b"[" * 100_000,
        changed(format="one"),
        changed(format=10**400),
        changed(gates=[["encoder", 0, 1, 7.0]]),
        changed(gates=[["encoder", 0, 1, "0"]]),
        changed(gates=[["encoder", 0, 1, -(10**400)]]),
        changed(gates=[["encoder", -1, 1, 0.5]]),
        changed(gates=[[{"a": 1}, 0, 1, 0.5]]),
        changed(selection=[["__class__", 0, 1]]),
        changed(selection=[1]),
        changed(selection=[["encoder", 0, 1]] * 30_000),
        changed(interventions=[{"kind": "rm -rf", "head": ["encoder", 0, 0]}]),
        changed(interventions=[{"kind": "uniform", "head": ["nowhere", 0, 0]}]),
        changed(interventions=[{"kind": "9" * 5_000, "head": ["encoder", 0, 0]}]),
        changed(aspect={"blend": "evil" * 1_000}),
        changed(aspect={"is_by_word": 1}),
        changed(look=[]),
        changed(stops={}),
        changed(stops=["a"]),
        changed(stops=[{"name": "x", "text": "a"}] * 101),
        changed(stops=[{"name": "x" * 81}]),
        changed(stops=[{"name": "x", "gates": [["encoder", 0, 1, 7.0]]}]),
        changed(look={"lab_values": {"window": [1]}}),
        changed(look={"lab_values": {"window": "x" * 2_000}}),
        changed(text=7),
        changed(text="x" * 100_000),
        changed(model={"source": "a\0b"}),
    ],
)
def test_that_a_damaged_session_is_refused_by_name(data):
    """F60, F62: truncated, not a session, wrong types, too much of anything."""
    with pytest.raises(LoadError) as caught:
        session_from_bytes(data, what="talk.attnscope")
    assert "talk.attnscope" in str(caught.value)
    assert len(str(caught.value)) < 600  # what was found is quoted, however long, in a few words


def test_that_a_huge_file_is_refused_before_it_is_read(tmp_path):
    """F62."""
    path = tmp_path / "huge.attnscope"
    with path.open("wb") as stream:
        stream.truncate(MAX_BYTES + 1)
    with pytest.raises(LoadError, match="bytes"):
        read_session(path)
    path.write_text("dear diary", encoding="utf-8")
    with pytest.raises(LoadError, match=r"^This is not an AttnScope session\. .*Expecting value at byte 0"):
        read_session(path)
    with pytest.raises(LoadError, match="not a regular file"):
        read_session(tmp_path)


def test_that_a_newer_session_is_shown_with_a_warning():
    """F63: unknown keys are left out, and the person is told."""
    found = session_from_bytes(changed(format=99, hologram={"x": 1}), what="x")
    assert found.setting == SAVED.setting
    assert "newer" in found.warning


def test_that_an_older_session_without_later_fields_opens():
    """F63."""
    data = json.dumps({"format": 1, "model": {"source": "nano"}, "text": "hi"}).encode()
    found = session_from_bytes(data, what="x")
    assert (found.source, found.setting.text, found.look) == ("nano", "hi", LookSaved())


def test_that_heads_the_model_lacks_are_left_out_and_counted():
    """F64."""
    model = Desk().open().session.model
    setting = dataclasses.replace(SAVED.setting, gates=gates_off(ref(7, 0)), selection=(ref(0, 0), ref(9, 9)))
    kept, n_lacking = setting_for(setting, frozenset(every_head(model.sites)))
    assert n_lacking == 2
    assert kept.gates.off() == ()
    assert kept.selection == (ref(0, 0),)


def test_that_a_path_that_cannot_be_is_told(tmp_path: Path):
    with pytest.raises(LoadError):
        read_session(tmp_path / "nothing.attnscope")


def test_that_a_demo_model_is_found_in_every_installation(tmp_path):
    ours = str(paths.resources_folder() / "models" / "grammar")
    theirs = "/other/place/attnscope/resources/models/grammar"
    view = KeptView(name="1", saved=dataclasses.replace(SAVED, notes="", source=theirs))
    data = session_bytes(dataclasses.replace(SAVED, source=ours, views=(view,)))
    assert json.loads(data)["model"]["source"] == "grammar"
    data = data.replace(b'"source": "grammar"', f'"source": "{theirs}"'.encode())  # an older program's
    read = session_from_bytes(data, what="x")
    assert (read.source, read.views[0].saved.source) == ("grammar", "grammar")


@pytest.mark.parametrize(
    ("program", "opened"),
    [
        ("AttnScope 0.1.0", "grammar"),
        ("AttnScope 0.8.0", "grammar"),
        ("", "grammar"),
        (3, "grammar"),
        ("AttnScope 0.9.0", "english-french"),
        ("AttnScope 1.0", "english-french"),
        ("0.10.2", "english-french"),
    ],
)
def test_that_the_translator_of_the_grammar_is_found_under_its_old_name(program: object, opened: str) -> None:
    view = KeptView(name="1", saved=dataclasses.replace(SAVED, notes=""))
    values = json.loads(session_bytes(dataclasses.replace(SAVED, views=(view,))))
    values["program"] = program
    for part in (values, values["stops"][0]):
        part["model"]["source"] = "english-french"
        part["compare"]["B"]["model"] = "english-french"
    read = session_from_bytes(json.dumps(values).encode(), what="x")
    for saved in (read, read.views[0].saved):
        assert (saved.source, saved.setting.compared.second.model) == (opened, opened)
        assert saved.setting.text == SAVED.setting.text


@pytest.mark.parametrize("end", ["", ".", "..", "my-own", "a" * 999, "grammar/config.json"])
def test_that_no_other_path_is_taken_for_a_demo_model(end):
    path = f"/other/place/resources/models/{end}"
    assert paths.demo_name(path) == ""
    assert session_from_bytes(changed(model={"source": path}), what="x").source == path


def test_that_a_model_which_is_where_it_was_is_not_exchanged_for_a_demo_model(tmp_path):
    own = tmp_path / "resources" / "models" / "grammar"
    own.mkdir(parents=True)
    assert paths.demo_name(str(own)) == ""
