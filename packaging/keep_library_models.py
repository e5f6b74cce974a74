"""Trains the small models of the library transformers that the program shows, and keeps them.

Run from the repository's root with the names of those to make again, or without for all (a few minutes each):
python packaging/keep_library_models.py [longformer] [led] [bigbird] [reformer] [funnel]
Each is written to its folder of resources/models: configuration, weights, tokenizer, card and manifest. What
the program says of it, in about.toml, is written by hand and stays. Two runs on one machine give equal bytes.
"""

import hashlib
import json
import random
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from tokenizers import AddedToken, Tokenizer, models, normalizers, pre_tokenizers, processors
from torch.nn.functional import cross_entropy

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # this checkout, not an installed copy

from attnscope.analysis.bootstrap import mean_interval
from attnscope.files import MANIFEST_NAME, replace_file
from attnscope.kept_models import kept_models_folder
from attnscope.models import Model, load
from attnscope.records.measures import wilson, with_interval

SPECIALS = ("<pad>", "<s>", "</s>", "<unk>", "<mask>")
PAD, BEGIN, END, UNKNOWN, MASK = range(5)
SEED, BATCH, WARMUP, DECAY_FROM = 1, 32, 100, 0.7
N_TRIED, N_LOOKED_AT = 2000, 100

THINGS = tuple("lamp door chair table window boat kite drum coat bell clock vase".split())
COLOURS = tuple("red green blue white black yellow pink grey".split())
LOOKS = tuple("old new big small long short clean warm".split())
NAMES = tuple("anna ben clara david emma felix greta hugo ida jonas karl lena mona nils otto paula".split())
MACHINES = tuple("lamp window engine door heater pump mirror radio".split())
FAULTS = tuple("broken leaking loose noisy dark stuck".split())
DAYS = tuple("monday tuesday wednesday thursday friday".split())
DID = tuple("visited called thanked met".split())
ROOMS = tuple(str(number) for number in range(10, 26))


@dataclass(frozen=True, slots=True, kw_only=True)
class Text:
    """A text to learn from, and what is right; `row` of the map that answers has to look at `column`."""

    source: str
    answer: str
    places: tuple[tuple[int, int], ...]


# -- what they learn --------------------------------------------------------------------------------


def lamp_text(rng: random.Random) -> Text:
    """Ten things with their colours, the lamp among them; the answer is the lamp's colour."""
    things = ["lamp", *rng.sample(THINGS[1:], 9)]
    rng.shuffle(things)
    colours = [rng.choice(COLOURS) for _ in things]
    at = things.index("lamp")
    source = " ".join(f"the {thing} is {colour} ." for thing, colour in zip(things, colours, strict=True))
    return Text(source=source, answer=colours[at], places=((0, 1 + 5 * at + 3),))


def colour_text(rng: random.Random, n_others: int = 6) -> Text:
    """A colour that is said once among other sentences, and hidden in three."""
    colour = rng.choice(COLOURS)
    rows = [f"the {thing} is {rng.choice(LOOKS)} ." for thing in rng.sample(THINGS, n_others)]
    rows += [f"the colour is {colour} .", *["again it is <mask> ."] * 3]
    rng.shuffle(rows)
    words = " ".join(rows).split()
    said = 1 + words.index(colour)
    places = tuple((1 + i, said) for i, word in enumerate(words) if word == "<mask>")
    return Text(source=" ".join(words), answer=colour, places=places)


def longer_colour_text(rng: random.Random) -> Text:
    """The same with a sentence more: 56 tokens with the first, seven chunks of eight."""
    return colour_text(rng, 7)


def lamp_again_text(rng: random.Random) -> Text:
    """Seven things with their colours, the lamp among them, whose colour is hidden in three sentences."""
    said = [(thing, rng.choice(COLOURS)) for thing in ("lamp", *rng.sample(THINGS[1:], 6))]
    rows = [f"the {thing} is {colour} ." for thing, colour in said] + ["again it is <mask> ."] * 3
    rng.shuffle(rows)
    words = " ".join(rows).split()
    at = 1 + words.index("lamp") + 2
    places = tuple((1 + i, at) for i, word in enumerate(words) if word == "<mask>")
    return Text(source=" ".join(words), answer=said[0][1], places=places)


def report_text(rng: random.Random) -> Text:
    """A report of ten sentences, two of which matter, and its summary; both in any order."""
    finder, mender, *others = rng.sample(NAMES, 8)
    machine, fault, day, room = (rng.choice(words) for words in (MACHINES, FAULTS, DAYS, ROOMS))
    rows = [f"{finder} found the {machine} in room {room} {fault} .", f"{mender} repaired it on {day} ."]
    for _ in range(8):
        one, other = rng.sample(others, 2)
        rows.append(f"on {rng.choice(DAYS)} {one} {rng.choice(DID)} {other} .")
    rng.shuffle(rows)
    source = " ".join(rows)
    answer = f"{machine} in room {room} {fault} found by {finder} repaired by {mender} on {day}"
    words, told = source.split(), answer.split()
    places = tuple((told.index(name), 1 + words.index(name)) for name in (machine, finder, mender))
    return Text(source=source, answer=answer, places=places)


# -- what they are ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Spec:
    """One model: its class and sizes, what it learns, and what its card says."""

    architecture: str
    sizes: dict[str, Any]
    words: Sequence[str]
    draw: Callable[[random.Random], Text]
    template: str
    n_steps: int
    rate: float
    task: str
    tried: str
    looks: str
    stack: str
    more: dict[str, Any] = field(default_factory=dict)
    """Keys of config.json that only reading needs."""


_IDS = {"pad_token_id": PAD, "bos_token_id": BEGIN, "eos_token_id": END}
_ENCODER = {
    **_IDS, "sep_token_id": END, "hidden_size": 48, "num_attention_heads": 4, "intermediate_size": 96,
    "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0, "initializer_range": 0.1,
    "type_vocab_size": 1,
}  # fmt: skip
_COLOUR_WORDS = (*"the is . colour again it".split(), *THINGS, *COLOURS, *LOOKS)
_HIDDEN = "A colour is said once among other sentences and hidden in three; the model fills it in."
_HIDDEN_TRIED = "of the hidden words are filled in right"
_HIDDEN_LOOKS = "Weight of a hidden word on the colour"
_BOTH_ENDS = "<s> $A </s>"

SPECS = {
    "longformer": Spec(
        architecture="LongformerForSequenceClassification",
        sizes={
            **_ENCODER, "num_hidden_layers": 2, "attention_window": 8, "max_position_embeddings": 66,
            "id2label": dict(enumerate(COLOURS)), "label2id": {name: k for k, name in enumerate(COLOURS)},
        },
        words=("the", "is", ".", *THINGS, *COLOURS),
        draw=lamp_text,
        template=_BOTH_ENDS,
        n_steps=500,
        rate=3e-3,
        task="A text says the colours of ten things; the model tells that of the lamp. A token sees four to "
        "either side; the first token, from which the label is read, is global.",
        tried="of the texts get the right colour",
        looks="Weight of the global token on the lamp's colour",
        stack="encoder",
    ),
    "led": Spec(
        architecture="LEDForConditionalGeneration",
        sizes={
            **_IDS, "d_model": 48, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4,
            "decoder_attention_heads": 4, "encoder_ffn_dim": 96, "decoder_ffn_dim": 96, "attention_window": 8,
            "max_encoder_position_embeddings": 72, "max_decoder_position_embeddings": 24,
            "decoder_start_token_id": END, "dropout": 0.0, "attention_dropout": 0.0,
            "activation_dropout": 0.0, "init_std": 0.1,
        },
        words=(*"the in room found it on repaired by .".split(), *NAMES, *MACHINES, *FAULTS, *DAYS, *DID,
               *ROOMS),
        draw=report_text,
        template=_BOTH_ENDS,
        n_steps=800,
        rate=3e-3,
        task="A report of ten sentences, two of which matter, is written as one line. A token of the encoder "
        "sees four to either side; the first is global.",
        tried="of the summaries' words are written right, each after the right words before it",
        looks="Weight of the row that writes a machine or a name on the word that it copies",
        stack="cross",
        more={"attnscope": {"global_tokens": 1}},
    ),
    "bigbird": Spec(
        architecture="BigBirdForMaskedLM",
        sizes={
            **_ENCODER, "num_hidden_layers": 2, "block_size": 4, "num_random_blocks": 2,
            "max_position_embeddings": 64, "attention_type": "block_sparse",
        },
        words=_COLOUR_WORDS,
        draw=colour_text,
        template=_BOTH_ENDS,
        n_steps=500,
        rate=3e-3,
        task=f"{_HIDDEN} A block of four tokens sees itself, its neighbours, the first and the last block, "
        "and two blocks that were drawn at random, for each head others.",
        tried=_HIDDEN_TRIED,
        looks=_HIDDEN_LOOKS,
        stack="encoder",
        more={"attnscope": {"random_blocks": True}},
    ),
    "reformer": Spec(
        architecture="ReformerForMaskedLM",
        sizes={
            "hidden_size": 48, "attention_head_size": 12, "num_attention_heads": 4, "feed_forward_size": 96,
            "attn_layers": ["lsh", "local"], "axial_pos_embds": False, "max_position_embeddings": 56,
            "is_decoder": False, "local_attn_chunk_length": 8, "lsh_attn_chunk_length": 8, "num_buckets": 8,
            "num_hashes": 1, "hash_seed": None, "hidden_dropout_prob": 0.0, "hidden_act": "gelu",
            "local_attention_probs_dropout_prob": 0.0, "lsh_attention_probs_dropout_prob": 0.0,
            "initializer_range": 0.1, "pad_token_id": PAD, "eos_token_id": END,
        },
        words=_COLOUR_WORDS,
        draw=longer_colour_text,
        template="<s> $A",
        n_steps=600,
        rate=3e-3,
        task=f"{_HIDDEN} The first layer hashes its tokens into buckets by random directions, other ones "
        "in each head, and looks only within chunks of eight of their order and the chunk before; the second "
        "reads the same chunks of the text as it stands.",
        tried=_HIDDEN_TRIED,
        looks=_HIDDEN_LOOKS,
        stack="encoder",
        more={"hash_seed": 0},
    ),
    "funnel": Spec(
        architecture="FunnelForMaskedLM",
        sizes={
            "block_sizes": [1, 1, 1], "num_decoder_layers": 1, "d_model": 48, "n_head": 4, "d_head": 12,
            "d_inner": 96, "hidden_dropout": 0.0, "attention_dropout": 0.0, "activation_dropout": 0.0,
            "pad_token_id": PAD, "initializer_std": 0.3,
        },
        words=_COLOUR_WORDS,
        draw=lamp_again_text,
        template=_BOTH_ENDS,
        n_steps=600,
        rate=3e-3,
        task="A text says the colours of seven things; that of the lamp is hidden in three more sentences, "
        "and the model fills it in. Its second layer has half as many queries as there are tokens, its third "
        "a quarter; one more layer reads all tokens again.",
        tried=_HIDDEN_TRIED,
        looks="Weight of a hidden word on the lamp's colour",
        stack="encoder",
    ),
}  # fmt: skip


# -- training ---------------------------------------------------------------------------------------


class Trainer:
    """A model of one spec, and how its texts become what it reads."""

    def __init__(self, spec: Spec) -> None:
        self.spec = spec
        self.tokenizer = tokenizer_of(spec)
        torch.manual_seed(SEED)
        kind = getattr(transformers, spec.architecture)
        self.model: Any = kind(kind.config_class(vocab_size=len(SPECIALS) + len(spec.words), **spec.sizes))
        self.model.train()

    def losses(self) -> Iterator[float]:
        """Train, and tell the loss of each step."""
        spec, rng = self.spec, random.Random(f"training {SEED}")
        optimizer = torch.optim.AdamW(
            self.model.parameters(), lr=spec.rate, betas=(0.9, 0.98), weight_decay=0.01
        )
        for step in range(spec.n_steps):
            left = (spec.n_steps - step) / (spec.n_steps * (1 - DECAY_FROM))
            for group in optimizer.param_groups:
                group["lr"] = spec.rate * min(1.0, (step + 1) / WARMUP, left)
            logits, right = self.answers([spec.draw(rng) for _ in range(BATCH)])
            loss = cross_entropy(logits, right)
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
            optimizer.step()
            yield loss.item()

    def answers(self, texts: Sequence[Text]) -> tuple[torch.Tensor, torch.Tensor]:
        """Logits [n, words] of all that is to be said of some texts, and what is right [n]."""
        read = torch.tensor([self.tokenizer.encode(text.source).ids for text in texts])
        if self.spec.draw is lamp_text:
            return self.model(input_ids=read).logits, torch.tensor([COLOURS.index(t.answer) for t in texts])
        written = torch.tensor([self._ids(text.answer) for text in texts])
        if self.spec.draw is report_text:
            right = torch.cat([written, torch.full((len(texts), 1), END)], dim=1)
            begun = torch.cat([torch.full((len(texts), 1), END), written], dim=1)
            is_global = torch.zeros_like(read)
            is_global[:, 0] = 1
            logits = self.model(
                input_ids=read, global_attention_mask=is_global, decoder_input_ids=begun
            ).logits
            return logits.flatten(0, 1), right.flatten()
        logits = self.model(input_ids=read).logits
        is_hidden = read == MASK
        return logits[is_hidden], written.expand(-1, 3).flatten()

    def _ids(self, words: str) -> list[int]:
        return [self.tokenizer.token_to_id(word) for word in words.split()]

    def save(self, folder: Path) -> None:
        """Write configuration, weights and tokenizer."""
        for key, value in self.spec.more.items():
            setattr(self.model.config, key, value)
        self.model.save_pretrained(folder)
        self.tokenizer.save(str(folder / "tokenizer.json"))
        (folder / "generation_config.json").unlink(missing_ok=True)


def tokenizer_of(spec: Spec) -> Tokenizer:
    """One token a word, in small letters."""
    entries = {word: id for id, word in enumerate((*SPECIALS, *spec.words))}
    made = Tokenizer(models.WordLevel(entries, unk_token="<unk>"))
    made.normalizer = normalizers.Lowercase()
    made.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Split(".", "isolated")]
    )
    made.add_special_tokens([AddedToken(word, special=True, normalized=False) for word in SPECIALS])
    if spec.template:
        named = [("<s>", BEGIN), ("</s>", END)]
        made.post_processor = processors.TemplateProcessing(single=spec.template, special_tokens=named)
    return made


# -- measuring, by what the program opens -----------------------------------------------------------


def share_right(trainer: Trainer, folder: Path) -> tuple[int, int]:
    """Right answers on held-out texts, of how many, with the model as opened from its folder."""
    trainer.model = load(folder, "cpu").network.module
    rng, n_right, n = random.Random("held out"), 0, 0
    with torch.no_grad():
        while n < N_TRIED:
            logits, right = trainer.answers([trainer.spec.draw(rng) for _ in range(50)])
            n_right, n = n_right + int((logits.argmax(dim=-1) == right).sum()), n + len(right)
    return n_right, n


def best_head(model: Model, spec: Spec) -> tuple[str, tuple[float, float, float]]:
    """The head that looks most at what the answer stands on: its mean weight there, with an interval."""
    rng, found = random.Random("looked at"), {}
    for _ in range(N_LOOKED_AT):
        text = spec.draw(rng)
        trace = model.trace(text.source, text.answer if spec.stack == "cross" else None)
        for site in model.info.sites:
            if site.stack == spec.stack:
                maps = trace.all_weights(site.key)
                for head in site.heads:
                    weights = [float(maps[head.head, row, column]) for row, column in text.places]
                    named = f"{head.stack}:{head.label}"
                    found.setdefault(named, []).append(float(np.nan_to_num(weights).mean()))
    name = max(found, key=lambda name: np.mean(found[name]))
    value, low, high = mean_interval(np.array(found[name]))
    return name, (value, low, high)


def card_of(name: str, trainer: Trainer, folder: Path, minutes: float, loss: float) -> str:
    spec, model = trainer.spec, load(folder, "cpu")
    (n_right, n), (head, weight) = share_right(trainer, folder), best_head(model, spec)
    low, high = wilson(n_right, n)
    share = with_interval(100 * n_right / n, 100 * low, 100 * high, 1)
    made = (
        f"Seed {SEED}, {spec.n_steps:,} steps of {BATCH} texts drawn anew, AdamW with a rate of "
        f"{spec.rate:g}; precision float32, with transformers {transformers.__version__} and torch "
        f"{torch.__version__.split('+')[0]}. {minutes:.1f} processor minutes on one core. The last loss was "
        f"{loss:.4f} nats."
    )
    looks = (
        f"- {spec.looks}: {head.replace(':', ' ')}, {with_interval(*weight)}; 95 % bootstrap interval over "
        f"{N_LOOKED_AT} held-out texts. No other head of its stack has more."
    )
    parts = (
        f"# {name}",
        f"{spec.architecture} of the library transformers, {model.info.n_parameters:,} parameters in float32."
        f" {spec.task}",
        "## How it was made",
        f"    python packaging/keep_library_models.py {name}",
        made,
        "## What was measured",
        f"- {share} % {spec.tried}; 95 % Wilson interval over {n:,} answers to held-out texts.\n{looks}",
        f"It knows the {len(spec.words)} words of its task and nothing else: it is here to show how its "
        "attention is laid out, not for what it says.",
        "## Data and licence",
        "Texts made up by the script above, written for AttnScope; the model and its data are under "
        "AttnScope's MIT licence.",
    )
    return "\n\n".join(parts) + "\n"


def keep(name: str) -> None:
    """Train a model and write its folder."""
    trainer, began, loss = Trainer(SPECS[name]), time.process_time(), 0.0
    for step, loss in enumerate(trainer.losses()):
        if step % 100 == 0:
            sys.stderr.write(f"{name}: step {step}, loss {loss:.3f}, {time.process_time() - began:.0f} s\n")
    minutes = (time.process_time() - began) / 60
    folder = kept_models_folder() / name
    folder.mkdir(parents=True, exist_ok=True)
    (folder / MANIFEST_NAME).unlink(missing_ok=True)
    trainer.save(folder)
    (folder / "card.md").write_text(card_of(name, trainer, folder, minutes, loss), encoding="utf-8")
    listed = {
        file.name: {"n_bytes": file.stat().st_size, "sha256": hashlib.sha256(file.read_bytes()).hexdigest()}
        for file in sorted(folder.iterdir())
        if file.name not in ("about.toml", MANIFEST_NAME)
    }
    replace_file(folder / MANIFEST_NAME, json.dumps(listed, indent=1).encode())
    sys.stderr.write((folder / "card.md").read_text(encoding="utf-8"))


if __name__ == "__main__":
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True, warn_only=True)
    for chosen in sys.argv[1:] or SPECS:
        keep(chosen)
