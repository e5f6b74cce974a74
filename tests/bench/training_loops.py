"""One loop of training as a process that takes turns; run as `python -m bench.training_loops`.

Each line on standard input is a number of steps to make; the answer is a line of JSON: the seconds of each.
`loss` is answered with the loss in nats over held-out characters, the same ones for every loop, and with the
number of steps made so far.
"""

import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attnscope import boot
from attnscope.text import read_lines, split_lines

D_MODEL, N_HEADS, N_LAYERS, N_TOKENS, BATCH = 128, 4, 4, 64, 12
N_WINDOWS = 96
"""Windows of held-out characters, spread evenly, over which a loss is."""
HELD_OUT = 0.1
"""The share of the characters that is held out, in whole lines at the end."""
TEXT = "text.txt"
MOST_S = 3.0
"""Of a turn, but for its last step: loops that spin beside a busy core take a second for one."""

RECIPE = f"""
[model]
d_model = {D_MODEL}
n_layers = {N_LAYERS}
n_heads = {N_HEADS}
d_ff = {4 * D_MODEL}
max_tokens = {N_TOKENS}
bias = false
[tokenizer]
kind = "characters"
[data]
kind = "text"
path = "text.txt"
validation_share = {HELD_OUT}
[objective]
kind = "causal"
[optimizer]
kind = "adamw"
learning_rate = 1e-3
weight_decay = 0.1
[schedule]
kind = "constant"
[training]
n_steps = 100000
batch_size = {BATCH}
evaluate_every = {{n_steps}}
evaluation_batches = {N_WINDOWS // BATCH}
save_every = 100000
"""


class Loop(Protocol):
    """A way of training; `n_steps` were made."""

    n_steps: int

    def step(self) -> None: ...

    def loss(self) -> float:
        """Over held-out characters, after the last step of a turn."""
        ...

    def words(self) -> str:
        """How it computes."""
        ...


class OwnLoop:
    """`attnscope train` with a recipe that asks for nothing beside the setting."""

    def __init__(self, folder: Path, device: str, n_steps: int) -> None:
        boot.prepare_environment(has_window=False)
        from attnscope.training import TrainingRun, parse_recipe

        recipe = parse_recipe(RECIPE.format(n_steps=n_steps), base_folder=folder)
        run = TrainingRun(recipe, folder / f"run-{time.time_ns()}", device)
        way = run.choose_threads()
        self._words = f"{way.n} by rows" if way.is_by_rows else str(way.n)
        self._events = run.events()
        self.n_steps = 0

    def step(self) -> None:
        self._next("Step")

    def loss(self) -> float:
        """Of the look that follows each whole turn, and which the next one would begin with."""
        return float(self._next("Evaluated").loss)

    def _next(self, kind: str) -> Any:
        for event in self._events:
            self.n_steps += type(event).__name__ == "Step"
            if type(event).__name__ == kind:
                return event
        raise ValueError(f"the run ended before its next {kind}")

    def words(self) -> str:
        return f"threads: {self._words}"


class PlainLoop:
    """The loop that everybody writes first, on the same characters, by a number of threads."""

    def __init__(self, folder: Path, kind: str, n_threads: int) -> None:
        torch.set_num_threads(n_threads)
        torch.manual_seed(0)
        training, held_out = (
            "".join(f"{line}\n" for line in lines)
            for lines in split_lines(read_lines(folder / TEXT), HELD_OUT)
        )
        self.characters = sorted({*training, *held_out})
        places = {character: index for index, character in enumerate(self.characters)}
        data = torch.tensor([places[character] for character in training + held_out])
        self._training, self._held = data[: len(training)], data[len(training) - 1 :]
        self._model = _gpt2(len(self.characters)) if kind == "gpt-2" else _Plain(len(self.characters))
        self._optimizer = torch.optim.AdamW(self._model.parameters(), lr=1e-3, weight_decay=0.1)
        self.n_steps = 0

    def step(self) -> None:
        starts = torch.randint(len(self._training) - N_TOKENS, (BATCH,))
        loss = self._loss(*_windows(self._training, starts))
        self._optimizer.zero_grad(set_to_none=True)
        torch.autograd.backward(loss)
        nn.utils.clip_grad_norm_(self._model.parameters(), 1.0)
        self._optimizer.step()
        loss.item()
        self.n_steps += 1

    def loss(self) -> float:
        self._model.eval()
        with torch.inference_mode():
            return float(self._loss(*self.windows()))

    def windows(self) -> tuple[Tensor, Tensor]:
        """Held-out characters and the next of each, as ours is asked for: both [N_WINDOWS, N_TOKENS]."""
        starts = np.linspace(0, len(self._held) - N_TOKENS - 1, N_WINDOWS).astype(np.int64)
        return _windows(self._held, torch.from_numpy(starts))

    def words(self) -> str:
        return ""

    def _loss(self, ids: Tensor, labels: Tensor) -> Tensor:
        found = self._model(ids)
        logits: Tensor = found if isinstance(found, Tensor) else found.logits
        return F.cross_entropy(logits.flatten(0, 1), labels.flatten())


def _windows(data: Tensor, starts: Tensor) -> tuple[Tensor, Tensor]:
    ids = torch.stack([data[i : i + N_TOKENS] for i in starts])
    return ids, torch.stack([data[i + 1 : i + 1 + N_TOKENS] for i in starts])


def answers(loop: Loop, lines: Iterator[str]) -> Iterator[str]:
    """What is told for each line that is read."""
    for line in lines:
        if line.strip() == "loss":
            yield json.dumps({"loss": loop.loss(), "words": loop.words(), "n_steps": loop.n_steps})
            continue
        took: list[float] = []
        while len(took) < int(line) and sum(took) < MOST_S:
            begin_s = time.perf_counter()
            loop.step()
            took.append(time.perf_counter() - begin_s)
        yield json.dumps(took)


def main(folder: str, kind: str, how: str, n_steps: str) -> None:
    """Train in turns of `n_steps` until nothing more is asked."""
    own = kind == "attnscope"
    loop = OwnLoop(Path(folder), how, int(n_steps)) if own else PlainLoop(Path(folder), kind, int(how))
    for answer in answers(loop, iter(sys.stdin.readline, "")):
        print(answer, flush=True)


class _Plain(nn.Module):
    """A decoder as short as it can be written."""

    def __init__(self, vocab_size: int) -> None:
        super().__init__()
        self.tokens, self.places = nn.Embedding(vocab_size, D_MODEL), nn.Embedding(N_TOKENS, D_MODEL)
        self.blocks = nn.ModuleList(_PlainBlock() for _ in range(N_LAYERS))
        self.norm = nn.LayerNorm(D_MODEL, bias=False)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.tokens(ids) + self.places.weight[: ids.shape[1]]
        for block in self.blocks:
            x = block(x)
        logits: Tensor = F.linear(self.norm(x), self.tokens.weight)
        return logits


class _PlainBlock(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.LayerNorm(D_MODEL, bias=False), nn.LayerNorm(D_MODEL, bias=False)
        self.qkv = nn.Linear(D_MODEL, 3 * D_MODEL, bias=False)
        self.output = nn.Linear(D_MODEL, D_MODEL, bias=False)
        self.up = nn.Linear(D_MODEL, 4 * D_MODEL, bias=False)
        self.down = nn.Linear(4 * D_MODEL, D_MODEL, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        batch, n_tokens, _ = x.shape
        heads = self.qkv(self.first(x)).view(batch, n_tokens, 3, N_HEADS, -1).permute(2, 0, 3, 1, 4)
        out = F.scaled_dot_product_attention(heads[0], heads[1], heads[2], is_causal=True)
        x = x + self.output(out.transpose(1, 2).flatten(2))
        changed: Tensor = x + self.down(F.gelu(self.up(self.second(x))))
        return changed


def _gpt2(vocab_size: int) -> nn.Module:
    import transformers

    config = transformers.GPT2Config(
        vocab_size=vocab_size,
        n_positions=N_TOKENS,
        n_embd=D_MODEL,
        n_layer=N_LAYERS,
        n_head=N_HEADS,
        resid_pdrop=0.0,
        embd_pdrop=0.0,
        attn_pdrop=0.0,
        bos_token_id=None,
        eos_token_id=None,
    )
    model: nn.Module = transformers.GPT2LMHeadModel(config).train()
    return model


if __name__ == "__main__":
    main(*sys.argv[1:])
