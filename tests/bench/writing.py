"""What `attnscope generate` takes, attention of every token included, against the library's own `generate`.

Two models of one shape, GPT-2's at a small size with random weights: the library's own, which both write with
and must write the same text, and one of this program's. The library writes with its cache of keys and values,
with as many threads as it is quickest with: once without attention, which leaves it its fused operator, and
once with what this program hands over as well (`output_attentions`, which costs it that operator).

The library's own model cannot be written with in less than the library's step, 0.95 of its `generate`
(processor time, one thread, 50 tokens). What comes on top, to 1.17, while `output_attentions` comes to 1.06:
0.04 the log-sum-exp of each row and the check of what the attention function is handed, 0.06 the site of each
call and the row that is kept of each head, 0.04 the choice with its alternatives in float64, 0.05 the tokens
as people read them and the proof in the end. The goal is the library's own time all the same: the row says
how far from it we are; Help tells why.
"""

import importlib.util
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch

from attnscope.counting import plural
from attnscope.errors import UserError
from attnscope.models import Model, ModelCard, OwnNetwork, load
from attnscope.models.huggingface import import_transformers
from attnscope.nn import PRESETS, build_transformer, choose_device
from attnscope.records import WriteSettings
from attnscope.text import train_tokenizer
from attnscope.training import quickest_way, ways_up_to
from bench.loading import make_folder
from bench.ratios import Rounds, Way, time_in_turns
from bench.report import Doing, NotRun, Row, Rows, is_clear, median_of, percentile

LENGTHS = (50, 200)
"""The default of the command, and four times as many."""
N_PIECES, D_MODEL, N_LAYERS = 2000, 256, 6
N_ROUNDS, WITHIN_S = 7, 5.0
TARGET_RATIO = 1.0
PROMPT = "a b c d e f"


def measure_writing(device: str = "cpu", lengths: Sequence[int] = LENGTHS) -> Rows:
    """Seconds for a text with its attention over the library's seconds for a text as long, greedily."""
    if importlib.util.find_spec("transformers") is None:
        yield NotRun(name="writing / the library's generate", reason="transformers is not installed")
        return
    chosen = choose_device(device)
    with tempfile.TemporaryDirectory(prefix="attnscope-writing-") as made:
        folder = make_folder(Path(made) / "model", n_pieces=N_PIECES, d_model=D_MODEL, n_layers=N_LAYERS)
        library, telling = Library(folder, chosen), Library(folder, chosen, has_attention=True)
        models = {
            "the library's model": load(str(folder), device=device),
            "a model of its shape": own(chosen),
        }
    for n_tokens in lengths:
        yield Doing(f"{plural(n_tokens, 'token')} written, in turns")
        yield from in_turns(models, (library, telling), n_tokens)


class Library:
    """The same model as its own library writes with it, at its best."""

    def __init__(self, folder: Path, device: torch.device, *, has_attention: bool = False) -> None:
        self.name = "library's generate" + " with output_attentions" * has_attention
        self.has_attention = has_attention
        kind = import_transformers().AutoModelForCausalLM
        way = {"attn_implementation": "eager"} if has_attention else {}  # no other gives weights back
        self._model: Any = kind.from_pretrained(folder, **way).eval().to(device)
        self._model.generation_config.eos_token_id = None  # as many tokens as asked for
        prompt = torch.arange(2, 8)[None].to(device)
        ways = ways_up_to(torch.get_num_threads())
        self.n_threads = quickest_way(lambda _way: self._generate(prompt, 16), ways).n

    def write(self, prompt: Sequence[int], n_tokens: int) -> list[int]:
        """The ids of so many tokens after a prompt."""
        before = torch.get_num_threads()
        torch.set_num_threads(self.n_threads)
        try:
            return self._generate(torch.tensor([list(prompt)], device=self._model.device), n_tokens)
        finally:
            torch.set_num_threads(before)

    def _generate(self, prompt: torch.Tensor, n_tokens: int) -> list[int]:
        settings = {"do_sample": False, "use_cache": True, "pad_token_id": 0}
        if self.has_attention:
            settings |= {"output_attentions": True, "return_dict_in_generate": True}
        told = self._model.generate(
            prompt, attention_mask=torch.ones_like(prompt), max_new_tokens=n_tokens, **settings
        )
        if self.has_attention and len(told.attentions) != n_tokens:
            raise ValueError(f"{len(told.attentions)} steps told their attention, expected {n_tokens}")
        ids = told.sequences if self.has_attention else told
        found: list[int] = ids[0, prompt.shape[1] :].tolist()
        return found


def in_turns(models: Mapping[str, Model], libraries: Sequence[Library], n_tokens: int) -> Iterator[Row]:
    """The library, each way, and our models write as many tokens in turns; the first of ours is its own."""
    first = next(iter(models.values()))
    settings = WriteSettings(max_tokens=n_tokens)
    texts = {
        name: [one.token.id for one in m.write(PROMPT, settings).text.tokens] for name, m in models.items()
    }
    short = [name for name, text in texts.items() if len(text) != n_tokens]
    if short:
        raise UserError(f"{short[0]} wrote {plural(len(texts[short[0]]), 'token')}, expected {n_tokens}.")
    prompt = first.network.encode(PROMPT, None).source.ids
    theirs = {library.name: library.write(prompt, n_tokens) for library in libraries}
    ways: list[Way] = [partial(library.write, prompt, n_tokens) for library in libraries]
    ways += [partial(model.write, PROMPT, settings) for model in models.values()]
    pairs = [(len(libraries) + i, k) for i in range(len(models)) for k in range(len(libraries))]

    def ratios(rounds: Rounds) -> list[list[float]]:
        return [[times[ours] / times[theirs] for times in rounds] for ours, theirs in pairs]

    rounds = time_in_turns(
        ways,
        N_ROUNDS,
        device=torch.device(first.device),
        within_s=WITHIN_S,
        is_enough=lambda rounds: all(is_clear(found, TARGET_RATIO) for found in ratios(rounds)),
        n_warm=0,  # each has written the text by now
    )
    names = [(name, library) for name in models for library in libraries]
    for (name, library), (_, k), found in zip(names, pairs, ratios(rounds), strict=True):
        speed = 1e3 * n_tokens / percentile([times[k] for times in rounds], 50)
        note = f"the library writes {speed:.0f} tokens/s with {plural(library.n_threads, 'thread')}"
        is_same = isinstance(models[name].network, OwnNetwork) or theirs[library.name] == texts[name]
        yield median_of(
            f"{name}: {plural(n_tokens, 'token')} and attention / {library.name}",
            found,
            "×",
            target=TARGET_RATIO,
            note=note if is_same else f"{note}; THE TEXTS DIFFER",
        )


def own(device: torch.device) -> Model:
    """A model of this program in the shape of the library's."""
    tokenizer = train_tokenizer("words", [PROMPT], vocab_size=N_PIECES)
    config = replace(
        PRESETS["gpt-2"],
        vocab_size=N_PIECES,
        d_model=D_MODEL,
        n_layers=N_LAYERS,
        n_heads=D_MODEL // 64,
        d_ff=4 * D_MODEL,
        dropout=0.0,
    )
    module = build_transformer(config, seed=0).eval().to(device)
    return Model(OwnNetwork(module, tokenizer, ModelCard(name="bench", objective="causal")))
