"""How late the window's event loop is while a model of Hugging Face's format is opened; run as a process.

A process of its own, because the first model of that format imports transformers, once. The models have
random weights: one the shape of GPT-2 small (Radford et al. 2019), one nearly nothing but a vocabulary as
large as those of XLM-R, mT5 and Gemma, whose reading holds the interpreter.
"""

import importlib.util
import json
import math
import random
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import torch
from safetensors.torch import save_file

from attnscope.app import Program
from bench.child import told_by
from bench.lag import LagProbe, lag_row
from bench.report import Measurement, NotRun, Row
from bench.window import is_settled, open_program, turn_loop, wait_until

N_TOKENS = 1024
WITHIN_S = 240.0
_WHY_LONG = "tokenizers holds the interpreter while it reads a vocabulary"
_LETTERS = "abcdefghijklmnopqrstuvwxyz"


def measure_loading() -> Iterator[Row]:
    """Lateness in ms: GPT-2's shape with transformers still to import, again, and 250,000 pieces."""
    if importlib.util.find_spec("transformers") is None:
        yield NotRun(name="event-loop lag, loading GPT-2", reason="transformers is not installed")
        return
    for name, lags in told_by("bench.loading", has_window=True).items():
        yield lag_row(name, lags)
        yield Measurement(name=f"event-loop lag, {name}, longest", value=max(lags), unit="ms", note=_WHY_LONG)


def make_folder(folder: Path, *, n_pieces: int, d_model: int, n_layers: int) -> Path:
    """A decoder in GPT-2's format with a unigram tokenizer of random words; returns its folder."""
    folder.mkdir()
    config = {
        "model_type": "gpt2",
        "architectures": ["GPT2LMHeadModel"],
        "vocab_size": n_pieces,
        "n_positions": N_TOKENS,
        "n_embd": d_model,
        "n_layer": n_layers,
        "n_head": max(1, d_model // 64),
        "bos_token_id": 0,
        "eos_token_id": 0,
    }
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    (folder / "tokenizer.json").write_text(json.dumps(_tokenizer(n_pieces)), encoding="utf-8")
    tensors = _random_tensors(n_pieces, d_model, n_layers)
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    return folder


def make_encoder_folder(folder: Path, *, n_pieces: int, d_model: int, n_layers: int) -> Path:
    """An encoder in BERT's format with random weights and a tokenizer as `make_folder` has; its folder."""
    folder.mkdir()
    config = {
        "model_type": "bert",
        "architectures": ["BertForMaskedLM"],
        "vocab_size": n_pieces,
        "max_position_embeddings": 512,
        "hidden_size": d_model,
        "intermediate_size": 4 * d_model,
        "num_hidden_layers": n_layers,
        "num_attention_heads": max(1, d_model // 64),
    }
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    (folder / "tokenizer.json").write_text(json.dumps(_tokenizer(n_pieces)), encoding="utf-8")
    tensors = _random_encoder(n_pieces, d_model, n_layers)
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    return folder


def _random_encoder(n_pieces: int, d_model: int, n_layers: int) -> dict[str, torch.Tensor]:
    embedded = {"word": n_pieces, "position": 512, "token_type": 2}
    tables = {f"bert.embeddings.{name}_embeddings": (n, d_model) for name, n in embedded.items()}
    linear, norms = {"cls.predictions.transform.dense": (d_model, d_model)}, ["cls.predictions.transform"]
    norms.append("bert.embeddings")
    for layer in range(n_layers):
        at = f"bert.encoder.layer.{layer}"
        linear |= {f"{at}.attention.self.{name}": (d_model, d_model) for name in ("query", "key", "value")}
        linear |= {f"{at}.attention.output.dense": (d_model, d_model)}
        linear |= {f"{at}.intermediate.dense": (4 * d_model, d_model)}
        linear |= {f"{at}.output.dense": (d_model, 4 * d_model)}
        norms += [f"{at}.attention.output", f"{at}.output"]
    tensors = {f"{name}.weight": weight for name, weight in _weights({**tables, **linear}).items()}
    tensors |= {f"{name}.bias": torch.zeros(n_out) for name, (n_out, _) in linear.items()}
    for name in norms:
        tensors[f"{name}.LayerNorm.weight"] = torch.ones(d_model)
        tensors[f"{name}.LayerNorm.bias"] = torch.zeros(d_model)
    return {**tensors, "cls.predictions.bias": torch.zeros(n_pieces)}


def _tokenizer(n_pieces: int) -> dict[str, object]:
    """The content of a tokenizer.json."""
    rng = random.Random(0)
    words = dict.fromkeys([*_LETTERS, *(f"▁{letter}" for letter in _LETTERS)])
    while len(words) < n_pieces - 2:
        words["▁" * rng.randint(0, 1) + "".join(rng.choices(_LETTERS, k=rng.randint(2, 9)))] = None
    scored = [["<|endoftext|>", 0.0], ["<unk>", 0.0], *([word, -8.0 - len(word)] for word in words)]
    spaces = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": True}
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [],
        "normalizer": None,
        "pre_tokenizer": spaces,
        "post_processor": None,
        "decoder": spaces,
        "model": {"type": "Unigram", "unk_id": 1, "vocab": scored, "byte_fallback": False},
    }


def _weights(shapes: Mapping[str, tuple[int, ...]]) -> dict[str, torch.Tensor]:
    """Small weights of these shapes; from one strip of random numbers, which is quicker than drawing each."""
    strip = 0.02 * torch.randn(2**20 + 7, generator=torch.Generator().manual_seed(0))
    sizes = {name: math.prod(shape) for name, shape in shapes.items()}
    long = strip.repeat(2 + max(sizes.values()) // len(strip))
    starts = [97 * index % len(strip) for index in range(len(shapes))]
    return {
        name: long[start : start + sizes[name]].reshape(shape).clone()
        for start, (name, shape) in zip(starts, shapes.items(), strict=True)
    }


def _random_tensors(n_pieces: int, d_model: int, n_layers: int) -> dict[str, torch.Tensor]:
    shapes: dict[str, tuple[int, ...]] = {"wte": (n_pieces, d_model), "wpe": (N_TOKENS, d_model)}
    for layer in range(n_layers):
        for name, n_in, n_out in (
            ("attn.c_attn", d_model, 3 * d_model),
            ("attn.c_proj", d_model, d_model),
            ("mlp.c_fc", d_model, 4 * d_model),
            ("mlp.c_proj", 4 * d_model, d_model),
        ):
            shapes[f"h.{layer}.{name}"] = (n_in, n_out)
    tensors = {f"transformer.{name}.weight": weight for name, weight in _weights(shapes).items()}
    for name, (_, n_out) in list(shapes.items())[2:]:
        tensors[f"transformer.{name}.bias"] = torch.zeros(n_out)
    for norm in ("ln_f", *(f"h.{layer}.ln_{n}" for layer in range(n_layers) for n in (1, 2))):
        tensors[f"transformer.{norm}.weight"] = torch.ones(d_model)
        tensors[f"transformer.{norm}.bias"] = torch.zeros(d_model)
    return tensors


def lags_of_opening(program: Program, probe: LagProbe, folder: Path) -> list[float]:
    """Lateness in ms of each turn from the request to the first attention of the model in `folder`."""

    def is_open() -> bool:
        model = program.session.model
        return model is not None and Path(model.source) == folder and is_settled(program)

    probe.start()
    program.session.opening.load(str(folder), "cpu")
    wait_until(program, is_open, folder.name, WITHIN_S)
    turn_loop(0.05)
    probe.stop()
    return list(probe.lags_ms)


def main() -> None:
    """One line of JSON: lateness in ms of every turn, by the name of the measurement."""
    with tempfile.TemporaryDirectory(prefix="attnscope-loading-") as made, open_program() as program:
        small = make_folder(Path(made) / "gpt-2", n_pieces=50_257, d_model=768, n_layers=12)
        large = make_folder(Path(made) / "large", n_pieces=250_000, d_model=8, n_layers=1)
        probe = LagProbe(program)
        told = {"loading the first GPT-2": lags_of_opening(program, probe, small)}
        told["loading 250,000 pieces"] = lags_of_opening(program, probe, large)
        told["loading GPT-2 again"] = lags_of_opening(program, probe, small)
        probe.deleteLater()
    print(json.dumps(told))


if __name__ == "__main__":
    main()
