"""F7–F9, F12, F17–F27: folders of Hugging Face's library from strangers; every fault is one LoadError."""

import json
import os
import pickle
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from hf_folders import change_config, make, save_folder
from safetensors.torch import load_file, save_file

from attnscope.errors import LoadError
from attnscope.models import load

pytest.importorskip("transformers")

Spoil = Callable[[Path], None]


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_folder(tmp_path_factory.mktemp("good") / "gpt2", *make("gpt2"))


@pytest.fixture
def folder(good: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(good, tmp_path / "model"))


def config(**values: Any) -> Spoil:
    return lambda folder: change_config(folder, **values)


def raw_config(data: bytes) -> Spoil:
    return lambda folder: void((folder / "config.json").write_bytes(data))


def void(_: object) -> None:
    return None


def weights(change: Callable[[dict[str, torch.Tensor]], None]) -> Spoil:
    def spoil(folder: Path) -> None:
        path = folder / "model.safetensors"
        tensors = load_file(path)
        change(tensors)
        save_file(tensors, path, metadata={"format": "pt"})

    return spoil


def drop(name: str) -> Spoil:
    return weights(lambda tensors: void(tensors.pop(name)))


def put(name: str, tensor: torch.Tensor) -> Spoil:
    return weights(lambda tensors: tensors.update({name: tensor}))


def only(name: str, content: bytes) -> Spoil:
    """The folder's weights are another file."""

    def spoil(folder: Path) -> None:
        (folder / "model.safetensors").unlink()
        (folder / name).write_bytes(content)

    return spoil


def shards(names: dict[str, str], present: tuple[str, ...] = ()) -> Spoil:
    def spoil(folder: Path) -> None:
        tensors = load_file(folder / "model.safetensors")
        (folder / "model.safetensors").unlink()
        for name in present:
            held = {key: tensors[key] for key, file in names.items() if file == name and key in tensors}
            save_file(held, folder / name)
        (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": names}))

    return spoil


def link_out(folder: Path) -> None:
    outside = folder.parent / "elsewhere.safetensors"
    shutil.move(folder / "model.safetensors", outside)
    (folder / "model.safetensors").symlink_to(outside)


def pipe(folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    os.mkfifo(folder / "model.safetensors")


def tokenizer(change: Callable[[dict[str, Any]], None]) -> Spoil:
    def spoil(folder: Path) -> None:
        path = folder / "tokenizer.json"
        content = json.loads(path.read_text(encoding="utf-8"))
        change(content)
        path.write_text(json.dumps(content), encoding="utf-8")

    return spoil


class Evil:
    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return os.system, ("echo never",)


WTE, QKV = "transformer.wte.weight", "transformer.h.0.attn.c_attn.weight"
FIRST = "model-00001-of-00003.safetensors"
PANIC = {"type": "Split", "pattern": {"Regex": "(a+)+$"}, "behavior": "Isolated", "invert": False}

FAULTS: dict[str, tuple[Spoil, str, str]] = {
    "F1 cut short": (lambda f: os.truncate(f / "model.safetensors", 3000), "truncated", "cut short"),
    "F9 a pickle with code": (
        only("pytorch_model.bin", pickle.dumps(Evil(), protocol=2)), "pickle", "system"
    ),
    "F12 an LFS pointer": (
        lambda f: void((f / "model.safetensors").write_bytes(b"version https://git-lfs.github.com/spec/v1\n")),
        "lfs-pointer", "git lfs pull",
    ),
    "no weights": (lambda f: (f / "model.safetensors").unlink(), "missing", "model.safetensors"),
    "weights of another library": (only("tf_model.h5", b"x"), "missing", "tf_model.h5"),
    "F17 a missing key": (drop(QKV), "keys", f"missing     {QKV}"),
    "F17 a key of another size": (put(QKV, torch.zeros(32, 90)), "keys", "wrong size"),
    "F17 another prefix": (
        weights(lambda t: void([t.update({f"x.y.{k}": t.pop(k)}) for k in list(t)])), "keys", "missing"
    ),
    "F18 whole numbers": (put(QKV, torch.zeros(32, 96, dtype=torch.int8)), "dtype", "int8"),
    "F19 a shard outside": (shards({WTE: "../evil.safetensors"}), "outside", "../evil"),
    "F19 an absolute shard": (shards({WTE: "/etc/passwd"}), "outside", "/etc/passwd"),
    "F19 a link that leads out": (link_out, "outside", "outside the folder"),
    "F19 an absent shard": (
        shards({WTE: FIRST, QKV: FIRST.replace("00001", "00002")}, (FIRST,)), "missing",
        "Shard 2 of 3 is missing: model-00002-of-00003.safetensors",
    ),
    "F19 a shard that is not in the index": (shards({WTE: FIRST}, (FIRST,)), "missing", "Shard 2 of 3"),
    "F20 a pipe": (pipe, "not-a-file", "pipe"),
    "F21 not JSON": (raw_config(b'{"model_type": "gpt2", }'), "json", "config.json"),
    "F21 NaN": (raw_config(b'{"model_type": "gpt2", "n_embd": NaN}'), "config", "n_embd is 'nan'"),
    "F21 twice the same key": (raw_config(b'{"n_embd": 8, "n_embd": 9}'), "duplicate", "twice"),
    "F22 a width of 10^9": (config(n_embd=10**9), "too-large", "parameters"),
    "F22 a width of 10^6": (config(n_embd=10**6), "too-large", "GB"),
    "F22 more than a number can be": (config(n_embd=10**30), "config", "n_embd"),
    "F22 a million layers": (config(n_layer=10**6), "config", "n_layer"),
    "F22 no heads": (config(n_head=0), "config", "n_head"),
    "F22 heads that do not divide": (config(n_head=5), "config", "5 heads"),
    "F22 a billion labels": (config(num_labels=10**9), "config", "num_labels"),
    "F22 more weights than the file has": (config(n_inner=10**6), "keys", "config.json describes"),
    "F22 a part that is no configuration": (config(text_config="x"), "config", "text_config"),
    "F22 a truth value": (config(n_layer=True), "config", "n_layer"),
    "F22 a number as text": (config(n_embd="32"), "config", "n_embd"),
    "F22 an unknown activation": (config(activation_function="boom"), "config", "boom"),
    "F23 an architecture of its own": (
        config(model_type="mine", auto_map={"AutoModel": "modeling.Evil"}), "architecture", "'mine'"
    ),
    "no model type": (config(model_type=None), "config", "model_type"),
    "quantized": (config(quantization_config={"quant_method": "gptq", "bits": 4}), "quantized", "gptq"),
    "F24 another embedding": (config(vocab_size=300), "vocabulary", "config.json says 300"),
    "F24 a longer tokenizer": (
        tokenizer(lambda t: void(t["model"]["vocab"].update({"zzz": 262, "yyy": 263}))),
        "vocabulary", "the embedding has 262 rows",
    ),
    "F25 an unknown component": (
        tokenizer(lambda t: t.update(pre_tokenizer={"type": "Evil"})), "tokenizer", "tokenizer.json"
    ),
    "F25 not a tokenizer": (lambda f: void((f / "tokenizer.json").write_text("{}")), "tokenizer", ""),
    "F26 a regex without end": (tokenizer(lambda t: t.update(pre_tokenizer=PANIC)), "tokenizer", "tokenizer"),
    "F27 an empty vocabulary": (
        tokenizer(lambda t: t.update(model={"type": "BPE", "vocab": {}, "merges": []}, added_tokens=[])),
        "tokenizer", "empty",
    ),
    "F27 an id of 2^32-1": (
        tokenizer(lambda t: void(t["model"]["vocab"].update({"zzz": 2**32 - 1}))), "tokenizer", "id"
    ),
    "no tokenizer": (lambda f: (f / "tokenizer.json").unlink(), "missing", "tokenizer.json"),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", FAULTS)
def test_that_a_spoiled_folder_is_one_load_error_that_names_the_fault(folder: Path, name: str) -> None:
    spoil, kind, word = FAULTS[name]
    spoil(folder)
    begun = time.process_time()
    with pytest.raises(LoadError) as caught:
        load(folder, "cpu")
    assert caught.value.kind == kind, str(caught.value)
    assert word in str(caught.value)
    assert caught.value.action
    assert time.process_time() - begun < 5.0


def test_that_f23_keys_that_name_code_are_dropped_and_told(folder: Path) -> None:
    change_config(
        folder,
        auto_map={"AutoModelForCausalLM": "modeling_evil.Evil"},
        trust_remote_code=True,
        _attn_implementation_internal="someone/kernel",
        attn_implementation="someone/kernel",
    )
    (folder / "modeling_evil.py").write_text("raise SystemExit('code of the folder was run')")
    note = load(folder, "cpu").info.note
    for key in ("auto_map", "trust_remote_code", "_attn_implementation_internal", "attn_implementation"):
        assert key in note


def test_that_f7_weights_that_are_not_finite_are_named(folder: Path) -> None:
    weights(lambda tensors: void(tensors[QKV].__setitem__((0, 0), torch.nan)))(folder)
    model = load(folder, "cpu")
    assert QKV in model.info.note
    assert "not finite" in model.info.note


def test_that_f8_weights_that_change_after_loading_change_nothing(folder: Path) -> None:
    model = load(folder, "cpu")
    before = model.trace("the end").logits
    path = folder / "model.safetensors"
    path.write_bytes(b"\0" * path.stat().st_size)
    assert (model.trace("the end").logits == before).all()


def test_that_f17_tied_weights_need_not_be_there_and_odd_ones_are_told(folder: Path) -> None:
    assert "lm_head.weight" not in load_file(folder / "model.safetensors")
    put("transformer.h.0.attn.masked_bias", torch.tensor(-1e4))(folder)
    put("extra.weight", torch.zeros(2))(folder)
    assert "extra.weight" in load(folder, "cpu").info.note


def test_that_half_precision_is_computed_in_float32_with_a_note(folder: Path) -> None:
    weights(lambda tensors: tensors.update({k: t.half() for k, t in tensors.items()}))(folder)
    model = load(folder, "cpu")
    assert "float16" in model.info.note
    assert all(p.dtype == torch.float32 for p in model.network.module.parameters())


def test_that_a_library_that_is_not_there_is_named_with_the_way_to_install_it(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "transformers", None)
    with pytest.raises(LoadError, match=r"pip install 'attnscope\[hf\]'") as caught:
        load(folder, "cpu")
    assert caught.value.kind == "library"
