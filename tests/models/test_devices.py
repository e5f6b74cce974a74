"""Choosing a device, waiting for it, and what is done for the ones that this machine need not have."""

import pytest
import torch
from second_device import second_device

from attnscope.errors import UserError
from attnscope.nn import choose_device, exact, has_double, read_padded, wait_for
from attnscope.trace import poolable
from attnscope.training import descent, free_memory, has_quick_bfloat16, is_out_of_memory


@pytest.fixture
def two_gpus(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """A machine with two GPUs, as far as asking goes; what was made the current one."""
    current: list[object] = []
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "set_device", current.append)
    return current


def test_that_the_second_gpu_is_chosen_by_its_number(two_gpus: list[object]) -> None:
    assert choose_device("cuda") == torch.device("cuda")
    assert not two_gpus
    assert choose_device("cuda:1") == torch.device("cuda", 1)
    assert two_gpus == [torch.device("cuda", 1)]
    with pytest.raises(UserError, match=r"no usable cuda:2 device.*cuda:1"):
        choose_device("cuda:2")


@pytest.mark.parametrize("name", ["cuda:", "cuda:x", "cpu:0", "mps:0", "cuda:-1", ""])
def test_that_other_names_are_not_known(name: str, two_gpus: list[object]) -> None:
    with pytest.raises(UserError, match="is not known"):
        choose_device(name)


def test_that_a_number_needs_a_gpu() -> None:
    if not torch.cuda.is_available():
        with pytest.raises(UserError, match="no usable cuda:0"):
            choose_device("cuda:0")


def test_that_every_kind_of_device_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[object] = []
    monkeypatch.setattr(torch.cuda, "synchronize", asked.append)
    monkeypatch.setattr(torch.mps, "synchronize", lambda: asked.append("mps"))
    for name in ("cpu", "cuda:1", "mps"):
        wait_for(torch.device(name))
    assert asked == [torch.device("cuda", 1), "mps"]


@pytest.mark.parametrize(("major", "is_quick"), [(7, False), (8, True), (9, True)])
def test_that_emulated_bfloat16_is_not_quick(
    major: int, is_quick: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Properties:
        pass

    Properties.major = major  # type: ignore[attr-defined]
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: Properties)
    monkeypatch.setattr(torch.version, "hip", None)
    assert has_quick_bfloat16(torch.device("cuda")) is is_quick
    assert not has_quick_bfloat16(torch.device("mps"))


@pytest.mark.parametrize(
    ("bfloat16_s", "is_there", "is_quick"),
    [(0.5, True, True), (0.5, False, False), (0.9, True, False), (1.9, True, False)],
)
def test_that_bfloat16_on_a_cpu_is_quick_only_where_its_products_are(
    bfloat16_s: float, is_there: bool, is_quick: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda: is_there)
    monkeypatch.setattr(torch.cpu, "_is_amx_tile_supported", lambda: False)
    seconds = {torch.bfloat16: bfloat16_s, torch.float32: 1.0}
    monkeypatch.setattr(descent, "_product_s", seconds.__getitem__)
    assert has_quick_bfloat16(torch.device("cpu")) is is_quick


@pytest.mark.parametrize(
    ("error", "is_memory"),
    [
        (RuntimeError("MPS backend out of memory (MPS allocated: 17.9 GB, other allocations: 1 GB)"), True),
        (RuntimeError("Invalid buffer size: 41.20 GiB"), True),
        (torch.OutOfMemoryError("CUDA out of memory."), True),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory"), True),
        (RuntimeError("MPS backend error: command buffer failed"), False),
    ],
)
def test_that_memory_that_ran_out_is_known_on_every_device(error: Exception, is_memory: bool) -> None:
    assert is_out_of_memory(error) is is_memory


def test_that_what_a_device_keeps_is_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    freed: list[str] = []
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: freed.append("cuda"))
    monkeypatch.setattr(torch.mps, "empty_cache", lambda: freed.append("mps"))
    weight = torch.nn.Parameter(torch.ones(2))
    for name in ("cpu", "cuda", "mps"):
        weight.grad = torch.ones(2)
        free_memory(torch.optim.SGD([weight]), torch.device(name))
        assert weight.grad is None
    assert freed == ["cuda", "mps"]


def test_that_double_precision_is_had_on_the_cpu_where_a_device_has_none() -> None:
    assert has_double(torch.device("cuda"))
    assert not has_double(torch.device("mps"))
    with second_device():
        found = exact(torch.full((2,), 0.1, device="second_device"))
        assert (found.dtype, found.device.type) == (torch.float64, "cpu")
        assert poolable(torch.ones(2, device="second_device")).device.type == "cpu"
    kept = torch.ones(2, dtype=torch.float64)
    assert exact(kept) is kept
    assert poolable(kept) is kept


@pytest.mark.slow
@pytest.mark.parametrize("kind", [torch.nn.GRU, torch.nn.LSTM, torch.nn.RNN])
@pytest.mark.parametrize("bias", [True, False])
def test_that_texts_turned_round_are_read_as_packed_ones(kind: type[torch.nn.RNNBase], bias: bool) -> None:
    cells = kind(5, 4, 2, bias=bias, batch_first=True, bidirectional=True)
    x, lengths = torch.randn(3, 6, 5), torch.tensor([6, 1, 4])
    packed = read_padded(cells, x, lengths)
    weights = torch.randn_like(packed)
    expected = torch.autograd.grad((packed * weights).sum(), list(cells.parameters()))
    with second_device():
        there = cells.to("second_device")
        found = read_padded(there, x.to("second_device"), lengths)
        total = (found * weights.to("second_device")).sum()
        gradients = torch.autograd.grad(total, list(there.parameters()))
        torch.testing.assert_close(found.detach().cpu(), packed.detach(), atol=1e-6, rtol=1e-5)
        for one, other in zip(gradients, expected, strict=True):
            torch.testing.assert_close(one.cpu(), other, atol=1e-5, rtol=1e-5)
