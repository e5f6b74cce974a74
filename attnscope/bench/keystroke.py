"""How soon the maps follow a keystroke, at 64 tokens: text typed, traced on the worker, painted."""

import time

from attnscope.app import Program
from attnscope.bench.report import Measurement, spread
from attnscope.bench.window import is_settled, open_program, turn_loop, wait_until
from attnscope.errors import UserError

N_TOKENS = 64
N_KEYSTROKES = 60
TARGET_MS = 100.0
PAUSE_S = 0.12
"""Between two keystrokes: a quick typist, eight a second."""
WORDS = "the king shall come to the house of my lord and speak with him of love and war this night "


def measure_typing(n_keystrokes: int = N_KEYSTROKES) -> tuple[Measurement, ...]:
    """Milliseconds from a change of the text to the painted maps."""
    with open_program(longest_demo()) as program:
        text = text_of(program, N_TOKENS)
        samples = [type_once(program, text, index) for index in range(n_keystrokes)]
        n_tokens = len(program.session.traced.source) if program.session.traced else 0
        name = program.session.model.name if program.session.model else ""
    note = f"{name}, {n_tokens} tokens"
    return spread("keystroke to painted maps", samples, "ms", targets={95: TARGET_MS}, note=note)


def longest_demo() -> str:
    """The demo model that reads the longest text; raises UserError when there is none."""
    from attnscope.models import demo_models, load

    infos = [load(name, device="cpu").info for name in demo_models()]
    if not infos:
        raise UserError("There is no demo model to measure with.")
    return max(infos, key=lambda info: info.max_tokens).name


def text_of(program: Program, n_tokens: int) -> str:
    """A text of at least `n_tokens` tokens, or as many as the model takes."""
    text = ""
    for word in (WORDS * 10).split():
        text = f"{text} {word}".strip()
        program.session.set_text(text)
        wait_until(program, lambda: is_settled(program), "a trace")
        traced = program.session.traced
        if traced is not None and (len(traced.source) >= n_tokens or traced.source.n_dropped):
            break
    return text


def type_once(program: Program, text: str, index: int) -> float:
    """Change the last letter; milliseconds until the new maps are painted."""
    begin_s = time.perf_counter()
    program.session.set_text(text[:-1] + "abcdefghij"[index % 10])
    wait_until(program, lambda: is_settled(program), "a trace")
    program.window.repaint()
    duration_ms = (time.perf_counter() - begin_s) * 1e3
    turn_loop(PAUSE_S)
    return duration_ms
