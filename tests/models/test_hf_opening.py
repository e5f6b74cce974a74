"""Finding models of Hugging Face's library: folders, the local cache, downloads asked for by name."""

import gc
import json
import shutil
import socket
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from hf_folders import change_config, make, save_folder
from safetensors.torch import load_file, save_file

from attnscope.errors import LoadError
from attnscope.files import sha256_of
from attnscope.hub.shelf import cached_snapshot, is_model_id
from attnscope.models import load
from attnscope.models.huggingface import (
    collector_paused,
    column_labels,
    find_huggingface,
    has_detachable_head,
    licence_of,
    opening,
    watching_passes,
)
from attnscope.nn import stop_if_unwanted
from attnscope.records import FetchStep

hub = pytest.importorskip("huggingface_hub")
pytest.importorskip("transformers")
COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_folder(tmp_path_factory.mktemp("good") / "gpt2", *make("gpt2"))


@pytest.fixture
def folder(good: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(good, tmp_path / "my model"))


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A local cache of its own."""
    monkeypatch.setattr(hub.constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    return tmp_path / "hub"


@pytest.fixture(autouse=True)
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("the network was asked")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)


def put_into_cache(cache: Path, name: str, folder: Path) -> Path:
    """As the library's cache lies on a disk: links from a snapshot into blobs."""
    repository = cache / f"models--{name.replace('/', '--')}"
    snapshot = repository / "snapshots" / COMMIT
    snapshot.mkdir(parents=True)
    (repository / "blobs").mkdir()
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text(COMMIT)
    for number, file in enumerate(sorted(folder.iterdir())):
        shutil.copy(file, repository / "blobs" / str(number))
        (snapshot / file.name).symlink_to(f"../../blobs/{number}")
    return snapshot


def test_that_a_folder_is_known_by_its_configuration(folder: Path, tmp_path: Path) -> None:
    model = load(folder, "cpu")
    info = model.info
    assert info.name == "my model"
    assert info.architecture == "GPT2LMHeadModel (gpt2)"
    assert (info.form, info.objective, info.tokenizer, info.max_tokens) == (
        "decoder",
        "causal",
        "byte-bpe",
        40,
    )
    assert info.sha256 == sha256_of(folder / "model.safetensors")
    assert info.n_parameters == sum(p.numel() for p in load_file(folder / "model.safetensors").values())
    assert load(folder / "model.safetensors", "cpu").info.name == "my model"
    assert find_huggingface(tmp_path) is None


def test_that_the_licence_is_read_from_the_front_matter(folder: Path) -> None:
    assert load(folder, "cpu").info.licence == ""
    card = folder / "README.md"
    for text, licence in (
        ("---\nlanguage: en\nlicense: apache-2.0\ntags:\n- x\n---\n# A model", "apache-2.0"),
        ("---\nlicense:\n- mit\n- x\n---\n", "mit"),
        ("---\nlicense: 'cc-by-4.0'\n---\n", "cc-by-4.0"),
        ("# no front matter\nlicense: mit\n", ""),
        ("---\nlicense: \x1b[31m<b>red</b>\n---\n", "[31m<b>red</b>"),
    ):
        card.write_text(text, encoding="utf-8")
        assert licence_of(folder) == licence


def test_that_shards_are_read_as_one(folder: Path, good: Path) -> None:
    tensors = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    names = {key: f"model-0000{1 + n % 2}-of-00002.safetensors" for n, key in enumerate(tensors)}
    for file in set(names.values()):
        save_file({key: tensors[key] for key, name in names.items() if name == file}, folder / file)
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": names}))
    whole, parts = load(good, "cpu"), load(folder, "cpu")
    expected = torch.tensor(whole.trace("the").logits)  # alignment in memory changes the order of sums
    torch.testing.assert_close(torch.tensor(parts.trace("the").logits), expected, rtol=0, atol=1e-6)
    assert len(parts.info.sha256) == 64


def test_that_an_id_is_found_in_the_local_cache_without_network(cache: Path, folder: Path) -> None:
    put_into_cache(cache, "someone/tiny-gpt2", folder)
    assert load("someone/tiny-gpt2", "cpu").info.name == "someone/tiny-gpt2"
    assert load("hf:someone/tiny-gpt2", "cpu").info.name == "someone/tiny-gpt2"
    snapshot = cached_snapshot("someone/tiny-gpt2")
    assert snapshot is not None
    assert load(snapshot, "cpu").info.licence == ""


def test_that_a_cached_link_out_of_its_repository_is_refused(cache: Path, folder: Path) -> None:
    snapshot = put_into_cache(cache, "someone/evil", folder)
    weights = snapshot / "model.safetensors"
    weights.unlink()
    weights.symlink_to(folder / "model.safetensors")
    with pytest.raises(LoadError) as caught:
        load("someone/evil", "cpu")
    assert caught.value.kind == "outside"


def test_that_an_unknown_id_says_how_to_ask_for_the_download(cache: Path) -> None:
    with pytest.raises(LoadError, match="hf:someone/unknown") as caught:
        load("someone/unknown", "cpu")
    assert caught.value.kind == "missing"
    with pytest.raises(LoadError) as offline:
        load("hf:someone/unknown", "cpu")
    assert offline.value.kind == "offline"
    for name in ("../../etc", "a--b/c", "a/b/c", "", "-x", "a/.."):
        assert not is_model_id(name)


def test_that_only_a_download_by_name_reaches_for_the_hub(
    cache: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def ask(name: str) -> str:
        asked.append(name)
        if name == "someone/broken":
            raise LoadError("the Hub cannot be reached", kind="unreachable")
        return name

    def fetch(name: str, hear: Callable[[FetchStep], None], **_: object) -> None:
        put_into_cache(cache, name, folder)
        hear(FetchStep(n_done=1, n_total=1))

    monkeypatch.setattr("attnscope.hub.fetching.ask_hub", ask)
    monkeypatch.setattr("attnscope.hub.fetching.fetch_now", fetch)
    assert load("hf:someone/new", "cpu").info.name == "someone/new"
    assert load("someone/new", "cpu").info.name == "someone/new"
    assert load("hf:someone/new", "cpu").info.name == "someone/new"
    with pytest.raises(LoadError, match="the Hub cannot be reached"):
        load("hf:someone/broken", "cpu")
    assert asked == ["someone/new", "someone/broken"]
    assert hub.constants.HF_HUB_OFFLINE, "the library itself stays off the network all the time"
    assert hub.constants.HF_HUB_DISABLE_TELEMETRY


def test_that_labels_and_begins_come_from_the_files(folder: Path) -> None:
    assert column_labels({"id2label": {"0": "no", "1": "yes"}}, 3) == ("no", "yes", "label 2")
    change_config(folder, forced_bos_token_id=5000)
    with pytest.raises(LoadError) as caught:
        load(folder, "cpu")
    assert caught.value.kind == "vocabulary"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "values", "class_name"),
    [
        ("bert", {"architectures": ["BertForPreTraining"]}, "BertForMaskedLM"),
        ("bert", {"architectures": ["BertForQuestionAnswering"]}, "BertModel"),
        ("bert", {"architectures": None}, "BertModel"),
        ("gpt2", {"architectures": ["../../evil"]}, "GPT2Model"),
    ],
)
def test_that_the_class_is_one_of_the_librarys_own_lists(
    tmp_path: Path, kind: str, values: dict[str, Any], class_name: str
) -> None:
    folder = save_folder(tmp_path / kind, *make(kind))
    change_config(folder, **values)
    assert load(folder, "cpu").info.architecture.startswith(class_name + " ")


def test_that_what_cannot_be_honoured_is_refused_by_name(tmp_path: Path) -> None:
    folder = save_folder(tmp_path / "bert", *make("bert"))
    for values, word in (
        ({"model_type": "wav2vec2", "architectures": ["Wav2Vec2ForCTC"]}, "Wav2Vec2ForCTC"),
        ({"model_type": "llava", "architectures": ["LlavaForConditionalGeneration"]}, "pictures"),
    ):
        change_config(folder, **values)
        with pytest.raises(LoadError, match=word):
            load(folder, "cpu")


def test_that_opening_a_model_takes_two_passes_through_its_layers(folder: Path) -> None:
    n_calls = 0

    def count(module: torch.nn.Module, *_: object) -> None:
        nonlocal n_calls
        n_calls += type(module).__name__ == "GPT2Block"

    handle = torch.nn.modules.module.register_module_forward_hook(count)
    try:
        model = load(folder, "cpu")
    finally:
        handle.remove()
    assert n_calls == 2 * len(model.sites)


class _Centred(torch.nn.Linear):
    """A head whose answer at one position depends on all the others."""

    def forward(self, stream: torch.Tensor) -> torch.Tensor:
        logits = super().forward(stream)
        return logits - logits.mean(dim=1, keepdim=True)


@pytest.mark.parametrize("is_centred", [False, True])
def test_that_a_head_is_detached_only_where_single_positions_give_its_own_answers(is_centred: bool) -> None:
    model, _ = make("gpt2")
    head = _Centred(model.lm_head.in_features, model.lm_head.out_features, bias=False)
    if is_centred:
        head.weight = model.lm_head.weight
        model.lm_head = head
    with watching_passes(model) as seen, torch.no_grad():
        model(input_ids=torch.tensor([[3, 1, 4], [1, 5, 9]]))
    assert has_detachable_head(model, seen) is not is_centred


def test_that_weights_nobody_waits_for_any_more_are_read_no_further(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def endless(*_: object) -> None:
        while True:
            stop_if_unwanted()

    monkeypatch.setattr(opening, "read_weights", endless)
    with pytest.raises(LoadError, match="too large"), opening.reading_weights(folder, []):
        raise LoadError("The model is too large.", kind="too-large")
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("weights")]


def test_that_damaged_weights_are_told_where_they_are_asked_for(folder: Path) -> None:
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-1])
    with opening.reading_weights(folder, [path]) as read, pytest.raises(LoadError, match="cut short"):
        read()


@pytest.mark.collector
def test_that_the_collector_rests_while_the_library_is_imported_and_spares_it_afterwards(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with collector_paused():
        assert gc.isenabled()  # it has been imported: closed models must not be kept
    monkeypatch.delitem(sys.modules, "transformers")
    before = gc.get_freeze_count()
    try:
        with collector_paused():
            assert not gc.isenabled()
        assert gc.isenabled()
        assert gc.get_freeze_count() > before
    finally:
        gc.unfreeze()
