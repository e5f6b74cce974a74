"""Tokens per second in training: our loop beside a plain PyTorch loop and a Hugging Face model, in turns.

The setting is nanoGPT's for a CPU (A. Karpathy, config/train_shakespeare_char.py as its README advises):
4 layers, 4 heads, 128 wide, 64 characters, batches of 12, no dropout, AdamW, gradients clipped at 1. The
text is made up: speed does not depend on it.
"""

import importlib.util
import tempfile
import time
from collections.abc import Generator, Iterator
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attnscope.bench.report import Measurement, percentile
from attnscope.records.training import Step
from attnscope.training.loop import TrainingRun
from attnscope.training.recipe import parse_recipe

D_MODEL, N_HEADS, N_LAYERS, N_TOKENS, BATCH = 128, 4, 4, 64, 12
N_ROUNDS = 60
N_WARM = 5
TARGET = 0.5
"""Our time for a step over that of the plain loop: at most half."""

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
evaluate_every = 100000
save_every = 100000
"""


def measure_training(device: str = "cpu", n_rounds: int = N_ROUNDS) -> tuple[Measurement, ...]:
    """Median time of a step against the plain loop's, and tokens per second of each."""
    with tempfile.TemporaryDirectory(prefix="attnscope-bench-") as folder:
        text = _made_up_text()
        (Path(folder) / "text.txt").write_text(text, encoding="utf-8")
        ways = {
            "plain PyTorch loop": _plain_steps(text, _Plain(len(set(text)))),
            "AttnScope": _own_steps(Path(folder), device),
        }
        if importlib.util.find_spec("transformers") is not None:
            ways["Hugging Face GPT-2"] = _plain_steps(text, _gpt2(len(set(text))))
        times: dict[str, list[float]] = {name: [] for name in ways}
        for index in range(n_rounds + N_WARM):
            for name, steps in ways.items():
                begin_s = time.perf_counter()
                next(steps)
                if index >= N_WARM:
                    times[name].append(time.perf_counter() - begin_s)
        for steps in ways.values():
            steps.close()
    return tuple(_results(times))


def _results(times: dict[str, list[float]]) -> Iterator[Measurement]:
    plain = times["plain PyTorch loop"]
    for name, samples in times.items():
        yield Measurement(
            name=f"training, {name}",
            value=BATCH * N_TOKENS / percentile(samples, 50),
            unit="tokens/s",
            n_samples=len(samples),
        )
        if samples is not plain:
            ratios = [own / other for own, other in zip(samples, plain, strict=True)]
            yield Measurement(
                name=f"training, {name}: step / plain step",
                value=percentile(ratios, 50),
                unit="×",
                target=TARGET if name == "AttnScope" else None,
                n_samples=len(ratios),
            )


def _made_up_text() -> str:
    random = np.random.default_rng(0)
    lines = ("".join(chr(97 + int(k)) for k in random.integers(0, 26, 80)) for _ in range(2_500))
    return "\n".join(lines) + "\nABCDEFGHIJ .,\n"


def _own_steps(folder: Path, device: str) -> Generator[None]:
    recipe = parse_recipe(RECIPE, base_folder=folder)
    for event in TrainingRun(recipe, folder / "run", device).events():
        if isinstance(event, Step):
            yield None


def _plain_steps(text: str, model: nn.Module) -> Generator[None]:
    """The loop that everybody writes first, on the same characters."""
    places = {character: index for index, character in enumerate(sorted(set(text)))}
    data = torch.tensor([places[character] for character in text])
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.1)
    while True:
        starts = torch.randint(len(data) - N_TOKENS, (BATCH,))
        ids = torch.stack([data[i : i + N_TOKENS] for i in starts])
        labels = torch.stack([data[i + 1 : i + 1 + N_TOKENS] for i in starts])
        found = model(ids)
        logits: Tensor = found if isinstance(found, Tensor) else found.logits
        loss = F.cross_entropy(logits.flatten(0, 1), labels.flatten())
        optimizer.zero_grad(set_to_none=True)
        torch.autograd.backward(loss)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        loss.item()
        yield None


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
