"""F1–F7, F9–F13, F17, F18, F20, F24: weights files from strangers; every fault is one LoadError."""

import json
import os
import pickle
import struct
import threading
import zipfile
from hashlib import sha256
from pathlib import Path
from tempfile import NamedTemporaryFile

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file
from tiny_models import SENTENCE, tiny_model, tiny_tokenizer

from attnscope.errors import LoadError
from attnscope.models import load, open_source, read_model_folder
from attnscope.trace import MAX_HEADER_BYTES, MAX_TENSORS, load_trace, read_tensors, tensor_file


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A good model folder without a manifest, as a stranger's would be."""
    target = tmp_path / "model"
    tiny_model("decoder").save(target)
    (target / "manifest.json").unlink()
    return target


def file_of(header: object, data: bytes = b"") -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def entry(begin: int, end: int, shape: object = None, dtype: str = "F32") -> dict[str, object]:
    return {
        "dtype": dtype,
        "shape": [(end - begin) // 4] if shape is None else shape,
        "data_offsets": [begin, end],
    }


DAMAGED: dict[str, tuple[bytes, str]] = {
    "F1 empty": (b"", "truncated"),
    "F1 seven bytes": (b"\x01" * 7, "truncated"),
    "F1 data cut": (file_of({"a": entry(0, 8)}, b"\0" * 5), "truncated"),
    "F1 header cut": (file_of({"a": entry(0, 8)})[:20], "truncated"),
    "F2 length 2^63": (struct.pack("<Q", 2**63) + b"{}", "header-too-large"),
    "F2 length above the cap": (struct.pack("<Q", MAX_HEADER_BYTES + 1) + b"{}", "header-too-large"),
    "F3 bad JSON": (file_of(b'{"a": }'), "header"),
    "F3 bad UTF-8": (file_of(b'{"\xff\xfe": 1}'), "header"),
    "F3 deep": (file_of(b'{"a": ' + b"[" * 100_000 + b"]" * 100_000 + b"}"), "header"),
    "F3 a list": (file_of([]), "header"),
    "F3 entry is no object": (file_of({"a": 3}), "header"),
    "F3 metadata is no text": (file_of({"__metadata__": {"a": 1}}), "header"),
    "F4 twice the same name": (
        file_of(b'{"a":%s,"a":%s}' % ((json.dumps(entry(0, 4)).encode(),) * 2), b"\0" * 4),
        "duplicate",
    ),
    "F5 overlap": (file_of({"a": entry(0, 8), "b": entry(4, 12)}, b"\0" * 12), "damaged"),
    "F5 hole": (file_of({"a": entry(0, 4), "b": entry(8, 12)}, b"\0" * 12), "damaged"),
    "F5 trailing bytes": (file_of({"a": entry(0, 4)}, b"\0" * 9), "damaged"),
    "F5 shape against size": (file_of({"a": entry(0, 4, [3])}, b"\0" * 4), "damaged"),
    "F5 shape overflows": (file_of({"a": entry(0, 4, [2**62, 2**62])}, b"\0" * 4), "damaged"),
    "F5 negative shape": (file_of({"a": entry(0, 4, [-1, -1])}, b"\0" * 4), "damaged"),
    "F5 true as a size": (file_of({"a": entry(0, 4, [True])}, b"\0" * 4), "damaged"),
    "F5 reversed offsets": (file_of({"a": entry(4, 0, [1])}, b"\0" * 4), "damaged"),
    "F6 300,000 axes": (file_of({"a": entry(0, 4, [1] * 300_000)}, b"\0" * 4), "damaged"),
    "F6 too many tensors": (
        file_of({str(n): entry(0, 0, [0]) for n in range(MAX_TENSORS + 1)}),
        "too-many-tensors",
    ),
    "unknown type": (file_of({"a": entry(0, 4, [1], "Q4_K")}, b"\0" * 4), "dtype"),
}


@pytest.mark.slow
@pytest.mark.parametrize("fault", DAMAGED)
def test_that_a_damaged_file_is_one_error_of_a_known_kind(fault: str, folder: Path) -> None:
    content, kind = DAMAGED[fault]
    (folder / "model.safetensors").write_bytes(content)
    with pytest.raises(LoadError) as caught:
        load(folder, device="cpu")
    assert caught.value.kind == kind, caught.value
    assert "model.safetensors" in str(caught.value)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(cut=st.integers(0, 200), place=st.integers(0, 199), value=st.integers(0, 255))
def test_that_flipped_bytes_and_cuts_raise_nothing_else(cut: int, place: int, value: int) -> None:
    data = bytearray(file_of({"a": entry(0, 8), "b": entry(8, 24, [2, 2])}, bytes(range(24))))
    data[place % len(data)] = value
    try:
        with NamedTemporaryFile(suffix=".safetensors") as file:
            file.write(data[: len(data) - cut] if cut else data)
            file.flush()
            found = read_tensors(Path(file.name))
    except LoadError:
        return
    assert cut == 0
    assert all(t.numel() * t.element_size() <= 24 for t in found.tensors.values())


def test_that_a_good_file_is_read_as_the_library_reads_it(tmp_path: Path) -> None:
    tensors = {
        "float": torch.arange(6, dtype=torch.float32).reshape(2, 3),
        "half": torch.ones(3, dtype=torch.bfloat16),
        "none": torch.zeros(0, 4),
        "one": torch.tensor(3.0),
    }
    save_file(tensors, tmp_path / "t.safetensors", {"key": "value"})
    found = read_tensors(tmp_path / "t.safetensors")
    assert found.metadata == {"key": "value"}
    for name, expected in load_file(tmp_path / "t.safetensors").items():
        assert torch.equal(found.tensors[name], expected)
        assert found.tensors[name].dtype == expected.dtype


def test_that_shapes_alone_are_read_of_what_is_read_whole_and_of_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "x.safetensors"
    header = json.dumps(
        {
            "a": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]},
            "step": {"dtype": "I64", "shape": [], "data_offsets": [24, 32]},
        }
    ).encode()
    monkeypatch.setattr(tensor_file, "MAX_HEADER_BYTES", 200)
    numbers = bytes(24) + (1234).to_bytes(8, "little")
    path.write_bytes((200).to_bytes(8, "little") + header.ljust(200) + numbers)
    for read in (tensor_file.read_tensors, tensor_file.read_shapes):
        found = read(path).tensors
        assert (tuple(found["a"].shape), found["a"].dtype) == ((2, 3), torch.float32)
        assert (found["step"].ndim, int(found["step"])) == (0, 1234)
    for content, kind in (
        ((201).to_bytes(8, "little") + header.ljust(201) + numbers, "header-too-large"),
        ((200).to_bytes(8, "little") + header.ljust(200) + numbers[:-1], "truncated"),
        ((200).to_bytes(8, "little") + header.ljust(200) + numbers + b"x", "damaged"),
        (b"abc", "truncated"),
    ):
        path.write_bytes(content)
        for read in (tensor_file.read_tensors, tensor_file.read_shapes):
            with pytest.raises(LoadError) as caught:
                read(path)
            assert caught.value.kind == kind

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "open", refuse)
    for read in (tensor_file.read_tensors, tensor_file.read_shapes):
        with pytest.raises(LoadError, match="Permission denied"):
            read(path)


def test_that_the_file_may_vanish_after_loading(folder: Path) -> None:  # F8
    model = load(folder, device="cpu")
    before = model.trace(SENTENCE).logits
    (folder / "model.safetensors").write_bytes(b"")
    assert (model.trace(SENTENCE).logits == before).all()


def rewrite(folder: Path, change: object) -> None:
    path = folder / "model.safetensors"
    tensors = dict(load_file(path))
    change(tensors)  # type: ignore[operator]
    save_file(tensors, path)


def test_that_nan_weights_load_with_a_note(folder: Path) -> None:  # F7
    def spoil(tensors: dict[str, torch.Tensor]) -> None:
        tensors["tokens.weight"][tiny_tokenizer().encode_ids("the")[0], 2] = float("nan")

    rewrite(folder, spoil)
    model = load(folder, device="cpu")
    assert "tokens.weight" in model.info.note
    look = model.look(SENTENCE)
    assert look.trace.check().is_good is False
    assert (look.trace.grid(1).levels[:, -1, :] == 0).all()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_that_other_floats_are_cast_and_said_so(dtype: torch.dtype, folder: Path) -> None:
    rewrite(folder, lambda t: t.update({name: v.to(dtype) for name, v in t.items()}))
    assert str(dtype).removeprefix("torch.") in load(folder, device="cpu").info.note


@pytest.mark.parametrize("dtype", [torch.int8, torch.complex64, torch.bool])
def test_that_what_is_no_float_is_refused(dtype: torch.dtype, folder: Path) -> None:  # F18
    rewrite(folder, lambda t: t.update({"tokens.weight": t["tokens.weight"].to(dtype)}))
    with pytest.raises(LoadError, match=r"tokens\.weight is") as caught:
        load(folder, device="cpu")
    assert caught.value.kind == "dtype"


def test_that_wrong_keys_are_one_table(folder: Path) -> None:  # F17
    def muddle(tensors: dict[str, torch.Tensor]) -> None:
        name = next(n for n in tensors if n.endswith("norm.weight"))
        tensors["module." + name] = tensors.pop(name)
        wide = next(n for n, t in tensors.items() if t.ndim == 2 and n != "tokens.weight")
        tensors[wide] = tensors[wide][:-1].clone()

    rewrite(folder, muddle)
    with pytest.raises(LoadError) as caught:
        load(folder, device="cpu")
    assert caught.value.kind == "keys"
    for word in ("missing ", "unexpected  module.", "wrong size "):
        assert word in str(caught.value)


def test_that_sizes_of_config_embedding_and_tokenizer_must_agree(folder: Path) -> None:  # F24
    rewrite(folder, lambda t: t.update({"tokens.weight": t["tokens.weight"][:-2].clone()}))
    with pytest.raises(LoadError, match="rows") as caught:
        load(folder, device="cpu")
    assert caught.value.kind == "vocabulary"
    config = json.loads((folder / "config.json").read_text())
    config["model"]["vocab_size"] = tiny_tokenizer().vocab_size - 2
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(
        LoadError, match=r"The tokenizer in .* has \d+ pieces but the model expects"
    ) as caught:
        load(folder, device="cpu")
    assert caught.value.kind == "vocabulary"


class Bomb:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.system, ("exit 1",)


def torch_zip(path: Path, members: dict[str, bytes]) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(f"archive/{name}", content)


@pytest.mark.parametrize("name", ["pytorch_model.bin", "model.pt", "x.pth"])
def test_that_pickles_are_named_and_never_opened(name: str, folder: Path) -> None:  # F9, F10
    torch_zip(folder / name, {"data.pkl": pickle.dumps(Bomb()), "version": b"3"})
    (folder / "model.safetensors").unlink()
    for source in (folder, folder / name):
        with pytest.raises(LoadError, match=r"contains code \((posix|nt)\.system\)") as caught:
            load(source, device="cpu")
        assert caught.value.kind == "pickle"
    (folder / name).write_bytes(pickle.dumps(Path("x"), protocol=2))
    with pytest.raises(LoadError, match="pathlib"):
        load(folder / name, device="cpu")
    torch.save({"a": torch.zeros(2)}, folder / name)
    with pytest.raises(LoadError, match="PyTorch pickle"):
        load(folder / name, device="cpu")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("content", "kind"),
    [
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:0", "lfs-pointer"),
        (b"<!DOCTYPE html><html>", "web-page"),
        (b"random text", "not-weights"),
        (b"\x80\x02}q\x00.", "pickle"),
        (b"\x80\x04\x95", "pickle"),
    ],
)
@pytest.mark.parametrize("name", ["model.pt", "model.safetensors"])
def test_that_other_files_are_recognised(
    content: bytes, kind: str, name: str, folder: Path
) -> None:  # F12, F16
    (folder / "model.safetensors").unlink()
    (folder / name).write_bytes(content)
    with pytest.raises(LoadError) as caught:
        load(folder, device="cpu")
    expected = "header-too-large" if (name, kind) == ("model.safetensors", "not-weights") else kind
    assert caught.value.kind == expected


def test_that_torchscript_is_named(folder: Path) -> None:  # F11
    torch_zip(folder / "model.pt", {"code/__torch__.py": b"", "constants.pkl": b"", "data.pkl": b""})
    with pytest.raises(LoadError, match="TorchScript"):
        load(folder / "model.pt", device="cpu")


def test_that_a_folder_a_pipe_or_nothing_is_no_weights_file(folder: Path) -> None:  # F20
    weights = folder / "model.safetensors"
    weights.unlink()
    with pytest.raises(LoadError, match=r"has no model\.safetensors"):
        load(folder, device="cpu")
    weights.mkdir()
    with pytest.raises(LoadError, match="is a folder"):
        load(folder, device="cpu")
    weights.rmdir()
    if hasattr(os, "mkfifo"):
        os.mkfifo(weights)
        with pytest.raises(LoadError, match="named pipe"):
            load(folder, device="cpu")
        weights.unlink()
    weights.symlink_to(folder / "nowhere")
    with pytest.raises(LoadError, match="does not exist"):
        load(folder, device="cpu")


def test_that_flipped_bytes_are_seen_against_the_manifest(tmp_path: Path) -> None:  # F13
    tiny_model("decoder").save(tmp_path / "m")
    weights = tmp_path / "m" / "model.safetensors"
    data = bytearray(weights.read_bytes())
    data[-1] ^= 1
    weights.write_bytes(data)
    with pytest.raises(LoadError, match="changed since it was saved"):
        load(tmp_path / "m", device="cpu")
    weights.write_bytes(data[:-10])
    with pytest.raises(LoadError, match="cut short"):
        read_model_folder(tmp_path / "m")


@pytest.mark.parametrize("source", ["no-such-model", "", "a" * 5000, "nul\0inside"])
def test_that_a_name_of_nothing_is_refused(source: str) -> None:
    with pytest.raises(LoadError, match="There is no model") as caught:
        load(source, device="cpu")
    assert caught.value.kind == "missing"


@pytest.mark.parametrize("source", ["shakespeare", "/other/place/resources/models/shakespeare"])
def test_that_a_demo_model_of_an_older_version_is_told_with_what_does_the_same_now(
    source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("attnscope.models.opening.demo_folder", lambda: tmp_path / "none")
    with pytest.raises(LoadError) as caught:
        load(source, device="cpu")
    assert "The model shakespeare came with AttnScope until version 0.9." in str(caught.value)
    assert "Open stories instead; attnscope train shakespeare makes" in str(caught.value)
    with pytest.raises(LoadError, match="There is no model"):
        load("other/shakespeare", device="cpu")


def test_that_an_empty_run_and_a_lone_file_are_refused(tmp_path: Path) -> None:
    (tmp_path / "checkpoints").mkdir()
    with pytest.raises(LoadError, match="no checkpoint yet"):
        load(tmp_path, device="cpu")
    save_file({"a": torch.zeros(1)}, tmp_path / "lone.safetensors")
    with pytest.raises(LoadError, match="single file"):
        load(tmp_path / "lone.safetensors", device="cpu")


@pytest.mark.parametrize(("content", "word"), [(b"", "empty file"), (b"PK\x03\x04", "pickle")])
def test_that_a_file_given_for_a_model_says_what_it_is(tmp_path: Path, content: bytes, word: str) -> None:
    (tmp_path / "given").write_bytes(content)
    with pytest.raises(LoadError, match=word):
        open_source(str(tmp_path / "given"))
    with zipfile.ZipFile(tmp_path / "archive.zip", "w") as archive:
        archive.writestr("notes.txt", "hello")
    with pytest.raises(LoadError, match="is a ZIP archive"):
        open_source(str(tmp_path / "archive.zip"))
    if hasattr(os, "mkfifo"):
        os.mkfifo(tmp_path / "pipe")
        with pytest.raises(LoadError, match="named pipe"):  # it is not waited for
            open_source(str(tmp_path / "pipe"))


def test_that_arrays_for_numpy_are_called_that_and_not_weights(tmp_path: Path) -> None:
    path = tmp_path / "trace.npz"
    np.savez(path, **{"decoder.0": np.ones((1, 2, 2))})
    for opened in (open_source, load_trace):
        with pytest.raises(LoadError, match=r"arrays of numbers.*\.safetensors") as caught:
            opened(str(path))
        assert "torch.load" not in str(caught.value)


def test_that_a_saved_figure_is_no_model_and_says_who_draws_it(tmp_path: Path) -> None:
    path = tmp_path / "page.figure.json"
    path.write_text("{}", encoding="utf-8")
    for opened in (open_source, load):
        with pytest.raises(LoadError, match=r"is a saved figure.*attnscope\.load_figure"):
            opened(str(path))


def test_that_a_large_file_is_hashed_while_it_is_read(tmp_path: Path, monkeypatch) -> None:
    tensors = {
        "a": torch.arange(30_001.0), "b": torch.zeros(0, 3), "c": torch.tensor(7), "d": torch.ones(3, 5) > 0,
        "e": torch.arange(6, dtype=torch.bfloat16).view(2, 3), "f": torch.tensor([1 + 2j]),
    }  # fmt: skip
    path = tmp_path / "x.safetensors"
    save_file(tensors, path, metadata={"note": "1"})
    wanted = sha256(path.read_bytes()).hexdigest()
    for least in (0, 2**26):  # on a thread of its own, and not
        monkeypatch.setattr("attnscope.trace.tensor_file.MIN_DIGESTED_BYTES", least)
        file = read_tensors(path)
        path.write_bytes(path.read_bytes()[:-1] + b"\0")  # what changes later changes nothing
        assert file.sha256() == file.sha256() == wanted
        assert file.metadata == {"note": "1"}
        assert all(torch.equal(file.tensors[name], own) for name, own in tensors.items())
        save_file(tensors, path, metadata={"note": "1"})
    path.write_bytes(path.read_bytes()[:-4_000])
    n_threads = threading.active_count()
    with pytest.raises(LoadError, match="cut short"):
        read_tensors(path)
    assert threading.active_count() == n_threads


def test_that_a_file_that_is_cut_short_while_it_is_read_is_refused(tmp_path: Path, monkeypatch) -> None:
    path = tmp_path / "x.safetensors"
    save_file({"a": torch.arange(50_000.0), "b": torch.arange(50_000.0)}, path)
    monkeypatch.setattr("attnscope.trace.tensor_file.MIN_DIGESTED_BYTES", 0)
    whole = tensor_file._checked_entries

    def cut(*arguments):
        os.truncate(path, 300_000)  # after its header was looked at
        return whole(*arguments)

    monkeypatch.setattr(tensor_file, "_checked_entries", cut)
    with pytest.raises(LoadError, match="cut short") as caught:
        read_tensors(path)
    assert caught.value.kind == "truncated"


def test_that_weights_are_held_in_memory_once(folder: Path) -> None:
    """The tensors that were read are the model's own, and nobody else's."""
    found = read_model_folder(folder)
    for name, parameter in found.module.named_parameters():
        assert parameter.untyped_storage().nbytes() == parameter.nbytes, name
        assert parameter.data_ptr() % 64 == 0, name
    assert found.sha256 == sha256((folder / "model.safetensors").read_bytes()).hexdigest()
    other = read_model_folder(folder)
    with torch.no_grad():
        next(other.module.parameters()).zero_()
    assert not torch.equal(next(other.module.parameters()), next(found.module.parameters()))
