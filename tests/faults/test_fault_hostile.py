"""A thousand hostile files at every door: each gives a value or one error that a person can act on.

No other exception, no wait without an end, nothing overwritten. Variants are drawn from a fixed seed. For a
longer night, ATTNSCOPE_HOSTILE=20 draws twenty times as many, and ATTNSCOPE_HOSTILE_SEED others.
"""

import io
import json
import math
import os
import signal
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any

import hostile
import numpy as np
import pytest
import torch
from hf_folders import make, save_folder, save_picture, save_recording
from session_samples import Desk, states_of
from tiny_models import FRENCH, SENTENCE, tiny_model

from attnscope import figure, files
from attnscope.analysis import read_gold_files, read_links
from attnscope.app import DRAFT_NAME, bring_draft_back
from attnscope.cli.inputs import read_file_argument
from attnscope.conllu import read_conllu
from attnscope.errors import UserError
from attnscope.figures import read_figure_file
from attnscope.models import load
from attnscope.models.huggingface import (
    prepared_pixels,
    read_extractor,
    read_preparation,
    read_special_ids,
    read_vocabulary,
)
from attnscope.one_window import read_wanted
from attnscope.paths import resources_folder
from attnscope.records import GoldFiles, Pace, RunMark, edges_from_text
from attnscope.settings import read_settings
from attnscope.text import (
    Tokenizer,
    read_labelled,
    read_lines,
    read_pairs,
    read_spans,
    read_tagged,
    read_text_file,
    read_vectors,
)
from attnscope.trace import load_traces, read_shapes, read_tensors
from attnscope.training import (
    PRECISION_NAME,
    THREADS_NAME,
    ResumeState,
    kept_ways,
    load_state,
    parse_recipe,
    read_inspections,
    read_news,
    read_recipe,
    read_run,
    read_writer,
    save_state,
    settled_precision,
    speed,
)
from attnscope.viewmodels.session import SavedSession, Setting, read_session, session_bytes
from attnscope.viewmodels.training import RECIPE_FILE, SweepWish, keep_wish, read_unfinished

pytestmark = pytest.mark.slow

TIMES = int(os.environ.get("ATTNSCOPE_HOSTILE", "1"))
SEED = int(os.environ.get("ATTNSCOPE_HOSTILE_SEED", "7"))
_PATIENCE_S = 60
Door = Callable[[Path], object]


class _TooLong(BaseException):
    """An input was not done within the patience of any person."""


@contextmanager
def patience() -> Iterator[None]:
    """Raise after a time that no input may take, where the system can tell."""

    def ring(*_: object) -> None:
        raise _TooLong

    if not hasattr(signal, "SIGALRM"):
        yield
        return
    before = signal.signal(signal.SIGALRM, ring)
    signal.alarm(_PATIENCE_S)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def try_all(door: Door, place: Path, contents: Iterable[bytes], beside: Path | None = None) -> None:
    """Put each content at `place` and open it; what lies `beside` it must stay as it is."""
    before = _digest(beside, place) if beside is not None else ""
    faults = []
    for number, content in enumerate(contents):
        place.write_bytes(content)
        try:
            with patience():
                door(place)
        except UserError:
            continue
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt):
                raise
            faults.append(f"{number}: {type(error).__name__}: {str(error)[:200]} from {content[:300]!r}")
    assert not faults, f"{len(faults)} faults:\n" + "\n".join(faults[:20])
    if beside is not None:
        assert _digest(beside, place) == before


def _digest(folder: Path, but: Path) -> str:
    found = sha256()
    for path in sorted(folder.rglob("*")):
        if path.is_file() and path != but:
            found.update(path.name.encode() + b"\0" + path.read_bytes())
    return found.hexdigest()


@pytest.fixture(scope="module")
def model_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("hostile") / "model"
    tiny_model("encoder-decoder").save(folder)
    return folder


@pytest.fixture
def folder(model_folder: Path, tmp_path: Path) -> Path:
    """A copy of a model folder that is opened unchecked."""
    place = tmp_path / "model"
    place.mkdir()
    for file in model_folder.iterdir():
        if file.name != files.MANIFEST_NAME:
            (place / file.name).write_bytes(file.read_bytes())
    return place


def _open_and_trace(path: Path) -> None:
    load(path.parent, "cpu").trace(SENTENCE, FRENCH)


def test_that_hostile_configurations_are_refused_or_open(folder: Path) -> None:
    config = json.loads((folder / "config.json").read_text())
    try_all(_open_and_trace, folder / "config.json", hostile.of_json(config, 150 * TIMES, SEED), folder)


def test_that_hostile_tokenizers_are_refused_or_read(folder: Path) -> None:
    content = json.loads((folder / "tokenizer.json").read_text())

    def read(path: Path) -> None:
        tokenizer = Tokenizer.load(path)
        tokenizer.decode(tokenizer.encode(SENTENCE).ids)

    try_all(read, folder / "tokenizer.json", hostile.of_json(content, 150 * TIMES, SEED), folder)


def test_that_hostile_weights_are_refused_or_read(folder: Path) -> None:
    place = folder / "model.safetensors"
    contents = list(hostile.of_safetensors(place.read_bytes(), 100 * TIMES, SEED))
    for door in (read_tensors, read_shapes, _open_and_trace):
        try_all(door, place, contents if door is not _open_and_trace else contents[:40], folder)


def test_that_hostile_differences_from_a_model_that_comes_along_are_refused_or_open(tmp_path: Path) -> None:
    kept = resources_folder() / "films" / "agreement-prompt" / "checkpoints" / "150"
    for name in ("config.json", "tokenizer.json", "model.safetensors"):
        (tmp_path / name).write_bytes((kept / name).read_bytes())
    base = json.loads((tmp_path / "config.json").read_text())["base"]
    config, weights = tmp_path / "config.json", tmp_path / "model.safetensors"
    before = config.read_text()

    def open_only(path: Path) -> None:
        load(path.parent, "cpu")

    described = (
        before.replace(json.dumps(base, indent=1).replace("\n", "\n "), changed.decode("utf-8", "replace"))
        for changed in hostile.of_json(base, 60 * TIMES, SEED)
    )
    try_all(open_only, config, (text.encode() for text in described), tmp_path)
    config.write_text(before)
    try_all(open_only, weights, hostile.of_safetensors(weights.read_bytes(), 30 * TIMES, SEED), tmp_path)


def test_that_hostile_manifests_are_refused_or_hold(model_folder: Path, tmp_path: Path) -> None:
    files.replace_folder(tmp_path / "new", lambda new: (new / "a").write_text("content") and None)
    place = tmp_path / "new" / files.MANIFEST_NAME
    manifest = json.loads(place.read_text())

    def check_and_save(path: Path) -> None:
        try:
            files.check_manifest(path.parent)
        except UserError:
            files.drop_listed(path.parent, "gone")

    try_all(check_and_save, place, hostile.of_json(manifest, 80 * TIMES, SEED), tmp_path / "new")


def test_that_hostile_recordings_are_refused_or_open(tmp_path: Path) -> None:
    place = tmp_path / "trace.safetensors"
    tiny_model("decoder").trace(SENTENCE).save(place)
    content = place.read_bytes()
    n_header = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + n_header])
    inner = json.loads(header["__metadata__"]["attnscope_traces"])

    def rewritten() -> Iterator[bytes]:
        yield from hostile.of_safetensors(content, 60 * TIMES, SEED)
        for described in hostile.of_json(inner, 80 * TIMES, SEED + 1):
            header["__metadata__"]["attnscope_traces"] = described.decode("utf-8", "replace")
            changed = json.dumps(header).encode()
            yield len(changed).to_bytes(8, "little") + changed + content[8 + n_header :]

    try_all(load_traces, place, rewritten())


def test_that_hostile_sessions_are_refused_or_open(tmp_path: Path) -> None:
    saved = SavedSession(source="grammar", setting=Setting(text=SENTENCE), notes="a note")
    content = json.loads(session_bytes(saved))
    content["gates"], content["selection"] = [["encoder", 0, 1, 0.5]], [["encoder", 0, 1]]
    content["stops"] = [{**content, "name": "stop"}]
    try_all(read_session, tmp_path / "a.attnscope", hostile.of_json(content, 150 * TIMES, SEED))


@pytest.mark.qt
@pytest.mark.parametrize("is_question", [True, False])
def test_that_hostile_figures_are_refused_or_open(tmp_path: Path, qapp: object, is_question: bool) -> None:
    place = tmp_path / "a.figure.json"
    model = tiny_model("decoder")
    drawn = figure(model.trace(SENTENCE), view="head", head="L0H0") if is_question else None
    if drawn is None:
        from attnscope import positions_figure

        drawn = positions_figure(encodings=("sinusoidal",), n_positions=8, d_model=4)
    drawn.save(place)
    content = json.loads(place.read_text())
    try_all(read_figure_file, place, hostile.of_json(content, 100 * TIMES, SEED))


@pytest.mark.parametrize("name", ["reverse", "stories", "grammar"])
def test_that_hostile_recipes_are_refused_or_read(tmp_path: Path, name: str) -> None:
    found = sorted((resources_folder() / "recipes").glob(f"{name}*.toml"))
    text = (found or sorted((resources_folder() / "recipes").glob("*.toml")))[0].read_text()
    try_all(
        partial(read_recipe, needs_data=False), tmp_path / "a.toml", hostile.of_text(text, 60 * TIMES, SEED)
    )


_METRICS = [
    {"attempt": 1, "event": "started", "step": 0, "n_steps": 10, "device": "cpu"},
    {"attempt": 1, "event": "evaluated", "step": 5, "loss": 1.5},
]


@pytest.mark.parametrize("name", ["metrics.jsonl", "run.lock", "inspections.jsonl", "recipe.toml"])
def test_that_hostile_run_folders_are_refused_or_read(tmp_path: Path, name: str) -> None:
    recipe = sorted((resources_folder() / "recipes").glob("*.toml"))[0].read_text()
    (tmp_path / "recipe.toml").write_text(recipe)
    (tmp_path / "checkpoints" / ("9" * 200)).mkdir(parents=True)
    lock = {"pid": 1, "host": "elsewhere", "since": 1.5}
    look = {"step": 1, "learning_rate": 0.1, "n_still": 0, "layers": ["encoder L0"], "gradient_norms": [1.0]}
    contents: dict[str, Iterable[bytes]] = {
        "metrics.jsonl": (
            b"\n".join(lines)
            for lines in zip(
                *(hostile.of_json(event, 40 * TIMES, SEED + k) for k, event in enumerate(_METRICS)),
                strict=True,
            )
        ),
        "run.lock": hostile.of_json(lock, 40 * TIMES, SEED),
        "inspections.jsonl": hostile.of_json(look, 40 * TIMES, SEED),
        "recipe.toml": hostile.of_text(recipe, 40 * TIMES, SEED),
    }

    def read(path: Path) -> None:
        read_writer(path.parent)
        read_inspections(path.parent)
        list(read_news(path.parent, RunMark()))
        read_run(path.parent)

    try_all(read, tmp_path / name, contents[name], tmp_path)


def test_that_hostile_masks_are_refused_or_read(tmp_path: Path) -> None:
    tokens = tiny_model("decoder").trace(SENTENCE).source.tokens
    text = '0 1\ncat -> sat\n# words\n"3", the\n2 2\n'

    def read(path: Path) -> None:
        edges_from_text(path.read_bytes().decode("utf-8", "replace"), tokens)

    try_all(read, tmp_path / "mask.txt", hostile.of_text(text * 3, 80 * TIMES, SEED))


def test_that_hostile_corpora_are_refused_or_read(tmp_path: Path) -> None:
    text = "".join(f"{SENTENCE}\t{FRENCH}\n" for _ in range(4))
    for door in (read_lines, read_pairs):
        try_all(door, tmp_path / "a.tsv", hostile.of_text(text, 50 * TIMES, SEED))


_EMPTY = "\t_" * 8
_CONLLU = "\n".join(
    f"{i}\t{word}\t{word}\tX\tX\t_\t{max(0, i - 1)}\tdep\t_\t_" for i, word in enumerate(SENTENCE.split(), 1)
)


def test_that_hostile_treebanks_are_refused_or_read(tmp_path: Path) -> None:
    text = f"# text = {SENTENCE}\n1-2\tthe cat{_EMPTY}\n{_CONLLU}\n\n"
    try_all(read_conllu, tmp_path / "a.conllu", hostile.of_text(text, 80 * TIMES, SEED))
    try_all(read_conllu, tmp_path / "a.conllu.gz", hostile.of_text(text, 20 * TIMES, SEED))


_LABELLED = "".join(f"{label}\t{SENTENCE}\t{FRENCH}\n" for label in ("good", "bad") * 3)
_SPANS = "".join(f"who ?\t[[{SENTENCE}]] came {i}\n" for i in range(4))
_SLASHES = "the/DET cat/NOUN sat/VERB\na/DET dog/NOUN\n" * 2
_COLUMNS = "the\tDET\ncat\tNOUN\n\na\tDET\ndog\tNOUN\n" * 2


@pytest.mark.parametrize(("text", "door"), [
    (_LABELLED, read_labelled), (_SPANS, read_spans), (_SLASHES, read_tagged), (_COLUMNS, read_tagged),
    (f"{_CONLLU}\n\n" * 2, partial(read_tagged, column="deprel")),
    ("0-0 1p2 2:1 3?3\n\n1-1p\n" * 2, read_links),
    ("0-0 1p2 2:1 3?3\n\n1-1p\n" * 2, partial(read_links, counts_from=1, is_swapped=True)),
], ids=["labels", "spans", "slashes", "columns", "trees", "links", "links from 1"])  # fmt: skip
def test_that_hostile_data_of_a_recipe_are_refused_or_read(tmp_path: Path, text: str, door: Door) -> None:
    try_all(door, tmp_path / "data.tsv", hostile.of_text(text, 60 * TIMES, SEED))


def test_that_hostile_links_of_pairs_are_refused_or_read(tmp_path: Path) -> None:
    pairs, links = tmp_path / "pairs.tsv", tmp_path / "pairs.links"
    rows = f"{SENTENCE}\t{FRENCH}\n" * 3
    links.write_text("0-0 1-1\n" * 3)
    files = GoldFiles(pairs=str(pairs), links=str(links), counts_from=0)
    try_all(lambda _: read_gold_files(files), pairs, hostile.of_text(rows, 60 * TIMES, SEED))
    pairs.write_text(rows)
    hostile_links = hostile.of_text("0-0 1-1\n2-1 0p0\n1:1\n", 60 * TIMES, SEED)
    try_all(lambda _: read_gold_files(files), links, hostile_links)


def _vectors(**arrays: Any) -> bytes:
    held = io.BytesIO()
    np.savez(held, **arrays)
    return held.getvalue()


def test_that_hostile_vectors_are_refused_or_read(tmp_path: Path) -> None:
    plain: dict[str, Any] = {
        "vectors": np.arange(12.0).reshape(4, 3),
        "sets": np.array([[0, 1, 2], [1, 2, 3], [3, 0, 1]]),
        "odd": np.array([0, 1, 2]),
        "names": np.array(["a", "b", "c", "d"]),
    }
    odd = (
        np.array(math.nan), np.zeros(0), np.zeros((0, 3)), np.array([[1e308, -1e308]] * 4),
        np.array([[0, 2**40, 1]] * 3), np.array(["x" * 5_000, "\0", "\ud800", ""]), np.array([b"a"] * 4),
        np.zeros((4, 3), complex), np.zeros((4, 3), "M8[s]"), np.array([{}, None, 1, 2], dtype=object),
        np.zeros(4, [("a", "i4")]), np.full((4, 3), np.inf), np.array([True, False, True]),
        np.zeros((2, 2, 2)), np.array([-1, 9, 2]),
    )  # fmt: skip
    contents = [_vectors(**{**plain, name: value}) for name in plain for value in odd]
    contents += [_vectors(**{k: v for k, v in plain.items() if k != name}) for name in plain]
    whole = _vectors(**plain)
    try_all(read_vectors, tmp_path / "sets.npz", [*contents, *hostile.of_bytes(whole, 100 * TIMES, SEED)])


def test_that_hostile_texts_are_refused_or_read(tmp_path: Path) -> None:
    def read(path: Path) -> None:
        list(read_text_file(path))
        read_file_argument(path)

    try_all(read, tmp_path / "a.txt", hostile.of_text(f"{SENTENCE}\n{FRENCH}\n" * 4, 80 * TIMES, SEED))


def test_that_hostile_notes_of_several_runs_are_refused_or_read(tmp_path: Path) -> None:
    keep_wish(SweepWish(values=("training.seed=1,2",), seeds="0,1", keep_best=1, after=2, out=str(tmp_path)))
    (tmp_path / RECIPE_FILE).write_text((resources_folder() / "recipes" / "copy.toml").read_text())
    (place,) = (path for path in tmp_path.iterdir() if path.suffix == ".wish")
    contents = hostile.of_json(json.loads(place.read_text()), 80 * TIMES, SEED)
    try_all(lambda path: read_unfinished(path.parent), place, contents, tmp_path)


def test_that_hostile_drafts_of_recipes_change_nothing_or_are_taken(tmp_path: Path) -> None:
    draft = {"path": "copy", "origin": "", "texts": {"copy": "[model]\nd_model = 8\n", "": "x"}}

    def bring_back(path: Path) -> None:
        bring_draft_back(states_of(Desk().session).training, path.parent)

    try_all(bring_back, tmp_path / DRAFT_NAME, hostile.of_json(draft, 40 * TIMES, SEED))


def test_that_hostile_notes_on_how_a_run_computes_are_left_alone(tmp_path: Path) -> None:
    cpu = torch.device("cpu")
    for content in (b"2 rows", b"2", b"bfloat16"):
        try_all(
            lambda path: kept_ways(path.parent),
            tmp_path / THREADS_NAME,
            hostile.of_bytes(content, 20 * TIMES, SEED),
        )
        try_all(
            lambda path: settled_precision(path.parent, cpu, is_older=True, is_alone=False),
            tmp_path / PRECISION_NAME,
            hostile.of_bytes(content, 20 * TIMES, SEED),
        )


def test_that_hostile_states_of_a_run_are_refused_or_read(tmp_path: Path) -> None:
    place = tmp_path / "state.safetensors"
    state = ResumeState(step=5, data_sha256="ab", weights_sha256="cd", version="1")
    save_state(place, state, {"a.b": torch.arange(6.0).reshape(2, 3), "n": torch.tensor(3)})
    content = place.read_bytes()
    n_header = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + n_header])
    ((key, inner),) = header["__metadata__"].items()

    def rewritten() -> Iterator[bytes]:
        yield from hostile.of_safetensors(content, 40 * TIMES, SEED)
        for described in hostile.of_json(json.loads(inner), 60 * TIMES, SEED + 1):
            header["__metadata__"] = {key: described.decode("utf-8", "replace")}
            changed = json.dumps(header).encode()
            yield len(changed).to_bytes(8, "little") + changed + content[8 + n_header :]

    try_all(load_state, place, rewritten())


def test_that_hostile_metrics_of_an_earlier_run_tell_no_speed_or_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe = (resources_folder() / "recipes" / "copy.toml").read_text()
    (tmp_path / "recipe.toml").write_text(recipe)
    monkeypatch.setattr(speed, "measured_pace", lambda *_: Pace(flops_per_s=1e9, doubt=2.0, words="measured"))
    started = {"attempt": 1, "event": "started", "step": 0, "n_steps": 10, "device": "cpu"}
    progress = {"attempt": 1, "event": "progress", "step": 1, "loss": 1.5, "tokens_per_s": 100.0}
    lines = zip(
        *(hostile.of_json(one, 60 * TIMES, SEED + k) for k, one in enumerate([started] + [progress] * 6)),
        strict=True,
    )
    cpu = torch.device("cpu")

    def tell(path: Path) -> None:
        speed._read_speed.cache_clear()
        speed.pace_of(parse_recipe(recipe), cpu, [path.parent])

    try_all(tell, tmp_path / "metrics.jsonl", (b"\n".join(some) for some in lines), tmp_path)


_PICTURE = {
    "size": {"shortest_edge": 10}, "crop_size": {"height": 8, "width": 8}, "do_center_crop": True,
    "image_mean": [0.4, 0.5, 0.6], "image_std": [0.2, 0.2, 0.3], "resample": 3, "rescale_factor": 1 / 255,
}  # fmt: skip
_SOUND = {"feature_size": 16, "sampling_rate": 16_000, "hop_length": 160, "chunk_length": 1, "n_fft": 400}
_GENERATION = {
    "bos_token_id": 0, "eos_token_id": [0, 1], "pad_token_id": 1, "decoder_start_token_id": 1,
    "forced_bos_token_id": 2, "max_length": 20, "temperature": 0.7, "suppress_tokens": [1, 2],
}  # fmt: skip
_TOKENS = {
    "bos_token": "<|endoftext|>", "eos_token": {"content": "<|endoftext|>", "lstrip": False},
    "model_max_length": 10**30, "tokenizer_class": "GPT2Tokenizer", "chat_template": "{{ messages }}",
    "added_tokens_decoder": {"0": {"content": "<|endoftext|>", "special": True}},
}  # fmt: skip


@pytest.mark.parametrize("kind", ["gpt2", "bert-classes", "bart", "vit", "whisper"])
def test_that_hostile_configurations_of_the_library_are_refused_or_open(kind: str, tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    files = {"preprocessor_config": _SOUND} if kind == "whisper" else {}
    folder = save_folder(tmp_path / "model", *make(kind), **files)
    text = SENTENCE
    if kind == "vit":
        text = save_picture(tmp_path / "a.png", height=9, width=12)
    elif kind == "whisper":
        text = save_recording(tmp_path / "a.wav")

    def open_and_trace(path: Path) -> None:
        model = load(path.parent, "cpu")
        model.trace(text, FRENCH if kind == "bart" else None)

    content = json.loads((folder / "config.json").read_text())
    try_all(open_and_trace, folder / "config.json", hostile.of_json(content, 30 * TIMES, SEED), folder)


def test_that_hostile_files_beside_a_model_of_the_library_are_refused_or_read(tmp_path: Path) -> None:
    library = pytest.importorskip("transformers")
    folder = save_folder(tmp_path / "model", *make("gpt2"))
    doors: dict[str, tuple[Any, Door]] = {
        "generation_config.json": (_GENERATION, lambda path: read_special_ids({}, path.parent, 50)),
        "tokenizer_config.json": (_TOKENS, lambda path: read_vocabulary(path.parent, library)),
        "special_tokens_map.json": (_TOKENS, lambda path: read_vocabulary(path.parent, library)),
    }
    for number, (name, (content, door)) in enumerate(doors.items()):
        try_all(door, folder / name, hostile.of_json(content, 80 * TIMES, SEED + number), folder)
        (folder / name).unlink()


@pytest.mark.parametrize("name", ["preprocessor_config.json", "processor_config.json"])
def test_that_hostile_processors_are_refused_or_read(name: str, tmp_path: Path) -> None:
    library = pytest.importorskip("transformers")
    place, pictures, sounds = tmp_path / name, _PICTURE, _SOUND
    is_joint = name == "processor_config.json"
    picture = {"image_processor": pictures} if is_joint else pictures
    sound = {"feature_extractor": sounds} if is_joint else sounds
    black = np.zeros((12, 9, 3), np.uint8)
    try_all(
        lambda _: prepared_pixels(black, read_preparation(tmp_path, (8, 8))),
        place,
        hostile.of_json(picture, 150 * TIMES, SEED),
    )
    config = library.WhisperConfig(num_mel_bins=16, max_source_positions=50)
    contents = hostile.of_json(sound, 80 * TIMES, SEED + 1)
    try_all(lambda _: read_extractor(tmp_path, library, config), place, contents)


def test_that_hostile_requests_to_the_window_ask_for_nothing_or_a_path() -> None:
    wanted = {"format": 1, "open": "a.attnscope"}
    for line in hostile.of_json(wanted, 200 * TIMES, SEED):
        assert isinstance(read_wanted(line), str)


def test_that_hostile_settings_are_the_defaults(tmp_path: Path) -> None:
    content: dict[str, Any] = {"format": 1, "theme": "dark", "geometry": [0, 0, 900, 700], "recent": ["a"]}
    try_all(
        lambda path: read_settings(path.parent),
        tmp_path / "settings.json",
        hostile.of_json(content, 60 * TIMES, SEED),
    )
