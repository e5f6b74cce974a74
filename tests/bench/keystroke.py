"""How soon the maps follow a keystroke: text typed, traced on the worker, painted.

At 64 tokens of a small decoder, at 250 of a model of GPT-2's shape against the plain pass, in turns, and in
the translator that the program opens on, whose first maps come before its translation is whole.
"""

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import torch

from attnscope.app import Program
from bench.long_model import long_text, write_gpt2_model, write_small_model
from bench.report import Measurement, median_of, percentile, worst_of
from bench.window import is_settled, open_program, turn_loop, wait_until

N_TOKENS = 64
N_KEYSTROKES = 20
TARGET_MS = 100.0
PAUSE_S = 0.12
"""Between two keystrokes: a quick typist, eight a second."""
SENTENCE = "The dog sees that my sister wants to buy a red car and drive it."
TRANSLATED_MS = 1000.0
N_LARGE_TOKENS, N_LARGE_KEYSTROKES = 250, 4
MAX_RATIO = 1.5
"""Milliseconds to the painted maps over those of the plain pass with as many threads."""
WORDS = "the king shall come to the house of my lord and speak with him of love and war this night "


def measure_typing(n_keystrokes: int = N_KEYSTROKES) -> Iterator[Measurement]:
    """Milliseconds from a change of the text to the painted maps."""
    with tempfile.TemporaryDirectory(prefix="attnscope-typing-") as folder:
        with open_program(str(write_small_model(Path(folder) / "small"))) as program:
            text = text_of(program, N_TOKENS)
            samples = [type_once(program, text, index) for index in range(n_keystrokes)]
            n_tokens = len(program.session.traced.source) if program.session.traced else 0
    note = f"4 layers of 4 heads, 128 wide, {n_tokens} tokens"
    yield worst_of("keystroke to painted maps", samples, "ms", target=TARGET_MS, note=note)


def measure_large_typing(n_keystrokes: int = N_LARGE_KEYSTROKES) -> Iterator[Measurement]:
    """The same for a model of GPT-2's shape, over its plain pass, which is timed after each keystroke."""
    words = long_text(N_LARGE_TOKENS).split()
    ratios, plain_ms = [], []
    with tempfile.TemporaryDirectory(prefix="attnscope-typing-") as folder:
        module = write_gpt2_model(Path(folder) / "model")
        ids = torch.randint(5, module.config.vocab_size, (1, N_LARGE_TOKENS))
        with open_program(str(Path(folder) / "model")) as program:
            for index in range(n_keystrokes + 1):
                for word in (words[index], words[index + 1]):  # the second comes while a text is written
                    key_ms = type_text(program, " ".join((*words[: N_LARGE_TOKENS - 2], word)))
                wait_until(program, lambda: is_written(program), "the output")
                begin_s = time.perf_counter()
                with torch.inference_mode():
                    module(ids)
                plain_ms.append((time.perf_counter() - begin_s) * 1e3)
                ratios.append(key_ms / plain_ms[-1])
    yield median_of(
        "GPT-2's shape, keystroke to painted maps / plain pass",
        ratios[1:],
        "×",
        target=MAX_RATIO,
        note=f"plain {percentile(plain_ms[1:], 50):.0f} ms, {N_LARGE_TOKENS} tokens",
    )


def measure_translating(n_keystrokes: int = N_KEYSTROKES) -> Iterator[Measurement]:
    """A sentence typed letter by letter: milliseconds to its first maps, and to its translation."""
    maps_ms, whole_ms = [], []
    with open_program("english-french") as program:
        for n in range(len(SENTENCE) - n_keystrokes, len(SENTENCE)):
            first_ms, last_ms = translate_once(program, SENTENCE[: n + 1])
            maps_ms.append(first_ms)
            whole_ms.append(last_ms)
    note = f"english-french, {n_keystrokes} letters one by one"
    name = "translator: keystroke to first painted maps"
    yield worst_of(name, maps_ms, "ms", target=TARGET_MS, note=note)
    name = "translator: keystroke to the painted translation"
    yield worst_of(name, whole_ms, "ms", target=TRANSLATED_MS, note=note)


def translate_once(program: Program, text: str) -> tuple[float, float]:
    """Take another text; milliseconds until its first maps are painted, and all of them. A pause follows."""
    begin_s = time.perf_counter()
    program.session.texts.set_text(text)
    wait_until(program, lambda: has_maps(program), "maps")
    program.window.repaint()
    first_ms = (time.perf_counter() - begin_s) * 1e3
    wait_until(program, lambda: is_written(program), "the translation")
    program.window.repaint()
    whole_ms = (time.perf_counter() - begin_s) * 1e3
    turn_loop(PAUSE_S)
    return first_ms, whole_ms


def has_maps(program: Program) -> bool:
    """Whether maps of the newest text are there, of all of its translation or of its first words."""
    return is_settled(program) or program.session.tracing.is_growing


def is_written(program: Program) -> bool:
    """Whether what the model writes after the newest text is there."""
    traced = program.session.traced
    return is_settled(program) and traced is not None and not traced.comparison.is_writing


def text_of(program: Program, n_tokens: int) -> str:
    """A text of at least `n_tokens` tokens, or as many as the model takes."""
    words, text = (WORDS * 10).split(), ""
    for n in range(N_TOKENS // 5, len(words)):
        text = " ".join(words[:n])
        program.session.texts.set_text(text)
        wait_until(program, lambda: is_settled(program), "a trace")
        traced = program.session.traced
        if traced is not None and (len(traced.source) >= n_tokens or traced.source.n_dropped):
            break
    return text


def type_once(program: Program, text: str, index: int) -> float:
    """Change the last letter; milliseconds until the new maps are painted."""
    return type_text(program, text[:-1] + "abcdefghij"[index % 10])


def type_text(program: Program, text: str) -> float:
    """Take another text; milliseconds until its maps are painted. A pause follows."""
    begin_s = time.perf_counter()
    program.session.texts.set_text(text)
    wait_until(program, lambda: is_settled(program), "a trace")
    program.window.repaint()
    duration_ms = (time.perf_counter() - begin_s) * 1e3
    turn_loop(PAUSE_S)
    return duration_ms
