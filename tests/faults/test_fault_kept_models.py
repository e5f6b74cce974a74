"""Models that come along, changed by strangers: those of the library in odd sizes, differences from a base.

Each gives a value or one error that a person can act on, in the patience of a person.
"""

import json
import random
import shutil
from pathlib import Path
from typing import Any

import hostile
import pytest
from test_fault_hostile import SEED, TIMES, patience, try_all

from attnscope import measure
from attnscope.errors import LoadError, UserError
from attnscope.models import load
from attnscope.paths import resources_folder

pytestmark = pytest.mark.slow

KEYS = {
    "bigbird": ("block_size", "num_random_blocks", "attention_type", "attnscope", "max_position_embeddings"),
    "longformer": ("attention_window", "attnscope", "max_position_embeddings", "pad_token_id"),
    "led": ("attention_window", "attnscope", "max_encoder_position_embeddings", "decoder_start_token_id"),
    "reformer": (
        "num_buckets", "axial_pos_shape", "axial_pos_embds_dim", "attn_layers", "lsh_attn_chunk_length",
        "local_attn_chunk_length", "num_hashes", "lsh_num_chunks_before", "local_num_chunks_after",
        "is_decoder",
    ),
    "funnel": ("block_sizes", "block_repeats", "truncate_seq", "separate_cls", "pool_q_only", "pooling_type"),
}  # fmt: skip
VALUES: tuple[Any, ...] = (
    *(0, 1, 2, 3, 5, 7, 16, 33, 64, 1000, -1, 2**31, 2**63, 1.5, None, True, False, "", "x", 1e300),
    *([], [0], [1], [3], [-1], ["a"], [2, 2], [8, 8], [4, 16], [1, 64], [2, 2, 2], [None], {}),
    *({"global_tokens": 3}, {"global_tokens": 10**9}, {"random_blocks": True}, {"random_blocks": "x"}),
    *("block_sparse", "original_full", "mean", "max", ["lsh"], ["local", "lsh"], ["lsh", "x"]),
)
TEXTS = ("a", "", ". ", "a " * 5, "w " * 63, "w " * 65, "x" * 300, "\u202e\0", "b a " * 16)


def changed(name: str, place: Path, changes: dict[str, Any]) -> Path:
    """A copy of a model that comes along, with other values in its configuration."""
    folder = Path(shutil.copytree(resources_folder() / "models" / name, place))
    (folder / "manifest.json").unlink(missing_ok=True)
    path = folder / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text(encoding="utf-8")), **changes}), encoding="utf-8")
    return folder


@pytest.mark.parametrize("name", KEYS)
def test_that_odd_sizes_of_library_models_are_refused_or_shown(name: str, tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    draw, refused = random.Random(f"{SEED} {name}"), []
    for number in range(8 * TIMES):
        changes = {key: draw.choice(VALUES) for key in draw.sample(KEYS[name], draw.choice((1, 1, 2)))}
        folder, text = changed(name, tmp_path / str(number), changes), draw.choice(TEXTS)
        with patience():
            try:
                model = load(folder, "cpu")
                measure(model.trace(text))
                model.predict(text)
            except UserError as error:
                refused.append(error)
    assert not [error for error in refused if not error.action]


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("reformer", {"num_hashes": 100_000}),
        ("reformer", {"lsh_num_chunks_before": 100_000}),
        ("reformer", {"local_num_chunks_before": 2**31}),
        ("funnel", {"block_repeats": [10**6, 1, 1]}),
        ("funnel", {"block_sizes": [10**6, 1, 1]}),
    ],
)
def test_that_what_would_take_hours_is_refused_at_once(
    name: str, changes: dict[str, Any], tmp_path: Path
) -> None:
    pytest.importorskip("transformers")
    with pytest.raises(LoadError, match="Expected: at most 1024"):
        load(changed(name, tmp_path / "m", changes), "cpu")


@pytest.mark.parametrize("run", ["agreement-lora", "agreement-prompt"])
def test_that_hostile_differences_from_a_base_are_refused_or_opened(run: str, tmp_path: Path) -> None:
    (own,) = (resources_folder() / "films" / run / "checkpoints").iterdir()
    folder = Path(shutil.copytree(own, tmp_path / "m"))

    def look(path: Path) -> object:
        return load(path.parent, "cpu").predict("The dog")

    config, weights = folder / "config.json", folder / "model.safetensors"
    whole, tensors = config.read_bytes(), weights.read_bytes()
    try_all(look, config, hostile.of_json(json.loads(whole), 12 * TIMES, SEED))
    config.write_bytes(whole)
    try_all(look, weights, hostile.of_safetensors(tensors, 12 * TIMES, SEED))
