"""Two examples of every command, printed below its help."""

from types import MappingProxyType

_WIDTH = 79

EXAMPLES = MappingProxyType(
    {
        "open": (
            ("the window on a demo model", "attnscope open grammar"),
            ("a saved session, in a window of its own", "attnscope open lesson.attnscope --new-window"),
        ),
        "train": (
            ("train a built-in recipe into a run folder", "attnscope train reverse --out runs/reverse"),
            ("what a recipe would cost", "attnscope train grammar --plan"),
        ),
        "trace": (
            (
                "every weight of a text, for numpy",
                'attnscope trace stories --text "The cat sat on the mat." -o trace.npz',
            ),
            (
                "for AttnScope, which opens it in the window",
                'attnscope trace grammar --text "the white cat sleeps" -o trace.safetensors',
            ),
        ),
        "predict": (
            (
                "the candidates for a masked word",
                'attnscope predict stories-masked --text "I put <mask> fork down on the table."',
            ),
            (
                "without one head: before and after",
                'attnscope predict grammar --text "the white cat sleeps" --gate cross:L1H0=0',
            ),
        ),
        "generate": (
            (
                "four beams of twelve tokens",
                'attnscope generate stories --text "Once upon a time" --beams 4 --max-tokens 12',
            ),
            ("sampled", 'attnscope generate stories --text "The girl" --temperature 0.8 --seed 1'),
        ),
        "translate": (
            ("a sentence", 'attnscope translate english-french --text "Where did you buy this bread?"'),
            (
                "a file of pairs, with BLEU",
                "attnscope translate english-french -f pairs.tsv --beams 4 -o out.txt",
            ),
        ),
        "figure": (
            (
                "one head",
                'attnscope figure grammar --text "the white cat sleeps" --view head --stack cross --layer 1 '
                "--head 0 -o head.svg",
            ),
            (
                "positional encodings, as wide as two columns",
                "attnscope figure grammar --view positions --size double -o positions.pdf",
            ),
        ),
        "measure": (
            (
                "every head on a text, the most diffuse first",
                'attnscope measure stories --text "The cat sat on the mat." --sort entropy',
            ),
            ("over a corpus", "attnscope measure stories --corpus sentences.txt --csv heads.csv"),
        ),
        "importance": (
            ("by gradient, on the model's own samples", "attnscope importance grammar"),
            (
                "by removing each head in turn, on your texts",
                "attnscope importance stories --corpus sentences.txt --ranking leave-one-out --csv heads.csv",
            ),
        ),
        "curve": (
            ("two rankings", "attnscope curve grammar --rankings gradient,random -o curve.svg"),
            ("the scores of one pass for all steps", "attnscope curve grammar --once --metric accuracy"),
        ),
        "attribute": (
            ("the model's own prediction", 'attnscope attribute grammar --text "the white cat sleeps"'),
            (
                "drawn, the parts in the model's order",
                'attnscope attribute stories --text "The cat sat on the" --sort model -o parts.svg',
            ),
        ),
        "patch": (
            (
                "the residual stream",
                'attnscope patch grammar --clean "the white cat sleeps" --corrupt "the black cat sleeps"',
            ),
            (
                "heads, drawn",
                'attnscope patch grammar --clean "the white cat sleeps" --corrupt "the white dog sleeps" '
                "--kind head -o heads.svg",
            ),
        ),
        "ask": (
            ("the questions", "attnscope ask"),
            (
                "one of them",
                'attnscope ask surprise stories --text "Once upon a time there was a girl." -o surprise.svg',
            ),
        ),
        "lens": (
            ("every token", 'attnscope lens stories --text "Only I love you." --csv lens.csv'),
            (
                "the last one, ten candidates",
                'attnscope lens stories --text "The cat sat on the" --position=-1 --top 10',
            ),
        ),
        "rollout": (
            ("drawn", 'attnscope rollout grammar --text "the white cat sleeps" -o rollout.svg'),
            ("of the first output", 'attnscope rollout grammar --text "the white cat sleeps" --position 0'),
        ),
        "flow": (
            ("of the last output", 'attnscope flow stories --text "Only I love you."'),
            ("of another", 'attnscope flow grammar --text "the white cat sleeps" --position 1 -o flow.svg'),
        ),
        "relevance": (
            (
                "as JSON",
                'attnscope relevance stories-masked --text "I put <mask> fork down on the table." --json',
            ),
            ("drawn", 'attnscope relevance grammar --text "the white cat sleeps" -o relevance.svg'),
        ),
        "weights": (
            ("a head of cross-attention", "attnscope weights grammar cross:L1H0"),
            ("the three strongest pairs, drawn", "attnscope weights stories L0H1 --top 3 -o head.svg"),
        ),
        "lab": (
            ("the labs", "attnscope lab"),
            ("one of them, drawn", 'attnscope lab "Scaling by √d" --set d_k=64 -o scaling.svg'),
        ),
        "prune": (
            (
                "two heads, removed permanently",
                'attnscope prune grammar --heads "encoder L0H1 cross L1H6" -o smaller',
            ),
            (
                "those of a file, with the proof on a text",
                'attnscope prune grammar --gates gates.json --text "the cat sleeps" -o smaller',
            ),
        ),
        "get": (
            ("the shelf, without the network", "attnscope get --list"),
            ("one of its models", "attnscope get gpt2"),
        ),
        "info": (
            ("a demo model", "attnscope info grammar"),
            ("published models by name: their size and cost", "attnscope info --presets"),
        ),
        "study": (
            ("the studies", "attnscope study"),
            ("one of them", "attnscope study collapse --out studies"),
        ),
        "bench": (
            ("the start, in a checkout", "attnscope bench start"),
            ("everything, into a file", "attnscope bench --json bench.json"),
        ),
        "completion": (
            ("this shell, now (bash)", 'eval "$(attnscope completion bash)"'),
            (
                "every shell from now on (fish)",
                "attnscope completion fish > ~/.config/fish/completions/attnscope.fish",
            ),
        ),
    }
)
"""Of each command: what an example shows, and the line to type."""


def examples_text(command: str) -> str:
    """What stands below the help of a command: a remark and a line for each example; empty for none."""
    lines = [line for words, typed in EXAMPLES.get(command, ()) for line in (f"  # {words}", _folded(typed))]
    return "\n".join(("", "examples:", *lines, "")) if lines else ""


def _folded(typed: str) -> str:
    """A line to type in lines of a terminal's width, broken between its words, never within quotes."""
    held = typed.replace(" -", "\0-") if len(typed) > _WIDTH - 2 else typed
    parts = [part for part in held.split("\0") if part]
    lines, line = [], parts[0]
    for part in parts[1:]:
        if len(line) + 1 + len(part) > _WIDTH - 6:
            lines.append(line)
            line = part
        else:
            line = f"{line} {part}"
    lines.append(line)
    return "  " + " \\\n    ".join(lines)
