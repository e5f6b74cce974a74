"""The bridge holds in a fresh interpreter, and nothing heavy is imported before it is needed."""

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

CHECKOUT = Path(__file__).parents[2]


def _imported(statement: str, names: tuple[str, ...]) -> list[str]:
    """Which of `names` a fresh interpreter has imported after the statement."""
    code = f"{statement}\nimport sys\nprint()\nprint(*[n for n in {names!r} if n in sys.modules])"
    result = subprocess.run(
        [sys.executable, "-c", code], cwd=CHECKOUT, capture_output=True, text=True, timeout=120, check=False
    )
    assert result.returncode == 0, result.stderr
    return result.stdout.splitlines()[-1].split()


HEAVY = ("torch", "tokenizers", "safetensors", "transformers", "PySide6", "pyqtgraph")
ENGINE = ("torch", "tokenizers", "safetensors", "transformers")
QT = ("PySide6", "pyqtgraph")


@pytest.mark.parametrize(
    "name", ["attnscope", "attnscope.records.messages", "attnscope.viewmodels.session.state"]
)
def test_that_importing_the_light_parts_imports_nothing_heavy(name: str) -> None:
    assert _imported(f"import {name}", HEAVY) == []


@pytest.mark.parametrize("name", ["widgets.window.main_window", "figures.export", "boot", "app"])
def test_that_the_window_is_imported_without_tensors_and_without_the_plotting_library(name: str) -> None:
    assert _imported(f"import attnscope.{name}", (*ENGINE, "pyqtgraph")) == []


def test_that_a_name_of_a_door_costs_nothing_of_the_other_files() -> None:
    taken = "from attnscope.nn import ModelConfig; from attnscope.records import freeze, requests"
    assert _imported(taken, ("numpy", "torch", "attnscope.nn.presets", "attnscope.records.maps")) == ["numpy"]


def test_that_qt_keeps_no_source_of_what_is_imported_after_it() -> None:
    code = (
        "from attnscope import boot; boot.use_offscreen(); boot.check_display()\n"
        "import attnscope.records.messages, linecache, sys\n"
        "sys.modules.update({n: sys for n in linecache.cache if 'attnscope' in n})"
    )
    assert _imported(code, (str(CHECKOUT / "attnscope" / "records" / "messages.py"),)) == []


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ((), ()),
        (("--smoke", "--json"), ()),
        (("open", "model"), ()),
        (("--help",), ()),
        (("figure", "--help"), ("figure",)),
        (("--device", "cpu", "train"), ("train",)),
    ],
)
def test_that_only_the_named_command_is_imported(given: tuple[str, ...], expected: tuple[str, ...]) -> None:
    names = ("train", "figure", "bench", "info", "study")
    imported = _imported(
        f"from attnscope.cli.main import build_parser; build_parser({given!r})",
        tuple(f"attnscope.cli.{name}" for name in names),
    )
    assert imported == [f"attnscope.cli.{name}" for name in expected]


def test_that_a_page_of_help_brings_no_network_and_no_numbers() -> None:
    code = "from attnscope.cli.main import build_parser; build_parser(('figure', '--help'))"
    assert _imported(code, ("numpy", "torch", "attnscope.records.models", "attnscope.records.charts")) == []


COMPILER = ("torch._dynamo", "torch._inductor", "torch.fx.experimental.symbolic_shapes", "sympy")
FOREIGN = ("transformers", "safetensors.numpy", "PIL", "matplotlib", "pyqtgraph", "sacrebleu")


@pytest.mark.parametrize(
    "arguments",
    [
        ("info", "grammar"),
        ("predict", "stories", "--text", "To be"),
        ("measure", "grammar", "--text", "I see"),
        ("figure", "grammar", "--text", "I see", "-o", "OUT.svg"),
    ],
    ids=lambda arguments: arguments[0],
)
def test_that_a_demo_model_is_opened_and_drawn_without_the_compiler_and_foreign_models(
    arguments: tuple[str, ...], tmp_path: Path
) -> None:
    given = [argument.replace("OUT", str(tmp_path / "out")) for argument in arguments]
    code = f"from attnscope.cli.main import main; assert main({given!r}) == 0"
    assert _imported(code, (*COMPILER, *FOREIGN)) == []


def test_that_what_is_told_of_a_model_brings_no_downloads_and_no_plans() -> None:
    code = "from attnscope.cli.main import main; assert main(['info', 'grammar']) == 0"
    others = ("hub.fetching", "viewmodels.training.planning", "settings")
    assert _imported(code, ("html", *(f"attnscope.{other}" for other in others))) == []


def test_that_a_command_collects_garbage_seldom_until_it_has_a_model() -> None:
    code = (
        "import gc, sys; from attnscope import __main__, collector; from attnscope.models import opening\n"
        "seen = {}; usual = gc.get_threshold(); read = opening.read_source\n"
        "opening.read_source = lambda source: (seen.update(threshold=gc.get_threshold()), read(source))[1]\n"
        "sys.argv = ['attnscope', 'info', 'grammar']; assert __main__.main() == 0\n"
        "assert seen['threshold'][0] == 200_000 > usual[0], seen\n"
        "assert gc.get_threshold() == usual and gc.isenabled() and gc.get_freeze_count() > 0"
    )
    assert _imported(code, ()) == []


def test_that_opening_a_model_elsewhere_leaves_the_collector_alone() -> None:
    code = (
        "import gc; gc.set_threshold(600, 9, 8); import attnscope as at; at.load('grammar')\n"
        "assert gc.get_threshold() == (600, 9, 8) and gc.get_freeze_count() == 0"
    )
    assert _imported(code, ()) == []


def test_that_the_engine_never_imports_qt() -> None:
    parts = ("models", "training", "analysis.measures", "trace.trace", "text.tokenizer")
    assert _imported("; ".join(f"import attnscope.{part}" for part in parts), QT) == []


def test_that_the_command_line_starts_without_tensors() -> None:
    assert _imported("import attnscope.cli.main", ENGINE) == []


def test_that_the_shelf_is_listed_without_the_engine() -> None:
    statement = "from attnscope.cli.main import main; assert main(['get', '--list']) == 0"
    assert _imported(statement, HEAVY) == []


def test_that_studies_are_listed_without_the_engine() -> None:
    assert _imported("from attnscope.cli.main import main; assert main(['study']) == 0", HEAVY) == []


def test_that_the_desk_of_downloads_needs_no_engine() -> None:
    assert _imported("import attnscope.workers.fetch_desk", HEAVY) == []
