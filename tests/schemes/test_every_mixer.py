"""Every mixer that is not attention: against loops in float64, and what holds of all.

What is checked of every one needs no line for a new one but its slow version, in `SLOW`.
"""

import json
import math
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from slow_site import filled
from tiny_models import SENTENCE, tiny_model

import attnscope as at
from attnscope.analysis import ask_model
from attnscope.cli.main import main
from attnscope.errors import RecipeError, UserError
from attnscope.fields import with_values
from attnscope.models import BatchShape, activation_bytes, own_cost
from attnscope.nn import (
    KeyValueCache,
    ModelConfig,
    build_own,
    build_rule,
    build_transformer,
    count_parameters,
    recur,
)
from attnscope.questions import QUESTIONS
from attnscope.schemes.mixers import MIXERS
from attnscope.training import Batch, loss_sum
from attnscope.viewmodels import read_help

HELP = Path(__file__).parents[2] / "resources" / "help"
OTHERS = [name for name, mixer in MIXERS.items() if not mixer.is_attention]
SIZES = {
    "form": "decoder", "vocab_size": 13, "d_model": 12, "n_layers": 2, "n_heads": 3, "d_head": 6, "d_ff": 10,
    "max_tokens": 24, "position": "none", "kernel_width": 3,
}  # fmt: skip
each = pytest.mark.parametrize("name", OTHERS)


def config_of(name: str, **choices: object) -> ModelConfig:
    return ModelConfig.from_dict({**SIZES, "mixer": name, **choices})


def seen(model, ids):
    """What the last layer's mixer reads, gives, and was told of positions: of the first text, in float64."""
    given = []
    module = model.decoder[-1].attention
    handle = module.register_forward_hook(
        lambda _, inputs, named, out: given.append((inputs[0], named.get("rotary"), out)), with_kwargs=True
    )
    with torch.no_grad():
        model.decode(ids)
    handle.remove()
    x, rotary, out = given[0]
    return module, x, rotary, out


def product(linear, x):
    rows = zip(linear.weight.tolist(), linear.bias.tolist(), strict=True)
    return [sum(w * one for w, one in zip(row, x, strict=True)) + b for row, b in rows]


def swish(u):
    return u / (1.0 + math.exp(-u))


def rotated(row, angles):
    """Pairs (n, n + D / 2) turned by their angles."""
    half, out = len(row) // 2, list(row)
    for n, angle in enumerate(angles):
        a, b = row[n], row[n + half]
        out[n] = a * math.cos(angle) - b * math.sin(angle)
        out[n + half] = a * math.sin(angle) + b * math.cos(angle)
    return out


def slow_recurrence(module, x, config, *, near, steps, own):
    """A state written and read token by token: out [T, d_model]; and w [H, T, T] from its definition."""
    n_heads, width, n_tokens = config.n_heads, config.head_width, len(x)
    rows = near([product(module.qkv, one) for one in x])
    outs, weights = [[] for _ in x], np.zeros((n_heads, n_tokens, n_tokens))
    for head in range(n_heads):
        state, read = np.zeros((width, width)), []
        for i, row in enumerate(rows):
            first = (head * width, (n_heads + head) * width, (2 * n_heads + head) * width)
            q, k, v = (row[at : at + width] for at in first)
            if config.position == "rotary":
                angles = [i * config.rope_base ** (-2 * n / width) for n in range(width // 2)]
                q, k = rotated(q, angles), rotated(k, angles)
            a, b = steps(head, x[i])
            state = math.exp(a) * state + b * np.outer(k, v)
            out = np.array(q) @ state + own(head) * np.array(v)
            outs[i] += list(out / math.sqrt(sum(out**2) / width + config.norm_epsilon))
            read.append((k, a, b))
            for j, (key, _, written) in enumerate(read):
                faded = math.exp(sum(one[1] for one in read[j + 1 :]))
                weights[head, i, j] = np.dot(q, key) * written * faded
            weights[head, i, i] += own(head)
    gates = [[swish(one) for one in product(module.gate, row)] for row in x]
    joined = [[a * b for a, b in zip(*pair, strict=True)] for pair in zip(outs, gates, strict=True)]
    return np.array([product(module.output, row) for row in joined]), weights


def slow_retention(module, x, config):
    def steps(head, _):
        return math.log(1.0 - 2.0 ** (-5 - head)), 1.0 / math.sqrt(config.head_width)

    return slow_recurrence(module, x, config, near=lambda rows: rows, steps=steps, own=lambda head: 0.0)


def slow_selective(module, x, config):
    width, kernel = config.kernel_width, module.near.weight.tolist()

    def near(rows):
        found = []
        for i in range(len(rows)):
            sums = module.near.bias.tolist()
            for c in range(len(sums)):
                for back in range(min(width, i + 1)):
                    sums[c] += kernel[c][0][width - 1 - back] * rows[i - back][c]
            found.append([swish(one) for one in sums])
        return found

    def steps(head, row):
        step = math.log1p(math.exp(product(module.step, row)[head]))
        return -math.exp(module.log_rate.tolist()[head]) * step, step

    return slow_recurrence(
        module, x, config, near=near, steps=steps, own=lambda head: module.own.tolist()[head]
    )


def slow_convolution(module, x, config):
    n_heads, width, n_tokens = config.n_heads, config.head_width, len(x)
    rows, half = [product(module.values, one) for one in x], n_heads * width
    values = [[row[c] / (1.0 + math.exp(-row[half + c])) for c in range(half)] for row in rows]
    weights = np.zeros((n_heads, n_tokens, n_tokens))
    for head, learned in enumerate(module.kernel.tolist()):
        raised = [math.exp(one) for one in learned]
        for i in range(n_tokens):
            for n, one in enumerate(raised):
                j = i - n * config.dilation ** (config.n_layers - 1)
                if j >= 0:
                    weights[head, i, j] = one / sum(raised)
    outs = [
        [sum(weights[c // width, i, j] * values[j][c] for j in range(n_tokens)) for c in range(half)]
        for i in range(n_tokens)
    ]
    return np.array([product(module.output, row) for row in outs]), weights


SLOW = {"retention": slow_retention, "selective": slow_selective, "convolution": slow_convolution}


@pytest.mark.parametrize("position", ["none", "rotary"])
@each
def test_that_its_layer_and_its_unrolled_map_are_those_of_the_equations(name: str, position: str) -> None:
    if position == "rotary" and not MIXERS[name].reads_turns:
        pytest.skip("has no queries to turn")
    config = config_of(name, position=position)
    model = filled(config)
    module, x, rotary, out = seen(model, torch.arange(11)[None] * 5 % 13)
    expected, weights = SLOW[name](module, x[0].double().tolist(), config)
    np.testing.assert_allclose(out[0].double().numpy(), expected, atol=1e-4)
    with torch.no_grad():
        found, softmax = module.unrolled(x, rotary=rotary)
    np.testing.assert_allclose(found[0].numpy(), weights, atol=1e-5)
    assert (np.triu(found[0].numpy(), 1) == 0).all()
    if softmax is not None:
        np.testing.assert_allclose(softmax.sum(dim=-1).numpy(), 1.0, atol=1e-5)


@pytest.mark.parametrize(("n_tokens", "chunk"), [(1, 4), (3, 4), (4, 4), (9, 4), (9, 1), (7, 64)])
def test_that_chunks_give_what_the_state_gives_token_by_token(n_tokens: int, chunk: int) -> None:
    draw = torch.Generator().manual_seed(n_tokens)
    q, k, v = torch.randn(3, 2, 3, n_tokens, 5, dtype=torch.float64, generator=draw)
    a = -torch.rand(2, 3, n_tokens, dtype=torch.float64, generator=draw) * 3
    expected = torch.zeros_like(v)
    for text in range(2):
        for head in range(3):
            state = torch.zeros(5, 5, dtype=torch.float64)
            for i in range(n_tokens):
                state = a[text, head, i].exp() * state + torch.outer(k[text, head, i], v[text, head, i])
                expected[text, head, i] = q[text, head, i] @ state
    torch.testing.assert_close(recur(q, k, v, a, chunk=chunk), expected, atol=1e-12, rtol=0)


def test_that_the_recurrence_has_its_gradient() -> None:
    draw = torch.Generator().manual_seed(0)
    given = [torch.randn(1, 2, 5, 3, dtype=torch.float64, generator=draw, requires_grad=True) for _ in "qkv"]
    a = (-torch.rand(1, 2, 5, dtype=torch.float64, generator=draw)).requires_grad_()
    assert torch.autograd.gradcheck(lambda *parts: recur(*parts, chunk=2), (*given, a))


@each
def test_that_a_layer_has_its_gradient(name: str) -> None:
    config = config_of(name, n_layers=1, d_model=4, n_heads=2, d_head=2)
    module = filled(config).double().decoder[0].attention
    x = torch.randn(1, 4, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    rule = build_rule(is_causal=True, key_valid=None)
    assert torch.autograd.gradcheck(lambda x: module(x, rule=rule), (x.requires_grad_(),))


@each
@torch.no_grad()
def test_that_later_tokens_and_padding_on_either_side_change_nothing(name: str) -> None:
    model = build_transformer(config_of(name), seed=0).eval()
    ids = torch.arange(12)[None] % 13
    later = ids.clone()
    later[0, 8:] = 5
    whole = model.decode(ids)
    torch.testing.assert_close(model.decode(later)[:, :8], whole[:, :8], atol=1e-6, rtol=0)
    assert (model.decode(later)[:, 8:] - whole[:, 8:]).abs().max() > 1e-4
    for before, after in ((0, 3), (4, 0)):
        padded = F.pad(ids, (before, after))
        valid = F.pad(torch.ones_like(ids, dtype=torch.bool), (before, after))
        found = model.decode(padded, valid=valid)[:, before : before + 12]
        torch.testing.assert_close(found, whole, atol=1e-5, rtol=0)


@each
@pytest.mark.parametrize("has_bias", [True, False])
def test_that_the_count_on_paper_is_that_of_the_built_model_and_every_number_learns(
    name: str, has_bias: bool
) -> None:
    config = config_of(name, bias=has_bias)
    model = build_transformer(config, seed=1)
    assert count_parameters(config).total == sum(p.numel() for p in model.parameters())
    for other in model.parameters():
        other.data += 0.02 * torch.sin(torch.arange(other.numel()).reshape(other.shape) * 0.7)
    model(torch.arange(2 * 9).reshape(2, 9) % 13).square().sum().backward()
    assert not [name for name, p in model.named_parameters() if p.grad is None or not p.grad.any()]
    assert own_cost(config, 18).forward == pytest.approx(2 * own_cost(config, 9).forward)
    assert not model.sites()


@each
def test_that_what_training_keeps_is_told_to_a_fifth(name: str) -> None:
    n, n_texts, vocabulary = 80, 3, 300
    config = config_of(
        name, vocab_size=vocabulary, d_model=48, n_heads=4, d_head=12, d_ff=96, max_tokens=n, kernel_width=4
    )
    module, ids = build_own(config, 0).train(), torch.arange(n_texts * n).reshape(n_texts, n) % vocabulary
    batch = Batch(
        ids=ids, scored=torch.arange(n_texts * n), labels=torch.zeros(n_texts * n, dtype=torch.int64)
    )
    own = {p.untyped_storage().data_ptr() for p in [*module.parameters(), *module.buffers()]}
    kept: dict[int, torch.Tensor] = {}

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        kept[tensor.untyped_storage().data_ptr()] = tensor
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        assert loss_sum(module, batch).isfinite()
    found = sum(t.untyped_storage().nbytes() for address, t in kept.items() if address not in own)
    told = activation_bytes(config, BatchShape(n_sequences=n_texts, n_tokens=n, n_scored=n_texts * n))
    assert told == pytest.approx(found - 4 * n_texts * n * vocabulary, rel=0.2)


@each
@pytest.mark.parametrize("has_bfloat16", [False, True], ids=["float32", "bfloat16"])
def test_that_a_few_steps_of_training_learn_a_batch(name: str, has_bfloat16: bool) -> None:
    model = build_transformer(config_of(name, n_layers=1), seed=0)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    text, losses = torch.randint(0, 13, (4, 12), generator=torch.Generator().manual_seed(1)), []
    for _ in range(12):
        with torch.autocast("cpu", torch.bfloat16, enabled=has_bfloat16):
            logits = model(text[:, :-1])
        loss = F.cross_entropy(logits.float().flatten(0, 1), text[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    assert np.isfinite(losses).all()
    assert losses[-1] < 0.9 * losses[0]


@each
def test_that_it_is_the_same_after_it_was_saved_and_writes_on(name: str, tmp_path: Path) -> None:
    model = tiny_model("decoder", mixer=name, n_kv_heads=None, position="none")
    model.save(tmp_path / "m")
    again = at.load(tmp_path / "m", device="cpu")
    assert again.own.config == model.own.config
    np.testing.assert_array_equal(again.trace(SENTENCE).logits, model.trace(SENTENCE).logits)
    assert again.generate(SENTENCE, max_tokens=3) == model.generate(SENTENCE, max_tokens=3)


@each
def test_that_what_does_not_go_with_it_is_refused(name: str) -> None:
    for choices in (
        {"form": "encoder"},
        {"form": "encoder-decoder"},
        {"mask": "window"},
        {"score": "cosine"},
        {"position": "alibi"},
        {"n_kv_heads": 1},
        {"attention_dropout": 0.1},
    ):
        with pytest.raises(RecipeError):
            config_of(name, **choices)


@each
def test_that_the_help_lists_it(name: str) -> None:
    (recipes,) = (page for page in read_help(HELP) if page.name == "recipes")
    mixer = MIXERS[name]
    (line,) = (line for line in recipes.text.splitlines() if line.startswith(f"- `{name}`: {mixer.words}"))
    assert mixer.source in line
    assert all(f"`{choice}`" in line for choice in mixer.choices)


@each
def test_that_the_question_shows_the_weights_of_a_layer(name: str, tmp_path: Path, capsys) -> None:
    model = tiny_model("decoder", mixer=name, n_kv_heads=None, position="none")
    question = QUESTIONS["hidden-attention"]
    answer = ask_model(
        question,
        model,
        SENTENCE,
        options=with_values(question.options, {"layer": 1, "mapped_head": 2, "n_shown": 128}),
    )
    ids = torch.tensor([list(model.encode(SENTENCE).source.ids)])
    module, x, rotary, _ = seen(model.own.module, ids)
    with torch.no_grad():
        weights = module.unrolled(x, rotary=rotary)[0][0].double().numpy()
    np.testing.assert_allclose(answer.cells[0].values, weights[2], atol=1e-6)
    assert len(answer.tables[0].rows) == 2 * 4
    assert len(answer.cells) == len(answer.charts) == (2 if name == "convolution" else 3)
    row = answer.tables[0].rows[4 + 2]
    sums = [
        sum(abs(weights[2, i, i - back]) for i in range(back, len(ids[0]))) for back in range(len(ids[0]))
    ]
    np.testing.assert_allclose(answer.charts[0].series[2].ys, np.array(sums) / sum(sums), atol=1e-6)
    assert row[1] == next(n for n in range(len(sums)) if sum(sums[: n + 1]) >= 0.9 * sum(sums))
    assert row[4] == pytest.approx(sum(-w for w in weights[2].flat if w < 0) / sum(sums), abs=1e-6)
    model.save(tmp_path / "m")
    asked = ["ask", "hidden-attention", str(tmp_path / "m"), "--text", SENTENCE, "--json"]
    assert main(asked) == 0
    assert json.loads(capsys.readouterr().out)["sentence"] == ask_model(question, model, SENTENCE).sentence


def test_that_shares_by_distance_and_below_0_are_those_counted_by_hand() -> None:
    weights = np.array([[1.0, 0.0, 0.0], [-3.0, 2.0, 0.0], [4.0, 0.0, 0.0]])
    mixing = SimpleNamespace(
        tokens=(), mixer="convolution", formula="", weights=(weights[None],), softmax=(None,)
    )
    question = QUESTIONS["hidden-attention"]
    answer = question.answer(SimpleNamespace(mixing=lambda: mixing), question.options)
    assert answer.charts[0].series[0].ys.tolist() == [0.3, 0.3, 0.4]
    ((head, within, _, n_read, below),) = answer.tables[0].rows
    assert (head, within, n_read, below) == ("L0H0", 2, 1, 0.3)


@pytest.mark.parametrize(("width", "dilation", "n_layers"), [(2, 2, 4), (3, 3, 2), (2, 3, 3)])
def test_that_layers_until_reached_are_those_found_step_by_step(
    width: int, dilation: int, n_layers: int
) -> None:
    choices = {"kernel_width": width, "dilation": dilation, "n_layers": n_layers, "n_kv_heads": None}
    model = tiny_model("decoder", mixer="convolution", position="none", **choices)
    question = QUESTIONS["hidden-attention"]
    options = with_values(question.options, {"n_shown": 128})
    answer = ask_model(question, model, SENTENCE, options=options)
    n = len(answer.cells[-1].values)
    for i in range(n):
        found = {
            j: layer for layer in range(n_layers, 0, -1) for j in (_known(i, layer, width, dilation) | {i})
        }
        expected = [found.get(j, np.nan) for j in range(n)]
        np.testing.assert_array_equal(answer.cells[-1].values[i], expected)
    field = answer.charts[-1].series[0].ys
    assert list(field) == [len(_known(n - 1, layers, width, dilation)) for layers in range(n_layers + 1)]
    assert answer.charts[-1].series[1].ys[-1] == n


def _known(i: int, n_layers: int, width: int, dilation: int) -> set[int]:
    """The tokens that token i knows of after so many layers."""
    if n_layers == 0:
        return {i}
    before = [i - k * dilation ** (n_layers - 1) for k in range(width)]
    return {j for at in before if at >= 0 for j in _known(at, n_layers - 1, width, dilation)}


def test_that_a_model_with_attention_is_told_where_its_maps_are() -> None:
    with pytest.raises(UserError, match="by attention, whose weights are its maps"):
        ask_model(QUESTIONS["hidden-attention"], tiny_model("decoder"), SENTENCE)


@pytest.mark.parametrize(("width", "dilation", "n_layers"), [(2, 2, 4), (3, 3, 3), (4, 2, 2)])
@torch.no_grad()
def test_that_convolutions_reach_as_far_as_their_dilations_add_up_to(
    width: int, dilation: int, n_layers: int
) -> None:
    n = 1 + sum((width - 1) * dilation**layer for layer in range(n_layers))
    choices = {"kernel_width": width, "dilation": dilation, "n_layers": n_layers, "max_tokens": n + 2}
    model = filled(config_of("convolution", **choices))
    ids = torch.arange(n + 2)[None] % 13
    last = model.decode(ids)[0, -1]
    for place, is_read in ((0, False), (1, False), (2, True)):
        other = ids.clone()
        other[0, place] = 12
        assert bool((model.decode(other)[0, -1] != last).any()) is is_read


@each
def test_that_what_follows_attention_says_that_there_is_none(name: str, tmp_path: Path, capsys) -> None:
    model = tiny_model("decoder", mixer=name, n_kv_heads=None, position="none")
    model.save(tmp_path / "m")
    texts = ["--clean", SENTENCE, "--corrupt", SENTENCE.replace("cat", "dog")]
    for command in ("rollout", "flow", "relevance", "attribute"):
        assert main([command, str(tmp_path / "m"), "--text", SENTENCE]) == 2, command
        assert "has no attention" in capsys.readouterr().err, command
    for command in ("lens", "predict", "measure"):
        assert main([command, str(tmp_path / "m"), "--text", SENTENCE]) == 0, command
    assert main(["patch", str(tmp_path / "m"), *texts]) == 0
    assert main(["patch", str(tmp_path / "m"), *texts, "--kind", "head"]) == 2
    assert ask_model(QUESTIONS["residual-stream"], model, SENTENCE).tables


@each
@pytest.mark.parametrize("position", ["none", "learned", "rotary"])
@pytest.mark.parametrize("cuts", [[1] * 21, [4, 1, 1, 5, 1, 9], [20, 1], [21]], ids=str)
@torch.no_grad()
def test_that_a_text_read_in_parts_is_a_text_read_at_once(name: str, position: str, cuts: list[int]) -> None:
    """By what is carried on, which a longer text does not make larger; sequences may be chosen anew."""
    if position == "rotary" and not MIXERS[name].reads_turns:
        position = "sinusoidal"
    for width in (2, 5):
        model = filled(config_of(name, position=position, kernel_width=width)).double()
        ids, cache = torch.arange(2 * 21).reshape(2, 21) * 5 % 13, KeyValueCache()
        assert model.can_cache
        parts = [model.decode(part, cache=cache) for part in ids.split(cuts, dim=1)]
        torch.testing.assert_close(torch.cat(parts, dim=1), model.decode(ids), atol=1e-6, rtol=0)
        assert cache.n_tokens == 21
        n_bytes, chosen, more = cache.n_bytes, [1, 1], torch.tensor([[3], [4]])
        assert n_bytes > 0
        cache.select(torch.tensor(chosen))
        expected = model.decode(torch.cat((ids[chosen], more), dim=1))[:, -1:]
        torch.testing.assert_close(model.decode(more, cache=cache), expected, atol=1e-6, rtol=0)
        assert cache.n_bytes == n_bytes


@each
def test_that_what_is_written_by_the_state_is_what_reading_again_writes(name: str) -> None:
    model = tiny_model("decoder", mixer=name, n_kv_heads=None)
    network = model.own
    inputs = network.encode(SENTENCE)
    ids, n_read = list(inputs.source.ids), len(inputs.source.ids)
    writer = network.writer()
    assert type(writer).__name__ == "OwnWriter"
    with torch.no_grad():
        for _ in range(5):
            ids.append(int(network.module(torch.tensor([ids]))[0, -1].argmax()))
    assert list(network.write(inputs, n_tokens=5))[: len(ids) - n_read] == ids[n_read:]
