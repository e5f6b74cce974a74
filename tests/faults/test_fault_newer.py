"""What came after version 0.13, given what nobody means: arrays of files, labels, sizes of a recipe, options.

Each gives what was asked for, or one error that a person can act on.
"""

import io
import random
import struct
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import hostile
import numpy as np
import pytest
from hf_folders import save_picture
from test_fault_hostile import SEED, TIMES, patience, try_all
from tiny_models import SENTENCE, tiny_model

from attnscope.analysis import ask_model
from attnscope.errors import LoadError, RecipeError, UserError
from attnscope.fields import fields_of, with_texts
from attnscope.labs import LABS, Lab
from attnscope.paths import resources_folder
from attnscope.questions import QUESTIONS, question_named
from attnscope.records import Finished, TrainingEvent
from attnscope.text import read_labelled_pictures, read_tagged, read_vectors
from attnscope.training import TrainingRun, parse_recipe

_PICTURES: dict[str, Any] = {
    "pictures": np.arange(20 * 64, dtype=np.uint8).reshape(20, 8, 8),
    "labels": np.arange(20) % 3,
    "names": np.array(["a", "b", "c"]),
}
_VECTORS: dict[str, Any] = {
    "vectors": np.arange(12.0).reshape(4, 3),
    "sets": np.array([[0, 1, 2], [1, 2, 3], [3, 0, 1]]),
    "odd": np.array([0, 1, 2]),
}


def _declared(shape: tuple[int, ...], kind: str = "|u1") -> bytes:
    """An array that says it has this shape, and has no numbers."""
    said = f"{{'descr': {kind!r}, 'fortran_order': False, 'shape': {shape}, }}\n".encode()
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(said)) + said


def _packed(arrays: dict[str, Any], way: int = zipfile.ZIP_DEFLATED) -> bytes:
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w", way) as archive:
        for name, array in arrays.items():
            member = io.BytesIO()
            if isinstance(array, bytes):
                member.write(array)
            else:
                np.save(member, array)
            archive.writestr(f"{name}.npy", member.getvalue())
    return held.getvalue()


def _encrypted(content: bytes) -> bytes:
    """The archive, said to need a password."""
    changed = bytearray(content)
    changed[6] |= 1
    changed[content.index(b"PK\x01\x02") + 8] |= 1
    return bytes(changed)


def _odd_pictures() -> Iterator[bytes]:
    labels = [np.array([0, most] * 10) for most in (10**6, 10**12, 2**63 - 1, -1)]
    labels += [np.array([0, 2**64 - 1] * 10, np.uint64), np.linspace(0, 2, 20), np.full(20, np.nan)]
    labels += [np.array(["a", "\ud800"] * 10), np.array([" ", "b"] * 10), np.array(["a" * 99, "b"] * 10)]
    yield from (_packed({**_PICTURES, "labels": some}) for some in labels)
    without = {name: array for name, array in _PICTURES.items() if name != "names"}
    yield from (_packed({**without, "labels": some}) for some in labels)
    odd = [np.zeros((20, 0, 8), np.uint8), np.zeros((20, 8, 8, 4), np.uint8), np.zeros((20, 8, 8)), None]
    odd += [_declared(shape) for shape in ((10**6, 1_000, 1_000), (2**40, 2**40), (-1, 8, 8), ())]
    yield from (_packed({**_PICTURES, "pictures": some}) for some in odd)
    yield from (
        _packed({**_PICTURES, "names": some}) for some in (np.array(["a"]), np.zeros((3, 0)), np.array("a"))
    )


def test_that_hostile_files_of_pictures_are_refused_or_read(tmp_path: Path) -> None:
    place = tmp_path / "digits.npz"
    try_all(read_labelled_pictures, place, _odd_pictures())
    for way in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA):
        whole = _packed(_PICTURES, way)
        try_all(read_labelled_pictures, place, hostile.of_bytes(whole, 60 * TIMES, SEED))
        try_all(read_labelled_pictures, place, [_encrypted(whole)])


def test_that_numbers_as_labels_need_no_room_for_those_that_are_missing(tmp_path: Path) -> None:
    place = tmp_path / "digits.npz"
    arrays = {"pictures": _PICTURES["pictures"], "labels": np.array([7, 2**63 - 1] * 10)}
    place.write_bytes(_packed(arrays))
    with patience():
        found = read_labelled_pictures(place)
    assert {*found.labels} == {f"{7:019}", str(2**63 - 1)}


@pytest.mark.parametrize("label", ["a" * 99, " ", "\udcff"])
def test_that_a_folder_is_named_as_a_label_may_be(label: str, tmp_path: Path) -> None:
    for name in ("cat", label):
        folder = tmp_path / name
        folder.mkdir()
        for number in range(2):
            save_picture(folder / f"{number}.png", height=8, width=8)
    with pytest.raises(LoadError, match="has the label"):
        read_labelled_pictures(tmp_path)


def test_that_an_array_that_says_more_than_the_file_holds_is_refused_before_room_is_made(
    tmp_path: Path,
) -> None:
    place = tmp_path / "sets.npz"
    for shape in ((10**6, 10**6), (2**40, 2**40), (50_000, 50_000)):
        place.write_bytes(_packed({**_VECTORS, "vectors": _declared(shape, "<f8")}))
        with pytest.raises(LoadError, match="vectors is said to have the shape"):
            read_vectors(place)


@pytest.mark.parametrize("largest", [1e300, 1e19, -3e38, np.inf, np.nan])
def test_that_vectors_too_large_for_a_model_are_refused(largest: float, tmp_path: Path) -> None:
    place = tmp_path / "sets.npz"
    vectors = np.array(_VECTORS["vectors"])
    vectors[2, 1] = largest
    place.write_bytes(_packed({**_VECTORS, "vectors": vectors}))
    with pytest.raises(LoadError, match="too large"):
        read_vectors(place)


_ROW = "{}\tword\tword\t{}\tX\t_\t0\troot\t_\t_\n"


@pytest.mark.parametrize("id", ["1" * 5_000, "1-" + "9" * 5_000, "²", "-", "1-"])
def test_that_a_number_of_a_tree_is_short_and_plain(id: str, tmp_path: Path) -> None:
    place = tmp_path / "a.conllu"
    place.write_text(_ROW.format(id, "NOUN") + _ROW.format(2, "VERB"), encoding="utf-8")
    if id == "1-":
        assert len(read_tagged(place)) == 1  # as before: a range without its end
        return
    with pytest.raises(LoadError, match="10 columns"):
        read_tagged(place)


def test_that_a_relation_without_a_name_is_no_label(tmp_path: Path) -> None:
    place = tmp_path / "a.conllu"
    rows = (_ROW.format(i, "X").replace("root", name) for i, name in enumerate((":", "a:b", "c"), 1))
    place.write_text("".join(rows))
    assert read_tagged(place, "deprel")[0].labels == (None, "a", "c")


_SIZES = ("0", "1", "2", "3", "5", "16", "64", "100000", "-1", "0.5", "nan", "1e400", "x", '""', "true")
_PARTS = {
    "copy-segments": ("model.segment_tokens", "model.segment_memory", "model.max_tokens"),
    "brackets-experts": (
        "model.n_experts", "model.experts_per_token", "model.capacity_factor", "model.balance_weight",
    ),
    "copy-spans": (
        "model.span_limit", "model.span_ramp", "model.span_start", "model.span_penalty", "model.span_kind",
    ),
    "copy-offsets": ("model.span_limit", "model.span_penalty", "model.span_kind"),
    "sentiment-latents": ("model.n_projected", "model.slot_kind", "model.max_tokens"),
    "set-anomaly-inducing": ("model.n_projected", "model.d_model", "model.max_tokens"),
    "induction-reversible": ("model.d_model", "model.n_heads", "model.d_head", "model.residual"),
    "induction": ("model.memory_tokens", "start.prompt_tokens", "model.max_tokens"),
    "reports": ("model.copies_source", "model.max_tokens", "start.prompt_tokens", "model.memory_tokens"),
    "questions": ("model.max_tokens", "model.pooling", "data.n_examples"),
    "tagging": ("model.max_tokens", "data.column", "data.n_examples"),
    "pictures": ("model.patch_size", "model.max_tokens", "model.d_model", "data.n_examples"),
}  # fmt: skip
_SMALL = {
    "training.n_steps": "1",
    "training.batch_size": "2",
    "training.evaluation_batches": "1",
    "data.n_examples": "12",
}


def _train(text: str, out: Path, **given: str) -> list[TrainingEvent]:
    return list(TrainingRun(parse_recipe(text, overrides={**_SMALL, **given}), out, "cpu").events())


@pytest.mark.slow
@pytest.mark.parametrize("name", _PARTS)
def test_that_hostile_sizes_of_newer_parts_are_refused_or_learned_with(name: str, tmp_path: Path) -> None:
    draw = random.Random(f"{SEED} {name}")
    text = (resources_folder() / "recipes" / f"{name}.toml").read_text(encoding="utf-8")
    n_done, refused = 0, []
    for number in range(20 * TIMES):
        keys = draw.sample(_PARTS[name], draw.choice((1, 1, 2)))
        given = {key: draw.choice(_SIZES) for key in keys}
        out = tmp_path / str(number)
        with patience():
            try:
                events = _train(text, out, **given)
            except (RecipeError, LoadError) as error:
                refused.append((given, error, out.exists()))
                continue
        assert isinstance(events[-1], Finished), given
        n_done += 1
    assert n_done, "everything was refused"
    assert not [one for one in refused if one[2] or not one[1].expected]


@pytest.mark.parametrize(("name", "n_tokens"), [("induction", 4), ("tagging", 1), ("reverse-labels", 2)])
def test_that_a_run_that_would_predict_nothing_is_refused(name: str, n_tokens: int, tmp_path: Path) -> None:
    text = (resources_folder() / "recipes" / f"{name}.toml").read_text(encoding="utf-8")
    with pytest.raises(RecipeError, match=r"too little for anything|nothing of a text"):
        _train(text, tmp_path / "run", **{"model.max_tokens": str(n_tokens)})
    assert not (tmp_path / "run" / "recipe.toml").exists()


def test_that_a_run_whose_memory_leaves_no_room_for_the_answer_is_refused(tmp_path: Path) -> None:
    text = (resources_folder() / "recipes" / "induction.toml").read_text(encoding="utf-8")
    given = {"model.max_tokens": "16", "model.memory_tokens": "15"}
    with pytest.raises(RecipeError, match="1 token would be read"):
        _train(text, tmp_path / "run", **given)


@pytest.mark.parametrize(
    ("name", "given", "told"),
    [
        ("induction", {}, "start.from names no model"),
        ("copy", {}, "start.from names no model"),
        ("copy", {"start.from": "stories"}, "reads no prompt"),
    ],
)
def test_that_a_prompt_is_refused_by_its_own_name(name: str, given: dict[str, str], told: str) -> None:
    text = (resources_folder() / "recipes" / f"{name}.toml").read_text(encoding="utf-8")
    with pytest.raises(RecipeError, match=r"start\.prompt_tokens is 4.*" + told):
        parse_recipe(text, overrides={"start.prompt_tokens": "4", **given})


_OPTIONS = (
    *("", "nan", "inf", "-1", "0", "1", "7", "1e400", "9" * 5_000, "x", "²", "on", "\0", "L0H0", "1.5"),
    *("[1]", " 4 ", "−3", "0x10", "1_000", "٣", "encoder", "auto"),
)


@pytest.mark.parametrize("form", ["decoder", "encoder-decoder"])
@pytest.mark.parametrize("name", QUESTIONS)
def test_that_hostile_options_of_a_question_are_refused_or_answered(name: str, form: str) -> None:
    model, question = tiny_model(form), QUESTIONS[name]
    refused = []
    for field in fields_of(question.options):
        for value in _OPTIONS:
            with patience():
                try:
                    options = with_texts(question.options, [f"{field.name}={value}"])
                    ask_model(question, model, SENTENCE, None, options=options, head=None)
                except UserError as error:
                    refused.append(error)
    assert not [error for error in refused if not error.expected]


@pytest.mark.parametrize("name", [name for name, lab in LABS.items() if isinstance(lab, Lab)])
def test_that_hostile_settings_of_a_lab_are_refused_or_fit(name: str) -> None:
    lab = LABS[name]
    assert isinstance(lab, Lab)
    refused = []
    for field in fields_of(lab.example):
        for value in _OPTIONS:
            try:
                choice = with_texts(lab.example, [f"{field.name}={value}"])
            except UserError as error:
                refused.append(error)
            else:
                assert field.fits(getattr(choice, field.name)), (field.name, value)
    assert not [error for error in refused if not error.expected]


def test_that_a_question_is_found_by_its_title_as_typed() -> None:
    for question in QUESTIONS.values():
        assert question_named(question.title.lower().replace(" ", "-")) is question
