"""What is done when the device has no memory left for a step, and what to tell the person."""

import gc

import torch

from attnscope.training.parts import Recipe

_WORDS = ("can't allocate memory", "not enough memory", "MPS backend out of memory", "Invalid buffer size")
"""Of errors that have no kind of their own: the CPU's, and those of MPS."""


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error says that memory ran out, on a GPU or beside it."""
    if isinstance(error, torch.OutOfMemoryError | MemoryError):
        return True
    return isinstance(error, RuntimeError) and any(words in str(error) for words in _WORDS)


def free_memory(optimizer: torch.optim.Optimizer, device: torch.device) -> None:
    """Let go of what the failed step held: gradients, and what the device's allocator keeps."""
    optimizer.zero_grad(set_to_none=True)
    gc.collect()
    if device.type == "cuda":
        torch.cuda.empty_cache()
    elif device.type == "mps":
        torch.mps.empty_cache()


def out_of_memory_note(recipe: Recipe, step: int, kept: int | None, device: torch.device) -> str:
    """What happened and what would need about half as much, in words."""
    training = recipe.training
    place = "The computer" if device.type == "cpu" else f"The {device.type} device"
    saved = "Nothing is saved yet." if kept is None else f"The checkpoint of step {kept} is kept."
    what = f"{place} had no memory left for step {step + 1} with training.batch_size {training.batch_size}."
    if training.batch_size > 1:
        half = training.batch_size // 2
        advice = (
            f"Half as much is needed with training.batch_size {half} and training.accumulate "
            f"{2 * training.accumulate}, which makes steps of the same size"
        )
        if not training.checkpointing:
            advice += "; training.checkpointing = true saves memory too"
    elif not training.checkpointing:
        advice = "training.checkpointing = true needs less, and so does a smaller model.max_tokens"
    else:
        advice = "A smaller model.max_tokens or a smaller model needs less"
    return f"{what} {saved} {advice}. To go on from here, start a run in another folder with start.from."
