"""Going on from a trained model: what is taken over, what begins anew, and what learns."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from attnscope.cli.main import main
from attnscope.errors import LoadError, RecipeError, UserError
from attnscope.models import ModelCard, load, read_model_folder, write_model_folder
from attnscope.nn import ModelConfig, build_own
from attnscope.records import Started, Step
from attnscope.training import (
    OptimizerPart,
    StartPart,
    TrainingRun,
    adapt,
    build_optimizer,
    learned_parameters,
    parse_recipe,
    plan_recipe,
    rate_share,
    read_recipe,
    recipe_on_paper,
    set_learning_rate,
    train,
    write_recipe,
)

pytestmark = pytest.mark.slow

TWO_LAYERS = {"model.n_layers": "2", "training.n_steps": "2"}


@pytest.fixture
def trained(tiny_recipe: str, tmp_path: Path) -> Path:
    """A run of two layers."""
    list(train(tiny_recipe, tmp_path / "first", "cpu", TWO_LAYERS))
    return tmp_path / "first"


def _state(run: Path, step: int) -> dict[str, torch.Tensor]:
    return read_model_folder(run / "checkpoints" / str(step)).module.state_dict()


def _changed(a: dict[str, torch.Tensor], b: dict[str, torch.Tensor]) -> set[str]:
    return {name for name in a if not torch.equal(a[name], b[name])}


def _plain(recipe: str) -> str:
    """The recipe without its model section: the start's is taken."""
    return recipe[recipe.index("[tokenizer]") :]


def test_that_everything_but_the_top_layers_is_taken_over(
    tiny_recipe: str, tmp_path: Path, trained: Path
) -> None:
    start = {"start.from": str(trained), "training.n_steps": "1", "training.seed": "8"}
    list(train(_plain(tiny_recipe), tmp_path / "all", "cpu", start))
    assert _changed(_state(trained, 2), _state(tmp_path / "all", 0)) == set()
    list(train(_plain(tiny_recipe), tmp_path / "top", "cpu", {**start, "start.reinit_layers": "1"}))
    anew = _changed(_state(trained, 2), _state(tmp_path / "top", 0))
    assert {name.split(".")[1] for name in anew} == {"1"}
    fresh = build_own(load(trained, device="cpu").own.config, 8).state_dict()
    assert all(torch.equal(fresh[name], _state(tmp_path / "top", 0)[name]) for name in anew)
    other = {**start, "start.reinit_layers": "1", "training.seed": "9"}
    list(train(_plain(tiny_recipe), tmp_path / "other", "cpu", other))
    assert _changed(_state(tmp_path / "top", 0), _state(tmp_path / "other", 0)) >= {
        "decoder.1.attention.qkv.weight"
    }


def test_that_a_start_named_for_a_built_in_recipe_keeps_its_own_shape(trained: Path, tmp_path: Path) -> None:
    """The recipe was made for new models; what is given along with the start still counts, and is refused."""
    text = tmp_path / "text.txt"
    text.write_text("to be or not to be\n" * 60, encoding="utf-8")
    given = {"start.from": str(trained), "data.path": str(text)}
    recipe = read_recipe("shakespeare", given)
    theirs = load(trained, device="cpu").own.config
    assert recipe.model.d_model == theirs.d_model == 16
    assert (recipe.model.position, recipe.model.n_layers) == (theirs.position, 2)
    *_, last = train("shakespeare", tmp_path / "on", "cpu", {**given, "training.n_steps": "1"})
    assert last.reason == "done"
    dropped = read_recipe("stories", given).model
    assert (dropped.dropout, theirs.dropout) == (0.05, 0.0), "no weight depends on it"
    with pytest.raises(RecipeError, match="d_ff is 32 there and 64 in the recipe"):
        TrainingRun(read_recipe("shakespeare", {**given, "model.d_ff": "64"}), tmp_path / "no", "cpu")
    written = write_recipe(read_recipe("shakespeare", {"data.path": str(text)}))
    own = written.replace('from = ""', f'from = "{trained.as_posix()}"')
    with pytest.raises(RecipeError, match="d_model is 16 there and 128 in the recipe"):
        TrainingRun(parse_recipe(own), tmp_path / "no", "cpu")


def test_that_a_model_of_another_shape_is_refused_by_name(tiny_recipe: str, trained: Path) -> None:
    for change, found in (
        ({"model.d_ff": "64"}, "d_ff is 32 there and 64 in the recipe"),
        ({"model.n_heads": "1"}, "n_heads is 2 there and 1 in the recipe"),
    ):
        recipe = parse_recipe(tiny_recipe, overrides={**TWO_LAYERS, "start.from": str(trained), **change})
        with pytest.raises(RecipeError, match=found):
            TrainingRun(recipe, trained.parent / "no", "cpu")
    assert not (trained.parent / "no" / "recipe.toml").exists()


def test_that_a_decoder_goes_on_as_an_encoder_that_sees_both_sides(tiny_recipe: str, tmp_path: Path) -> None:
    changes = {"objective.kind": "masked", "model.position": "learned"}
    rotary = tmp_path / "rotary"
    list(train(tiny_recipe, rotary, "cpu", {**TWO_LAYERS, "model.position": "rotary"}))
    list(train(_plain(tiny_recipe), tmp_path / "both", "cpu", {**changes, "start.from": str(rotary)}))
    before, after = _state(rotary, 2), _state(tmp_path / "both", 0)
    taken = {name.replace("decoder", "encoder"): weight for name, weight in before.items()}
    assert {name for name in after if name not in taken} == {"encoder_embedding.positions.weight"}
    assert all(torch.equal(after[name], weight) for name, weight in taken.items())
    positions, tokens = after["encoder_embedding.positions.weight"], after["tokens.weight"]
    torch.testing.assert_close(positions.std(), tokens.std())  # as large as the tokens they are added to
    model = load(tmp_path / "both" / "checkpoints" / "0", device="cpu")
    assert model.own.config.form == "encoder"


def test_that_segments_are_given_up_only_where_learned_positions_can_take_them_in(
    tiny_recipe: str, tmp_path: Path, trained: Path
) -> None:
    tokenizer = load(trained, device="cpu").own.vocabulary
    for position in ("learned", "sinusoidal"):
        config = ModelConfig(form="encoder", vocab_size=tokenizer.vocab_size, d_model=16, n_heads=2, d_ff=32,
                             n_layers=1, max_tokens=16, n_segments=2, position=position)  # fmt: skip
        card = ModelCard(name="two texts", objective="masked")
        write_model_folder(tmp_path / position, build_own(config, 0), config, tokenizer, card)
        choices = {
            "start.from": str(tmp_path / position),
            "objective.kind": "masked",
            "model.n_segments": "0",
        }
        recipe = parse_recipe(_plain(tiny_recipe), overrides=choices)
        if position == "learned":
            assert recipe_on_paper(recipe).model.n_segments == 0
        else:
            with pytest.raises(RecipeError, match="n_segments is 2 there and 0 in the recipe"):
                recipe_on_paper(recipe)


@pytest.mark.parametrize(
    ("changes", "found"),
    [
        ({"start.from": "hf:none/such"}, "is not on this computer"),
        ({"start.lora_rank": "2"}, "start.lora_rank is 2"),
        ({"start.reinit_layers": "1"}, "start.reinit_layers is 1"),
        ({"start.from": "x", "start.reinit_layers": "1", "start.lora_rank": "1"}, "start.reinit_layers is 1"),
        ({"start.from": "x", "start.lora_rank": "17"}, "at most d_model, which is 16"),
        ({"start.layer_decay": "0"}, "start.layer_decay is 0"),
        ({"start.source": "x"}, "start.source is unknown"),
    ],
)
def test_that_impossible_starts_are_refused(
    tiny_recipe: str, tmp_path: Path, changes: dict[str, str], found: str
) -> None:
    with pytest.raises((RecipeError, LoadError)) as caught:
        TrainingRun(parse_recipe(tiny_recipe, overrides=changes), tmp_path / "run", "cpu")
    assert found in str(caught.value)


def test_that_each_layer_learns_at_its_own_rate() -> None:
    config = ModelConfig(form="encoder-decoder", vocab_size=20, d_model=8, n_heads=2, d_ff=8, n_layers=2,
                         n_decoder_layers=3, max_tokens=8)  # fmt: skip
    module = build_own(config, 0)
    by_hand = {
        "tokens": 0.5**3,
        "encoder_embedding": 0.5**2,
        "encoder.0": 0.5,
        "encoder.1": 1.0,
        "encoder_norm": 1.0,
        "decoder_embedding": 0.5**3,
        "decoder.0": 0.5**2,
        "decoder.1": 0.5,
        "decoder.2": 1.0,
        "decoder_norm": 1.0,
    }
    optimizer = build_optimizer(module, OptimizerPart(), layer_decay=0.5)
    set_learning_rate(optimizer, 0.1)
    rates = {p: group["lr"] for group in optimizer.param_groups for p in group["params"]}
    for name, parameter in module.named_parameters():
        parts = name.split(".")
        place = ".".join(parts[:2]) if parts[0] in ("encoder", "decoder") else parts[0]
        assert rates[parameter] == pytest.approx(0.1 * by_hand[place]), name
        assert rate_share(name, config, 1.0) == 1.0
    assert len(rates) == len(list(module.parameters()))


def test_that_adapters_merged_say_what_they_say_unmerged() -> None:
    config = ModelConfig(form="encoder-decoder", vocab_size=20, d_model=8, n_heads=2, d_ff=8, n_layers=1,
                         max_tokens=8, position="none")  # fmt: skip
    module = build_own(config, 0)
    before = {name: tensor.clone() for name, tensor in module.state_dict().items()}
    adapt(module, StartPart(source="x", lora_rank=2, lora_alpha=3.0), seed=5)
    module = module.double()
    ids = torch.tensor([[1, 2, 3]])
    unchanged = module(ids, target_ids=ids)
    learning = {name for name, p in module.named_parameters() if p.requires_grad}
    assert all(name.endswith((".a", ".b")) for name in learning)
    assert len(learning) == 2 * 7  # qkv and output of two self-attentions; query, kv and output across
    generator = torch.Generator().manual_seed(1)
    for name, parameter in module.named_parameters():
        if name in learning:
            with torch.no_grad():
                parameter.copy_(torch.randn(parameter.shape, generator=generator, dtype=torch.float64))
    merged = module.state_dict()
    assert merged.keys() == before.keys()
    low = module.encoder[0].attention.qkv.parametrizations.weight[0]
    by_hand = before["encoder.0.attention.qkv.weight"].double() + 3.0 / 2 * low.b @ low.a
    torch.testing.assert_close(merged["encoder.0.attention.qkv.weight"], by_hand)
    plain = build_own(config, 1).double()
    torch.testing.assert_close(unchanged, _filled(plain, before)(ids, target_ids=ids))
    said = module(ids, target_ids=ids)
    assert (said - unchanged).abs().max() > 0.01
    torch.testing.assert_close(said, _filled(plain, merged)(ids, target_ids=ids), rtol=1e-10, atol=1e-12)


def _filled(module: torch.nn.Module, state: dict[str, torch.Tensor]) -> torch.nn.Module:
    module.load_state_dict({name: tensor.double() for name, tensor in state.items()})
    return module


def test_that_only_adapters_learn_and_a_resume_gives_the_same_bits(
    tiny_recipe: str, tmp_path: Path, trained: Path
) -> None:
    low_rank = {"start.from": str(trained), "start.lora_rank": "2", "schedule.kind": "constant"}
    straight = list(train(_plain(tiny_recipe), tmp_path / "straight", "cpu", low_rank))
    assert "adapters are trained" in next(e for e in straight if isinstance(e, Started)).note
    changed = _changed(_state(trained, 2), _state(tmp_path / "straight", 6))
    assert {name.split(".", 2)[2] for name in changed} == {"attention.qkv.weight", "attention.output.weight"}
    list(train(_plain(tiny_recipe), tmp_path / "halves", "cpu", {**low_rank, "training.n_steps": "3"}))
    rest = list(train(_plain(tiny_recipe), tmp_path / "halves", "cpu", low_rank))
    losses = [e.loss for e in straight if isinstance(e, Step)]
    assert [e.loss for e in rest if isinstance(e, Step)] == losses[3:]
    assert _changed(_state(tmp_path / "straight", 6), _state(tmp_path / "halves", 6)) == set()


def test_that_the_window_sees_a_plain_model_while_adapters_learn(
    tiny_recipe: str, tmp_path: Path, trained: Path
) -> None:
    recipe = parse_recipe(_plain(tiny_recipe), overrides={"start.from": str(trained), "start.lora_rank": "1"})
    run = TrainingRun(recipe, tmp_path / "run", "cpu")
    list(run.events())
    gates = run.model.gates()
    gates["decoder", 0, 1] = 0.0
    smaller = run.model.prune(gates, text="Speak, speak.")
    assert smaller.sites[0].n_heads == 1
    saved = load(tmp_path / "run", device="cpu").trace("Speak, speak.").logits
    torch.testing.assert_close(run.model.trace("Speak, speak.").logits, saved)


def test_that_the_plan_refuses_the_starts_that_the_run_refuses(
    tiny_recipe: str, trained: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = trained.parent / "recipe.toml"
    path.write_text(tiny_recipe)
    for start in (str(trained.parent / "nothere"), "grammar"):
        assert main(["train", str(path), "--set", f"start.from={start}", "--plan"]) == 2
        planned = capsys.readouterr().err
        with pytest.raises(UserError) as refused:
            TrainingRun(
                parse_recipe(tiny_recipe, overrides={"start.from": start}), trained.parent / "x", "cpu"
            )
        assert str(refused.value).split(". ")[0] in planned


def test_that_a_plan_counts_what_low_rank_changes_learn(tiny_recipe: str, trained: Path) -> None:
    start = {"start.from": str(trained), "start.lora_rank": "2", "tokenizer.vocab_size": "900"}
    recipe = parse_recipe(_plain(tiny_recipe), overrides=start)
    run = TrainingRun(recipe, trained.parent / "low", "cpu")
    plan = plan_recipe(recipe_on_paper(recipe), torch.device("cpu"))
    n_tokens = run.model.own.config.vocab_size
    assert plan.n_learned == 2 * ((16 + 48) * 2 + (16 + 16) * 2)  # two layers, each with qkv and output
    assert dict(plan.parameters)["token embedding"] == 16 * n_tokens
    assert f"{n_tokens} pieces, is that of" in plan.notes[0]


def test_that_low_rank_changes_of_a_translator_are_counted_across_too(tiny_recipe: str) -> None:
    config = ModelConfig(form="encoder-decoder", vocab_size=20, d_model=8, n_heads=2, d_ff=8, n_layers=2,
                         n_decoder_layers=1, max_tokens=8)  # fmt: skip
    start = StartPart(source="x", lora_rank=3)
    module = build_own(config, 0)
    adapt(module, start, seed=5)
    n_learning = sum(p.numel() for p in module.parameters() if p.requires_grad)
    assert learned_parameters(replace(parse_recipe(tiny_recipe), model=config, start=start)) == n_learning


def test_that_a_model_says_what_it_goes_on_from(
    tiny_recipe: str, trained: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    start = {"start.from": str(trained), "start.lora_rank": "2", "training.n_steps": "1"}
    list(train(_plain(tiny_recipe), trained.parent / "low", "cpu", start))
    assert main(["info", str(trained.parent / "low"), "--device", "cpu"]) == 0
    assert "first, by low-rank changes of rank 2" in capsys.readouterr().out


def test_that_layers_put_on_top_change_nothing_before_they_learn(
    tiny_recipe: str, tmp_path: Path, trained: Path
) -> None:
    grown = {"start.from": str(trained), "model.n_layers": "4", "training.n_steps": "2"}
    events = list(train(_plain(tiny_recipe), tmp_path / "grown", "cpu", grown))
    assert any(isinstance(event, Started) and "with 2 layers more" in event.note for event in events)
    before = read_model_folder(trained / "checkpoints" / "2")
    after = read_model_folder(tmp_path / "grown" / "checkpoints" / "0")
    assert after.module.config.n_layers == 4
    ids = torch.arange(6)[None]
    with torch.no_grad():
        assert torch.equal(before.module(ids), after.module(ids))
    learned = _state(tmp_path / "grown", 2)
    for layer in (2, 3):
        assert learned[f"decoder.{layer}.attention.output.weight"].abs().sum() > 0


@pytest.mark.parametrize(
    ("trained_with", "grown_with"),
    [
        ({"model.norm_place": "post"}, {"model.n_layers": "3"}),
        ({}, {"model.n_layers": "1"}),
        ({"model.shared_layers": "true"}, {"model.n_layers": "3"}),
    ],
)
def test_that_layers_are_added_only_where_they_change_nothing(
    tiny_recipe: str, tmp_path: Path, trained_with: dict[str, str], grown_with: dict[str, str]
) -> None:
    list(train(tiny_recipe, tmp_path / "first", "cpu", {**TWO_LAYERS, **trained_with}))
    recipe = parse_recipe(
        _plain(tiny_recipe), overrides={"start.from": str(tmp_path / "first"), **grown_with}
    )
    with pytest.raises(RecipeError, match="n_layers is 2 there"):
        TrainingRun(recipe, tmp_path / "no", "cpu")
