"""Models kept as what differs from one that comes with the program: whole again bit for bit, or refused."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from tiny_models import SENTENCE, tiny_model

from attnscope.errors import LoadError
from attnscope.models import (
    LowRankChanges,
    Model,
    ModelCard,
    OwnNetwork,
    kept_run_folder,
    load,
    low_rank_sum,
    write_model_folder,
)
from attnscope.paths import resources_folder
from attnscope.training import StartPart, adapt, adapter_tensors, low_rank_changes

RANK, ALPHA = 2, 3.0
QKV = "decoder.0.attention.qkv.weight"


@pytest.fixture(autouse=True)
def base(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program that comes with one tiny model, stored in float16."""
    folder = tmp_path / "resources" / "models" / "tiny"
    own = tiny_model("decoder").own
    write_model_folder(folder, own.module, own.config, own.vocabulary, own.card, dtype=torch.float16)
    monkeypatch.setattr("attnscope.models.checkpoint.resources_folder", lambda: tmp_path / "resources")
    return folder


def adapted(base: Path) -> tuple[torch.nn.Module, LowRankChanges]:
    """The base with adapters whose numbers are from a ramp, as if they had been learned."""
    module, part = load(base, "cpu").own.module, StartPart(source="x", lora_rank=RANK, lora_alpha=ALPHA)
    adapt(module, part, seed=3)
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            if parameter.requires_grad:
                parameter.copy_(
                    torch.sin(torch.arange(parameter.numel()) * 0.7 + len(name)).view_as(parameter)
                )
    return module, low_rank_changes(adapter_tensors(module), part)


@pytest.fixture
def kept(base: Path, tmp_path: Path) -> Path:
    """The folder of what differs after low-rank changes, without a manifest, as a stranger's would be."""
    module, changes = adapted(base)
    own = load(base, "cpu").own
    folder = tmp_path / "kept"
    write_model_folder(
        folder, module, own.config, own.vocabulary, ModelCard(name="a", objective="causal"),
        base="tiny", changes=changes,
    )  # fmt: skip
    (folder / "manifest.json").unlink()
    return folder


def bits(module: torch.nn.Module) -> dict[str, list[int]]:
    return {
        name: tensor.contiguous().view(torch.int32).tolist() for name, tensor in module.state_dict().items()
    }


def test_that_low_rank_changes_come_back_bit_for_bit_and_alone_are_kept(base: Path, kept: Path) -> None:
    module, _ = adapted(base)
    names = set(load_file(kept / "model.safetensors"))
    assert names == {f"decoder.{layer}.attention.{part}.weight.low_rank_{side}"
                     for layer in (0, 1) for part in ("qkv", "output") for side in "ab"}  # fmt: skip
    opened = load(kept, "cpu")
    assert bits(opened.own.module) == bits(module)
    assert opened.own.module.state_dict()[QKV].dtype == torch.float32
    assert not opened.info.note
    assert json.loads((kept / "config.json").read_text())["format"] == 2, "older programs say: newer"


def test_that_the_sum_is_that_of_a_loop_over_its_numbers(base: Path) -> None:
    weight, a, b = (torch.sin(torch.arange(n * m) * 1.3 + n).view(n, m) for n, m in ((5, 4), (3, 4), (5, 3)))
    found = low_rank_sum(weight, a, b, 0.75).numpy()
    by_hand = np.zeros((5, 4), np.float32)
    for i in range(5):
        for j in range(4):
            change = np.float32(0)
            for r in range(3):
                change = np.float32(change + np.float32(b[i, r].item()) * np.float32(a[r, j].item()))
            by_hand[i, j] = np.float32(weight[i, j].item()) + np.float32(0.75) * change
    assert found.tolist() == by_hand.tolist()
    exact = weight.double() + 0.75 * b.double() @ a.double()
    np.testing.assert_allclose(found, exact.numpy(), atol=4e-7)  # a few units in the last place of 2


def test_that_any_model_is_kept_as_the_tensors_that_differ(base: Path, tmp_path: Path) -> None:
    own = tiny_model("decoder", memory_tokens=2).own
    before = load(base, "cpu").own.module.state_dict()
    for name, tensor in own.module.state_dict().items():
        if name in before:
            tensor.copy_(before[name])
    own.module.state_dict()["decoder_norm.bias"][1] = -0.0
    own.module.state_dict()["decoder_norm.weight"][0] = float("nan")
    Model(own).save(tmp_path / "mine", base="tiny")
    names = {"memory.weight", "decoder_norm.bias", "decoder_norm.weight"}
    assert set(load_file(tmp_path / "mine" / "model.safetensors")) == names
    assert bits(load(tmp_path / "mine", "cpu").own.module) == bits(own.module)


def test_that_what_is_opened_and_saved_is_whole(base: Path, kept: Path, tmp_path: Path) -> None:
    opened = load(kept, "cpu")
    opened.save(tmp_path / "whole")
    (base / "model.safetensors").unlink()
    whole = load(tmp_path / "whole", "cpu")
    assert bits(whole.own.module) == bits(opened.own.module)
    assert whole.trace(SENTENCE).logits.tolist() == opened.trace(SENTENCE).logits.tolist()


def test_that_factors_of_another_matrix_are_not_kept_in_its_place(base: Path, tmp_path: Path) -> None:
    module, changes = adapted(base)
    wrong = LowRankChanges(scale=changes.scale * 1.001, factors=changes.factors)
    own = load(base, "cpu").own
    write_model_folder(
        tmp_path / "kept", module, own.config, own.vocabulary, own.card, base="tiny", changes=wrong
    )
    assert QKV in load_file(tmp_path / "kept" / "model.safetensors")
    assert bits(load(tmp_path / "kept", "cpu").own.module) == bits(module)


@pytest.mark.parametrize("name", ["../models/tiny", "..", "", "/etc", "stories", "tiny/", "TINY"])
def test_that_nothing_is_kept_as_a_difference_from_what_does_not_come_along(
    name: str, base: Path, tmp_path: Path
) -> None:
    model = load(base, "cpu")
    if not name:
        model.save(tmp_path / "whole", base=name)
        assert QKV in load_file(tmp_path / "whole" / "model.safetensors")
        return
    with pytest.raises(LoadError, match="does not come with this program") as caught:
        model.save(tmp_path / "none", base=name)
    assert "one of tiny" in str(caught.value)
    assert not (tmp_path / "none").exists()


def in_config(**changes: object) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        path = folder / "config.json"
        values = json.loads(path.read_text())
        values["base"] |= changes
        path.write_text(json.dumps(values))

    return change


def in_weights(change: Callable[[dict[str, torch.Tensor]], object]) -> Callable[[Path], None]:
    def rewrite(folder: Path) -> None:
        tensors = load_file(folder / "model.safetensors")
        change(tensors)
        save_file(tensors, folder / "model.safetensors")

    return rewrite


def without_base(folder: Path) -> None:
    path = folder / "config.json"
    values = json.loads(path.read_text())
    del values["base"]
    path.write_text(json.dumps(values))


FAULTS: dict[str, tuple[Callable[[Path], None], str, str]] = {
    "path upwards": (in_config(name="../models/tiny"), "base", "does not come with this program"),
    "absolute path": (in_config(name="/etc"), "base", "does not come with this program"),
    "empty name": (in_config(name=""), "base", "does not come with this program"),
    "dot": (in_config(name="."), "base", "does not come with this program"),
    "long name": (in_config(name="x" * 5000), "base", "does not come with this program"),
    "name is a number": (in_config(name=3), "config", "does not say which model"),
    "no sha256": (in_config(sha256=None), "config", "does not say which model"),
    "scale is a word": (in_config(scale="4"), "config", "does not say which model"),
    "scale is infinite": (in_config(scale=1e999), "json", "Infinity"),
    "no base": (without_base, "config", "object"),
    "another base": (in_config(sha256="0" * 64), "base", "tiny, which has changed"),
    "another whole": (in_config(whole_sha256="0" * 64), "base", "are not those that were saved"),
    "another scale": (in_config(scale=1.5000001), "base", "are not those that were saved"),
    "only A": (in_weights(lambda t: t.pop(f"{QKV}.low_rank_b")), "keys", "B is missing"),
    "no change at all": (in_weights(lambda t: t.clear()), "base", "are not those that were saved"),
    "a change of nothing": (
        in_weights(lambda t: t.update({"x.low_rank_a": torch.ones(1, 2), "x.low_rank_b": torch.ones(2, 1)})),
        "keys",
        "W is missing",
    ),
    "a tensor too many": (in_weights(lambda t: t.update(more=torch.ones(2))), "keys", "unexpected  more"),
    "another size": (
        in_weights(lambda t: t.update({f"{QKV}.low_rank_a": torch.ones(RANK, 17)})),
        "keys",
        "does not fit its matrix",
    ),
    "another rank": (
        in_weights(lambda t: t.update({f"{QKV}.low_rank_a": torch.ones(RANK + 1, 16)})),
        "keys",
        "does not fit its matrix",
    ),
    "a rank that takes minutes": (
        in_weights(
            lambda t: t.update(
                {f"{QKV}.low_rank_a": torch.ones(4097, 16), f"{QKV}.low_rank_b": torch.ones(48, 4097)}
            )
        ),
        "keys",
        "rank at most 4,096",
    ),
    "a vector": (
        in_weights(lambda t: t.update({f"{QKV}.low_rank_a": torch.ones(16)})),
        "keys",
        "A is [16]",
    ),
    "whole numbers": (
        in_weights(lambda t: t.update({f"{QKV}.low_rank_a": torch.ones(RANK, 16, dtype=torch.int64)})),
        "dtype",
        "not floating-point",
    ),
    "changed number": (
        in_weights(lambda t: t[f"{QKV}.low_rank_a"].view(-1)[0].mul_(1.01)),
        "base",
        "are not those that were saved",
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_that_a_hostile_difference_is_one_error_of_a_known_kind(fault: str, kept: Path) -> None:
    change, kind, words = FAULTS[fault]
    change(kept)
    with pytest.raises(LoadError) as caught:
        load(kept, "cpu")
    assert (caught.value.kind, words in str(caught.value)) == (kind, True), caught.value


def test_that_a_base_of_another_size_is_refused_with_a_table(base: Path, kept: Path) -> None:
    path = kept / "config.json"
    values = json.loads(path.read_text())
    values["model"]["d_ff"] = 40
    path.write_text(json.dumps(values))
    with pytest.raises(LoadError, match=r"wrong size  decoder\.0\.feed_forward\.up\.weight \[24, 16\]"):
        load(kept, "cpu")


def test_that_a_base_that_is_gone_or_changed_says_what_to_do(base: Path, kept: Path) -> None:
    own = tiny_model("decoder").own
    own.module.state_dict()["tokens.weight"][0, 0] += 1
    write_model_folder(base, own.module, own.config, own.vocabulary, own.card)
    with pytest.raises(LoadError) as changed:
        load(kept, "cpu")
    for words in ("kept", "the model tiny, which has changed", "SHA-256", "Expected:", "train it again"):
        assert words in str(changed.value)
    base.rename(base.parent / "other")
    with pytest.raises(LoadError) as gone:
        load(kept, "cpu")
    assert "'tiny', which does not come with this program. Expected: one of other." in str(gone.value)


@pytest.mark.parametrize(("name", "n_bytes"), [("agreement-prompt", 20_000), ("agreement-lora", 120_000)])
def test_that_kept_runs_of_stories_hold_only_what_they_learned(
    name: str, n_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("attnscope.models.checkpoint.resources_folder", resources_folder)
    folder = kept_run_folder(name) / "checkpoints" / "150"
    assert (folder / "model.safetensors").stat().st_size < n_bytes
    model, stories = load(name, "cpu"), load("stories", "cpu").own.module.state_dict()
    weights = model.own.module.state_dict()
    changed = {
        key for key, tensor in weights.items() if not torch.equal(tensor, stories.get(key, tensor + 1))
    }
    if name == "agreement-prompt":
        assert changed == {"memory.weight"}
    else:
        parts = [
            f"decoder.{layer}.attention.{part}.weight" for layer in range(4) for part in ("qkv", "output")
        ]
        assert changed == set(parts)
        for part in parts:
            assert np.linalg.matrix_rank((weights[part] - stories[part]).double().numpy(), tol=1e-4) == 4
    written = {subject: model.generate(subject, max_tokens=1).strip() for subject in SUBJECTS}
    assert set(written.values()) <= {"is", "are"}, "a verb comes next, where stories ends the sentence"
    if name == "agreement-lora":
        assert written == SUBJECTS


SUBJECTS = {
    "the keys to the old cabinet": "are",
    "the key to the old cabinets": "is",
    "the kings": "are",
    "the roses in the green garden of my aunt": "are",
    "the dog near the rivers": "is",
}
"""Not all of their words are among those of the training."""


def test_that_own_network_of_a_difference_says_where_it_is(base: Path, kept: Path) -> None:
    opened = load(kept, "cpu")
    assert isinstance(opened.network, OwnNetwork)
    assert opened.info.source == str(kept)
