"""Training on a device that is not the CPU, with the tests' second one: same bits, and one wait a step."""

from pathlib import Path

import numpy as np
import pytest
import torch
from second_device import Watch, second_device

from attnscope.models import read_model_folder
from attnscope.nn import ModelConfig, attention, build_own
from attnscope.records import Evaluated, Started, Step
from attnscope.training import (
    ALONE,
    Batch,
    OptimizerPart,
    SharedLoss,
    TrainingRun,
    build_optimizer,
    loss_and_hits,
    loss_sum,
    objectives,
    optimizers,
    parse_recipe,
)

pytestmark = pytest.mark.slow

TINY = {
    "vocab_size": 13,
    "d_model": 16,
    "n_layers": 1,
    "n_heads": 4,
    "n_kv_heads": 2,
    "d_ff": 24,
    "max_tokens": 12,
    "window": 3,
    "mask_block": 2,
    "random_blocks": 1,
    "prefix_tokens": 4,
    "n_buckets": 8,
    "max_distance": 6,
}
CELLS = {"form": "encoder-decoder", "n_heads": 2, "n_kv_heads": 2}
SAME = [
    *({"form": form} for form in ("decoder", "encoder", "encoder-decoder")),
    *({"mask": mask} for mask in ("window", "dilated", "global", "bigbird", "prefix")),
    *({"score": score} for score in ("dot", "general", "cosine", "additive", "kernel")),
    *({"form": "encoder-decoder", "score": score} for score in ("general", "additive", "kernel")),
    *({"position": p} for p in ("none", "binary", "learned", "rotary", "t5", "alibi", "shaw")),
    *({"activation": a} for a in ("relu", "glu", "reglu", "geglu")),
    *({"norm": norm} for norm in ("rms", "none")),
    {"norm_place": "sandwich", "embedding_norm": True},
    {"norm_place": "post", "tie_embeddings": False},
    {"form": "encoder", "n_projected": 4},
    *(
        {"form": "encoder", "n_labels": 3, "pooling": p}
        for p in ("attention", "first", "last", "mean", "max")
    ),
    {"form": "encoder", "n_labels": 3, "pooling": "hierarchical", "sentence_ends": (2, 5)},
    {"form": "encoder", "n_labels": 3, "reads_pair": True},
]
NEAR = [  # the CPU has fused kernels for these that no other device has: the last digits differ
    {"score": "gaussian"},
    {"activation": "swiglu"},
    {"dropout": 0.3},
    {"attention_dropout": 0.3},
    *({**CELLS, "body": body} for body in ("gru", "lstm", "rnn")),
    {**CELLS, "body": "gru", "n_layers": 2, "score": "additive"},
    {**CELLS, "body": "lstm", "feeds_context": True, "local_reach": 2},
    {**CELLS, "body": "gru", "has_attention": False, "feeds_context": True},
    {
        "form": "encoder",
        "n_labels": 3,
        "pooling": "hierarchical",
        "sentence_ends": (2, 5),
        "sentence_encoder": "gru",
    },
]


@pytest.fixture
def watch(monkeypatch: pytest.MonkeyPatch) -> Watch:
    """The second device, with the optimisers' one kernel; attention takes the way of GPUs everywhere."""
    monkeypatch.setattr(optimizers, "FUSED_DEVICES", (*optimizers.FUSED_DEVICES, "second_device"))
    monkeypatch.setattr(attention, "_fits_cpu_operator", lambda *_: False)
    with second_device() as found:
        yield found


def _batch(config: ModelConfig) -> Batch:
    rng = np.random.default_rng(1)

    def draw(*shape: int) -> torch.Tensor:
        return torch.from_numpy(rng.integers(0, config.vocab_size, shape))

    ids, valid = draw(3, 9), torch.arange(9) < torch.tensor([9, 5, 7])[:, None]
    if config.n_labels:
        ids[0, 3] = 2
        seconds = {"target_ids": draw(3, 6), "target_valid": torch.ones(3, 6, dtype=torch.bool)}
        pair = seconds if config.reads_pair else {}
        labels = torch.tensor([0, 2, 1])
        return Batch(ids=ids, scored=torch.arange(3) * 9, labels=labels, valid=valid, **pair)
    if config.form == "encoder-decoder":
        scored = torch.tensor([0, 3, 5, 8, 9, 14])
        return Batch(ids=ids, scored=scored, labels=draw(6), valid=valid, target_ids=draw(3, 5))
    return Batch(ids=ids, scored=torch.arange(27), labels=draw(27))


def _one_step(config: ModelConfig, device: str) -> tuple[list[float], dict[str, torch.Tensor]]:
    """Losses before and after one step of the optimiser, and the weights then."""
    torch.manual_seed(0)
    module = build_own(config, 0).to(device).train()
    batch = _batch(config).to(torch.device(device))
    optimizer = build_optimizer(module, OptimizerPart())
    loss = loss_sum(module, batch, 0.1)
    torch.autograd.backward(loss)
    torch.nn.utils.clip_grad_norm_(module.parameters(), 1.0)
    optimizer.step()
    with torch.inference_mode():
        after = loss_and_hits(module.eval(), batch)
    weights = {name: value.detach().cpu() for name, value in module.state_dict().items()}
    return [float(loss.detach()), after.loss, after.n_hits], weights


def _assert_near(config: ModelConfig, rtol: float) -> None:
    expected, weights = _one_step(config, "cpu")
    found, others = _one_step(config, "second_device")
    np.testing.assert_allclose(found[:2], expected[:2], rtol=rtol)
    for name, value in weights.items():
        difference = (value - others[name]).abs()
        # Adam's first step is the rate 1e-3 whatever the gradient, so only its sign may turn where that is 0.
        is_same = torch.equal(value, others[name]) if rtol == 0 else difference.max() <= 2.1e-3
        assert is_same, f"{name} differs by {difference.max():.2g}, {difference.mean():.2g} on average"


@pytest.mark.parametrize("choices", SAME, ids=str)
def test_that_a_step_on_another_device_gives_the_same_bits(choices: dict[str, object], watch: Watch) -> None:
    _assert_near(ModelConfig.from_dict({"form": "decoder", **TINY, **choices}), rtol=0.0)


@pytest.mark.parametrize("choices", NEAR, ids=str)
def test_that_a_step_on_another_device_is_the_same_but_for_rounding(
    choices: dict[str, object], watch: Watch
) -> None:
    config = ModelConfig.from_dict({"form": "decoder", **TINY, **choices})
    _assert_near(config, rtol=5e-2 if "dropout" in str(choices) else 1e-5)


def _run(recipe: str, folder: Path, device: str, changes: dict[str, str]) -> TrainingRun:
    changes = {"training.precision": "float32", "schedule.kind": "constant", **changes}
    return TrainingRun(parse_recipe(recipe, overrides=changes), folder, torch.device(device))


def _losses(run: TrainingRun, *, until: int = 99) -> list[float]:
    found = []
    for event in run.events():
        if isinstance(event, Step | Evaluated):
            found.append(event.loss)
        if event.step == until:
            run.request_stop()
    return found


@pytest.mark.parametrize(
    ("is_task", "changes"),
    [
        (False, {"training.accumulate": "2", "training.inspect_every": "2"}),
        (False, {"objective.kind": "span-corruption", "optimizer.kind": "radam"}),
        (True, {"model.dropout": "0", "gates.l0_penalty": "0.1", "training.checkpointing": "true"}),
    ],
    ids=["text", "spans", "gates"],
)
def test_that_a_run_on_another_device_is_the_same_and_resumes(
    is_task: bool,
    changes: dict[str, str],
    tiny_recipe: str,
    task_recipe: str,
    tmp_path: Path,
    watch: Watch,
) -> None:
    recipe = task_recipe if is_task else tiny_recipe
    changes = {"training.n_steps": "4", "training.evaluation_batches": "1", **changes}
    expected = _losses(_run(recipe, tmp_path / "cpu", "cpu", changes))
    halves = _losses(_run(recipe, tmp_path / "there", "second_device", changes), until=2)
    halves += _losses(_run(recipe, tmp_path / "there", "second_device", changes))
    weights = [read_model_folder(tmp_path / name / "checkpoints" / "4").module for name in ("cpu", "there")]
    assert halves == expected
    for (name, one), other in zip(
        weights[0].state_dict().items(), weights[1].state_dict().values(), strict=True
    ):
        assert torch.equal(one, other), name


def test_that_a_run_starts_from_another_with_adapters_there(
    tiny_recipe: str, tmp_path: Path, watch: Watch
) -> None:
    short = {"training.n_steps": "2", "training.evaluation_batches": "1"}
    _losses(_run(tiny_recipe, tmp_path / "first", "second_device", short))
    changes = {**short, "start.from": str(tmp_path / "first"), "start.lora_rank": "2"}
    assert _losses(_run(tiny_recipe, tmp_path / "a", "second_device", changes)) == _losses(
        _run(tiny_recipe, tmp_path / "b", "cpu", changes)
    )


@pytest.mark.parametrize(
    ("choices", "n_reads", "n_copies"),
    [
        ({}, 1, 1),
        ({"training.precision": "bfloat16"}, 1, 1),
        ({"model.position": "alibi", "optimizer.kind": "radam"}, 1, 1),
        ({"model.mask": "bigbird", "model.window": "2", "model.mask_block": "2"}, 1, 1),
        ({"model.score": "additive", "training.clip_norm": "0"}, 1, 1),
        ({"objective.kind": "masked", "objective.next_sentence": "true"}, 1, 1),
        ({"training.accumulate": "3"}, 1, 3),
        ({"gates.l0_penalty": "0.1"}, 2, 2),  # how many heads are open is told as well
    ],
    ids=str,
)
def test_that_a_step_waits_once_for_the_device(
    choices: dict[str, str],
    n_reads: int,
    n_copies: int,
    tiny_recipe: str,
    tmp_path: Path,
    watch: Watch,
) -> None:
    """One look at the loss, and one copy for each batch, which CUDA makes on its own."""
    run = _run(tiny_recipe, tmp_path / "run", "second_device", choices)
    events = run.events()
    assert isinstance(next(events), Started)
    next(event for event in events if isinstance(event, Step))
    watch.forget()
    assert isinstance(next(events), Step)
    assert (len(watch.reads), len(watch.copies)) == (n_reads, n_copies), watch.told()


def test_that_a_step_of_translation_waits_once_too(task_recipe: str, tmp_path: Path, watch: Watch) -> None:
    cells = {"model.body": "gru", "model.n_heads": "1", "model.d_ff": "512"}
    for number, changes in enumerate(({"model.position": "t5"}, cells)):
        run = _run(task_recipe, tmp_path / str(number), "second_device", changes)
        events = run.events()
        next(event for event in events if isinstance(event, Step))
        watch.forget()
        next(events)
        # Cells are told how long the texts are: on CUDA from the CPU's side, elsewhere by one more copy.
        assert len(watch.reads) == 1, watch.told()
        assert len(watch.copies) <= (2 if changes is cells else 1), watch.told()


def test_that_evaluation_waits_once_for_each_batch(tiny_recipe: str, watch: Watch) -> None:
    config = ModelConfig.from_dict({"form": "decoder", **TINY})
    loss_of = SharedLoss(
        build_own(config, 0).to("second_device"), ALONE, torch.device("second_device"), is_sharded=False
    )
    watch.forget()
    told = loss_of.told(_batch(config), torch.device("second_device"))
    assert told == SharedLoss(build_own(config, 0), ALONE, torch.device("cpu"), is_sharded=False).told(
        _batch(config), torch.device("cpu")
    )
    assert (len(watch.reads), len(watch.copies)) == (1, 1), watch.told()


def test_that_only_copies_to_cuda_go_on_beside_the_program(monkeypatch: pytest.MonkeyPatch) -> None:
    """On MPS a copy that is not waited for may read memory that was given back."""
    batch, asked = _batch(ModelConfig.from_dict({"form": "encoder-decoder", **TINY})), []
    flat = objectives.pack(batch)

    class Flat:
        def __init__(self, is_pinned: bool) -> None:
            self.is_pinned = is_pinned

        def to(self, device: torch.device, *, non_blocking: bool) -> torch.Tensor:
            asked.append((device.type, self.is_pinned, non_blocking))
            return flat

    monkeypatch.setattr(objectives, "pack", lambda _, *, is_pinned: Flat(is_pinned))
    for name in ("cuda", "mps", "cpu"):
        moved = batch.to(torch.device(name))
        assert torch.equal(moved.ids, batch.ids)
        assert (moved.valid_on_cpu is batch.valid) is (name != "cpu")
    assert asked == [("cuda", True, True), ("mps", False, False)]


def test_that_the_second_device_refuses_what_others_do(watch: Watch) -> None:
    there, here = torch.ones(3, device="second_device"), torch.ones(3)
    with pytest.raises(RuntimeError, match="same device"):
        there + here
    with pytest.raises(TypeError, match="float64"):
        there.double()
    with pytest.raises(TypeError, match="float64"):
        torch.zeros(2, dtype=torch.float64, device="second_device")
    with pytest.raises(RuntimeError, match="generator"):
        there.normal_(generator=torch.Generator())
    with pytest.raises(TypeError, match="numpy"):
        there.numpy()
    assert not watch.reads
    assert torch.equal((there * torch.tensor(2.0)).cpu(), here * 2)


@pytest.mark.parametrize(
    ("look", "n_reads", "n_copies"),
    [
        (lambda x: x.sum().item(), 1, 0),
        (lambda x: x.tolist(), 1, 0),
        (lambda x: bool((x > 0).all()), 1, 0),
        (lambda x: x[x > 0], 1, 0),
        (lambda x: x.nonzero(), 1, 0),
        (lambda x: x.cpu(), 1, 0),
        (lambda x: x[[0, 1]], 0, 1),
        (lambda x: torch.tensor([1.0], device=x.device), 0, 1),
        (lambda x: torch.ones(2).to(x.device), 0, 1),
        (lambda x: torch.ones(2).to(x.device, non_blocking=True), 0, 0),
        (lambda x: x.masked_fill(x > 0, 0.0), 0, 0),
        (lambda x: torch.full((2,), 3, device=x.device), 0, 0),
    ],
)
def test_that_the_second_device_notes_who_waits(look, n_reads: int, n_copies: int, watch: Watch) -> None:
    x = torch.ones(3, device="second_device")
    look(x)
    assert (len(watch.reads), len(watch.copies)) == (n_reads, n_copies), watch.told()
