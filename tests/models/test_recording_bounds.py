"""A recording minds its own thread, ends somewhere, and leaves PyTorch as it was."""

import threading

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import attnscope
from attnscope.errors import UserError
from attnscope.models.recording import recording as module


def test_that_a_switch_that_was_off_stays_off() -> None:
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        with attnscope.record():
            pass
        assert not torch.backends.mha.get_fastpath_enabled()
    finally:
        torch.backends.mha.set_fastpath_enabled(True)


class Waits(nn.Module):
    """Lets another thread call a part of it while this one is at work."""

    def __init__(self) -> None:
        super().__init__()
        self.part = nn.Identity()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        inside, may_end = threading.Event(), threading.Event()

        def hold(*_: object) -> None:
            inside.set()
            may_end.wait(10)

        self.part.register_forward_pre_hook(hold)
        thread = threading.Thread(target=self.part, args=(x,))
        thread.start()
        inside.wait(10)
        found = F.scaled_dot_product_attention(x, x, x)
        may_end.set()
        thread.join()
        return found


def test_that_modules_of_another_thread_name_no_call_of_this_one() -> None:
    model = nn.Sequential(Waits())
    with attnscope.record(model) as recording:
        model(torch.randn(1, 2, 3, 4))
    assert [call.name for call in recording.calls] == ["0"]


def test_that_a_loop_left_inside_the_block_ends_with_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_CALLS", 2)
    x = torch.randn(1, 2, 3, 4)
    with attnscope.record() as recording:
        for _ in range(3):
            F.scaled_dot_product_attention(x, x, x)
    assert len(recording.calls) == 2
    with pytest.raises(UserError, match="more than 2 attention calls"):
        recording.trace()


class Attends(nn.Module):
    """Self-attention of what is given."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.scaled_dot_product_attention(x, x, x)


def test_that_a_call_chosen_by_name_says_why_it_is_not_there() -> None:
    parts = nn.ModuleDict({"good": Attends(), "bad": Attends()})
    with attnscope.record(parts) as recording:
        parts["good"](torch.randn(1, 2, 3, 4))
        parts["bad"](torch.randn(5, 2, 3, 4))
    for name in ("bad", "ba"):
        with pytest.raises(UserError, match="5 batch rows"):
            recording.trace(calls=name)
    assert len(recording.trace(calls="good").sites) == 1


def test_that_one_text_names_the_queries_and_with_the_added_key_the_keys() -> None:
    layer = nn.MultiheadAttention(8, 2, add_bias_kv=True, batch_first=True).eval()
    x = torch.randn(1, 4, 8)
    with attnscope.record(layer) as recording:
        layer(x, x, x)
    for given in (["a", "b", "c", "d"], None):
        queries, keys = recording.trace(given).tokens(0)
        names = given or ["0", "1", "2", "3"]
        assert [token.piece for token in queries] == names
        assert [token.piece for token in keys] == [*names, "bias key"]
