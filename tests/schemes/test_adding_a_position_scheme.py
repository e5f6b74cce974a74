"""A position scheme is one file: configurations, training, costs, commands, Python, page and lab have it."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from attnscope.schemes.positions import POSITIONS

pytestmark = pytest.mark.slow

CHECKOUT = Path(__file__).parents[2]
ADDED = """
from attnscope.schemes.positions.rotary import Rotary
from attnscope.schemes.positions.scheme import PositionScheme


class Ramp(PositionScheme):
    name, title, order = "ramp", "ramp", 900
    words, source = "the position divided by rope_base is added to all dimensions", "this test"
    choices = ("rope_base",)
    page_title = "Ramp"
    is_compared = True

    def faults(self, config):
        if config.score == "kernel":
            yield "position", "another position beside the score kernel"

    def width(self, config):
        return config.d_model

    def table(self, n_positions, d_model):
        import torch

        places = torch.arange(n_positions, device="cpu")[:, None] / 100.0
        return places.expand(-1, d_model).float() + torch.zeros(d_model)  # whatever device is usual there

    def n_products(self, config):
        return 3


class Steep(PositionScheme):
    name, title, order = "steep", "steep", 910
    falls = True

    def slopes(self, n_heads):
        import torch

        return torch.full((n_heads,), 2.0, device="cpu")


class Turned(Rotary):
    name, title, order = "turned", "turned", 920
    page_title, is_compared = "", False
"""
USED = """
import json, sys
from importlib.util import find_spec, module_from_spec

folder, run = sys.argv[1:]
spec = find_spec("attnscope.schemes.positions")  # the package, with one more file in it
spec.submodule_search_locations.append(folder)
package = sys.modules[spec.name] = module_from_spec(spec)
spec.loader.exec_module(package)

import torch
import attnscope
from attnscope.analysis.positions import position_tables
from attnscope.cli.main import main
from attnscope.errors import RecipeError
from attnscope.labs.longer_texts import longer_charts
from attnscope.models.cost import BatchShape, activation_bytes, own_cost
from attnscope.nn.config import ModelConfig, count_parameters
from attnscope.nn.building import build_transformer
from attnscope.paths import resources_folder
from attnscope.viewmodels.help_pages import read_help
from attnscope.labs.longer_texts import LongerChoice, read_longer
from attnscope.viewmodels.positions import SCHEMES, TITLES

found = {}
sizes = {"form": "decoder", "vocab_size": 20, "d_model": 8, "n_layers": 1, "n_heads": 2, "d_ff": 8}
ramp, none, steep = (ModelConfig.from_dict({**sizes, "position": name}) for name in ("ramp", "none", "steep"))
for values in ({"position": "ramps"}, {"position": "ramp", "score": "kernel"}):
    try:
        ModelConfig.from_dict({**sizes, **values})
    except RecipeError as error:
        found.setdefault("refused", []).append(error.expected)
found["learned"] = [count_parameters(ramp).total, count_parameters(none).total]
found["more operations"] = own_cost(ramp, 5).forward - own_cost(none, 5).forward
model = build_transformer(ramp, seed=0)
ids, seen = torch.tensor([[3, 4, 5]]), []
model.decoder[0].register_forward_pre_hook(lambda _block, given: seen.append(given[0]))
model(ids)
added = seen[0][0] - model.tokens.weight[ids[0]]
found["added"] = [round(x, 6) for x in added.mean(dim=1).tolist()]
retentions = [
    ModelConfig.from_dict({**sizes, "mixer": "retention", "position": name}) for name in ("rotary", "turned")
]
batch = BatchShape(n_sequences=1, n_tokens=9, n_scored=9)
found["kept"] = [activation_bytes(config, batch) for config in retentions]
found["slopes"] = build_transformer(steep, seed=0).slopes.tolist()

sets = ("model.position=ramp", "model.d_model=16", "training.n_steps=2", "training.batch_size=2")
few = ("training.evaluate_every=2", "training.evaluation_batches=1", "data.n_examples=50")
words = [word for change in (*sets, *few) for word in ("--set", change)]
found["trained"] = main(["--device", "cpu", "train", "copy", "--out", run, *words])
found["shown"] = main(["info", run, "--device", "cpu"])
opened = attnscope.load(run)
own, page = position_tables(["model", "ramp"], 6, opened.own.config.d_model, opened)
found["own"] = bool((own.matrix == page.matrix).all())
found["note"] = own.note
attnscope.positions_figure(opened, ["ramp", "model"], n_positions=6).save(run + "/ramp.svg")
found["page"] = [SCHEMES, TITLES["ramp"]]
lab = read_longer(LongerChoice())
found["lab"] = list(lab.losses)
found["curves"] = [series.name for chart in longer_charts(lab) for series in chart.series]
main(["figure", run, "--view", "positions", "--encodings", "ramps", "-o", run + "/ramps.svg"])
(recipes,) = (page for page in read_help(resources_folder() / "help") if page.name == "recipes")
found["help"] = [line for line in recipes.text.splitlines() if "`ramp`" in line]
print()
print(json.dumps(found))
"""


def test_that_one_more_file_is_one_more_position_scheme(tmp_path: Path) -> None:
    folder, run = tmp_path / "schemes", tmp_path / "run"
    folder.mkdir()
    (folder / "ramp.py").write_text(ADDED, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-c", USED, str(folder), str(run)],
        cwd=CHECKOUT, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    told, found = done.stdout.split(), json.loads(done.stdout.splitlines()[-1])
    unknown, beside_kernel = found["refused"]
    assert unknown.endswith(", ".join([*POSITIONS, "ramp", "steep", "turned"]))
    assert beside_kernel == "another position beside the score kernel"
    with_ramp, without = found["learned"]
    assert with_ramp == without
    assert found["more operations"] == 5 * 2 * 8 * 3
    assert found["added"] == [0.0, 0.01, 0.02]
    assert found["slopes"] == [2.0, 2.0]
    of_rotary, of_turned = found["kept"]
    assert of_turned == of_rotary
    schemes, title = found["page"]
    assert f"some of {', '.join(schemes)}." in done.stderr
    assert (found["trained"], found["shown"]) == (0, 0)
    assert told[told.index("position") + 1] == "ramp"
    assert told[told.index("rope_base") + 1] == "10000.0"
    assert "max_distance" not in told
    assert found["own"]
    assert found["note"] == "Ramp."
    assert "ramp" in (run / "ramp.svg").read_text(encoding="utf-8").lower()
    assert schemes == [*(one.name for one in POSITIONS.values() if one.page_title), "ramp", "model"]
    assert title == "Ramp"
    assert found["lab"] == [*(one.name for one in POSITIONS.values() if one.is_compared), "ramp"]
    assert "ramp" in found["curves"]
    (line,) = found["help"]
    assert line.endswith("is added to all dimensions (this test), `rope_base`")
