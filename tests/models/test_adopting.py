"""Hugging Face models taken over as ours: the same outputs, one error, and training that goes on."""

import json
import re
from dataclasses import replace

import pytest
import torch
from hf_folders import bert_tokenizer, byte_tokenizer, change_config, save_folder, seq2seq_tokenizer
from safetensors.torch import load_file, save_file

from attnscope.cli.main import main
from attnscope.errors import LoadError, RecipeError, UserError
from attnscope.models import ModelCard, load, read_model_folder, write_model_folder
from attnscope.models.families import FAMILIES, AdoptableFamily
from attnscope.nn import ModelConfig, build_transformer
from attnscope.text import train_tokenizer
from attnscope.training import (
    StartPart,
    adopt,
    adopted_config,
    first_module,
    model_of_start,
    parse_recipe,
    read_start,
    recipe_on_paper,
    train,
)

transformers = pytest.importorskip("transformers")

SIZE = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48}
POSITIONS = {"max_position_embeddings": 40}
ATOL = 3e-5  # float32 on both sides, logits near 5


def bert(**changes):
    return transformers.BertForMaskedLM(
        transformers.BertConfig(vocab_size=bert_tokenizer().get_vocab_size(), **SIZE, **POSITIONS, **changes)
    ), bert_tokenizer()


def roberta(**changes):
    tokenizer = seq2seq_tokenizer()  # its ids: <pad> 0, </s> 1, <unk> 2, <s> 3
    ids = {"pad_token_id": 0, "bos_token_id": 3, "eos_token_id": 1}
    config = transformers.RobertaConfig(
        vocab_size=tokenizer.get_vocab_size(), type_vocab_size=1, **SIZE, **POSITIONS, **ids, **changes
    )
    return transformers.RobertaForMaskedLM(config), tokenizer


def distilbert(**changes):
    config = transformers.DistilBertConfig(
        vocab_size=bert_tokenizer().get_vocab_size(),
        dim=32,
        n_layers=2,
        n_heads=4,
        hidden_dim=48,
        max_position_embeddings=40,
        **changes,
    )
    return transformers.DistilBertForMaskedLM(config), bert_tokenizer()


def gpt2(**changes):
    tokenizer = byte_tokenizer()
    config = transformers.GPT2Config(
        vocab_size=tokenizer.get_vocab_size(),
        n_embd=32,
        n_layer=2,
        n_head=4,
        n_positions=40,
        bos_token_id=0,
        eos_token_id=0,
        **changes,
    )
    return transformers.GPT2LMHeadModel(config), tokenizer


def llama(**changes):
    tokenizer = byte_tokenizer(specials=("<s>", "</s>", "<unk>"))
    given = {"num_key_value_heads": 2, **changes}
    config = transformers.LlamaConfig(
        vocab_size=tokenizer.get_vocab_size(), **SIZE, **POSITIONS, bos_token_id=0, eos_token_id=1, **given
    )
    return transformers.LlamaForCausalLM(config), tokenizer


def gpt_neox(**changes):
    tokenizer = byte_tokenizer(specials=("<s>", "</s>", "<unk>"))
    whole = {"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 1.0}
    given = {"use_parallel_residual": False, "rope_parameters": whole, **changes}
    config = transformers.GPTNeoXConfig(
        vocab_size=tokenizer.get_vocab_size(), **SIZE, **POSITIONS, bos_token_id=0, eos_token_id=1, **given
    )
    return transformers.GPTNeoXForCausalLM(config), tokenizer


MAKERS = {
    "bert": bert,
    "roberta": roberta,
    "distilbert": distilbert,
    "gpt2": gpt2,
    "llama": llama,
    "gpt_neox": gpt_neox,
}
DECODERS = ("gpt2", "llama", "gpt_neox")
TURNED = {"rope_type": "default", "partial_rotary_factor": 1.0}
CASES = [
    ("bert", {}),
    ("bert", {"hidden_act": "relu", "type_vocab_size": 1}),
    ("bert", {"hidden_act": "gelu_new", "type_vocab_size": 3, "layer_norm_eps": 1e-5}),
    ("bert", {"hidden_act": "gelu_pytorch_tanh"}),
    ("roberta", {}),
    ("roberta", {"layer_norm_eps": 1e-3}),
    ("distilbert", {}),
    ("distilbert", {"activation": "relu"}),
    ("gpt2", {}),
    ("gpt2", {"activation_function": "gelu", "n_inner": 40, "layer_norm_epsilon": 1e-3}),
    ("llama", {}),
    ("llama", {"num_key_value_heads": 4, "tie_word_embeddings": True, "head_dim": 16}),
    ("llama", {"rope_parameters": {"rope_type": "default", "rope_theta": 500000.0}, "rms_norm_eps": 1e-5}),
    ("gpt_neox", {}),
    ("gpt_neox", {"tie_word_embeddings": True, "hidden_act": "relu", "layer_norm_eps": 1e-3}),
    ("gpt_neox", {"rope_parameters": {**TURNED, "rope_theta": 500.0}, "hidden_act": "gelu_new"}),
]


def saved(tmp_path, fill_with_ramp, family, **changes):
    model, tokenizer = MAKERS[family](**changes)
    fill_with_ramp(model)
    model.eval()
    return save_folder(tmp_path / family, model, tokenizer), model


def ids_of(n_pieces, n_tokens):
    return (torch.arange(2 * n_tokens).reshape(2, n_tokens) * 7 + 3) % n_pieces


@pytest.mark.slow
@torch.no_grad()
@pytest.mark.parametrize(("family", "changes"), CASES, ids=str)
@pytest.mark.parametrize("n_tokens", [1, 9, 37])
def test_that_outputs_are_those_of_the_library(
    tmp_path, fill_with_ramp, assert_close, family, changes, n_tokens
):
    folder, reference = saved(tmp_path, fill_with_ramp, family, **changes)
    loaded = adopt(folder)
    ids = ids_of(loaded.tokenizer.vocab_size - 5, n_tokens) + 5  # none that the library takes for padding
    expected = reference(ids).logits
    assert_close(loaded.module.eval()(ids), expected, atol=ATOL)
    assert adopted_config(folder) == loaded.module.config
    assert loaded.card.objective == ("causal" if family in DECODERS else "masked")


def test_that_every_family_has_a_case():
    adoptable = {name for name, family in FAMILIES.items() if isinstance(family, AdoptableFamily)}
    assert set(MAKERS) == adoptable == {family for family, _ in CASES}


@torch.no_grad()
@pytest.mark.parametrize("family", MAKERS)
def test_that_a_body_without_output_layer_gives_the_same_stream(
    tmp_path, fill_with_ramp, assert_close, family
):
    model, tokenizer = MAKERS[family](
        **({"tie_word_embeddings": True} if family in ("llama", "gpt_neox") else {})
    )
    fill_with_ramp(model)
    body = model.base_model.eval()
    loaded = adopt(save_folder(tmp_path / "body", body, tokenizer))
    ids = ids_of(loaded.tokenizer.vocab_size - 5, 6) + 5
    expected = body(ids).last_hidden_state
    module = loaded.module.eval()
    found = module.encode(ids) if module.config.form == "encoder" else module.decode(ids)
    assert_close(found, expected, atol=ATOL)


@torch.no_grad()
@pytest.mark.parametrize(
    "family", ["bert", "llama"]
)  # with a bias for each piece; with an output layer of its own
def test_that_rows_of_pieces_the_tokenizer_lacks_are_left_out(tmp_path, fill_with_ramp, assert_close, family):
    model, tokenizer = MAKERS[family]()
    model.resize_token_embeddings(tokenizer.get_vocab_size() + 6)
    fill_with_ramp(model)
    loaded = adopt(save_folder(tmp_path / "wide", model.eval(), tokenizer))
    n_pieces = tokenizer.get_vocab_size()
    assert loaded.module.config.vocab_size == n_pieces
    ids = ids_of(n_pieces, 5)
    assert_close(loaded.module.eval()(ids), model(ids).logits[..., :n_pieces], atol=ATOL)


@torch.no_grad()
def test_that_shards_and_the_first_names_of_norms_are_read(tmp_path, fill_with_ramp, assert_close):
    model, tokenizer = bert()
    fill_with_ramp(model)
    folder = tmp_path / "shards"
    model.eval().save_pretrained(folder, max_shard_size="20kB")
    tokenizer.save(str(folder / "tokenizer.json"))
    index = json.loads((folder / "model.safetensors.index.json").read_text(encoding="utf-8"))
    for path in folder.glob("model-*.safetensors"):
        save_file({renamed(n): t for n, t in load_file(path).items()}, path, {"format": "pt"})
    index["weight_map"] = {renamed(name): file for name, file in index["weight_map"].items()}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index), encoding="utf-8")
    ids = ids_of(30, 8) + 5
    assert_close(adopt(folder).module.eval()(ids), model(ids).logits, atol=ATOL)


def renamed(name):
    return name.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("family", "changes", "word"),
    [
        ("bert", {"hidden_act": "mish"}, "hidden_act"),
        ("bert", {"position_embedding_type": "relative_key"}, "position_embedding_type"),
        ("bert", {"tie_word_embeddings": False}, "tie_word_embeddings"),
        ("bert", {"is_decoder": True}, "is_decoder"),
        ("bert", {"add_cross_attention": True}, "add_cross_attention"),
        ("bert", {"max_position_embeddings": 30}, "max_position_embeddings"),
        ("bert", {"hidden_act": ["gelu"]}, "hidden_act"),
        ("bert", {"type_vocab_size": 0}, "type_vocab_size"),
        ("distilbert", {"tie_word_embeddings": False}, "tie_word_embeddings"),
        ("roberta", {"max_position_embeddings": 30}, "max_position_embeddings"),
        ("roberta", {"pad_token_id": "one"}, "pad_token_id"),
        ("roberta", {"type_vocab_size": 2}, "type_vocab_size"),
        ("roberta", {"hidden_act": "relu"}, "hidden_act"),
        ("gpt2", {"scale_attn_by_inverse_layer_idx": True}, "scale_attn_by_inverse_layer_idx"),
        ("gpt2", {"scale_attn_weights": False}, "scale_attn_weights"),
        ("gpt2", {"tie_word_embeddings": False}, "tie_word_embeddings"),
        ("llama", {"rope_parameters": {"rope_type": "linear", "factor": 2.0}}, "rotation"),
        ("llama", {"rope_parameters": None, "rope_scaling": {"type": "dynamic", "factor": 2.0}}, "rotation"),
        ("llama", {"rope_parameters": {"rope_theta": "far"}}, "rope_theta"),
        ("llama", {"rope_parameters": "default"}, "rotation"),
        ("llama", {"mlp_bias": True}, "mlp_bias"),
        ("llama", {"hidden_act": "gelu"}, "hidden_act"),
        ("llama", {"attention_bias": True}, "attention_bias"),
        ("gpt_neox", {"attention_bias": False}, "attention_bias"),
        ("gpt_neox", {"use_parallel_residual": True}, "use_parallel_residual"),
        ("gpt_neox", {"rope_parameters": {"rope_type": "default"}}, "turns 0.25 of each head"),
        ("gpt_neox", {"rope_parameters": None, "rotary_pct": 0.5}, "turns 0.5 of each head"),
        ("llama", {"model_type": "mamba"}, "mamba"),
        ("bert", {"num_hidden_layers": 3}, "encoder.2"),
        ("bert", {"num_hidden_layers": 1}, "encoder.layer.1"),
        ("gpt2", {"n_layer": 1}, "h.1"),
    ],
    ids=str,
)
def test_that_what_ours_cannot_be_is_refused_by_name(tmp_path, fill_with_ramp, family, changes, word):
    folder, _ = saved(tmp_path, fill_with_ramp, family)
    change_config(folder, **changes)
    with pytest.raises(LoadError, match=word.replace(".", r"\.")):
        adopt(folder)


@torch.no_grad()
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_that_one_segment_is_added_in_full_precision_to_halves(tmp_path, fill_with_ramp, dtype):
    model, tokenizer = roberta()
    fill_with_ramp(model)
    folder = save_folder(tmp_path / "half", model.to(dtype), tokenizer)
    parts = model.roberta.embeddings
    expected = parts.position_embeddings.weight.double() + parts.token_type_embeddings.weight.double()[0]
    found = adopt(folder).module.encoder_embedding.positions.weight
    assert (found.double() - expected[1:]).abs().max() <= 1e-7


@pytest.mark.parametrize(
    ("family", "changes", "dropout", "attention_dropout"),
    [
        ("bert", {"hidden_dropout_prob": 0.2, "attention_probs_dropout_prob": 0.3}, 0.2, 0.3),
        ("distilbert", {"dropout": 0.2, "attention_dropout": 0.3}, 0.2, 0.3),
        ("gpt2", {"resid_pdrop": 0.2, "attn_pdrop": 0.3}, 0.2, 0.3),
        ("llama", {"attention_dropout": 0.3}, 0.0, 0.3),
        ("gpt2", {"resid_pdrop": None, "attn_pdrop": 0}, 0.1, 0.0),  # null: what the library has
    ],
)
def test_that_it_drops_as_much_in_training(
    tmp_path, fill_with_ramp, family, changes, dropout, attention_dropout
):
    folder, _ = saved(tmp_path, fill_with_ramp, family)
    change_config(folder, **changes)
    config = adopted_config(folder)
    assert (config.dropout, config.attention_dropout) == (dropout, attention_dropout)


def test_that_the_base_of_the_rotation_stands_where_older_files_had_it(tmp_path, fill_with_ramp):
    folder, _ = saved(tmp_path, fill_with_ramp, "llama")
    change_config(folder, rope_parameters=None, rope_theta=5000.0)
    assert adopted_config(folder).rope_base == 5000.0
    folder, _ = saved(tmp_path, fill_with_ramp, "gpt_neox")
    change_config(folder, rope_parameters=None, rotary_emb_base=700, rotary_pct=1.0)
    assert adopted_config(folder).rope_base == 700.0


def test_that_a_tokenizer_larger_than_the_embedding_is_refused(tmp_path, fill_with_ramp):
    folder, _ = saved(tmp_path, fill_with_ramp, "gpt2")
    tokenizer = byte_tokenizer(specials=("<|endoftext|>", "<a>", "<b>"))
    tokenizer.save(str(folder / "tokenizer.json"))
    with pytest.raises(LoadError, match="has 264 pieces but the embedding 262 rows"):
        adopt(folder)


@torch.no_grad()
@pytest.mark.parametrize(
    ("family", "computed"),
    [
        ("gpt2", "transformer.h.1.attn.bias"),
        ("llama", "model.layers.0.self_attn.inv_freq"),
        ("gpt_neox", "gpt_neox.layers.1.attention.masked_bias"),
        ("gpt_neox", "gpt_neox.layers.0.attention.bias"),
        ("gpt_neox", "gpt_neox.layers.0.attention.rotary_emb.inv_freq"),
    ],
)
def test_that_what_older_files_hold_beside_the_weights_is_passed_over(
    tmp_path, fill_with_ramp, assert_close, family, computed
):
    folder, reference = saved(tmp_path, fill_with_ramp, family)
    path = folder / "model.safetensors"
    save_file({**load_file(path), computed: torch.ones(4)}, path, {"format": "pt"})
    assert_close(
        adopt(folder).module.eval()(ids_of(200, 5) + 5), reference(ids_of(200, 5) + 5).logits, atol=ATOL
    )


def test_that_a_plan_knows_its_vocabulary_without_its_weights(tmp_path, fill_with_ramp):
    folder, model = saved(tmp_path, fill_with_ramp, "llama")
    assert all(p.is_meta for p in adopt(folder, has_weights=False).module.parameters())
    recipe = parse_recipe(RECIPE.format(text="t.txt", objective="causal", folder=folder))
    assert recipe_on_paper(recipe).model.vocab_size == model.config.vocab_size


def test_that_a_folder_named_like_a_demo_model_does_not_stand_in_for_it(
    tmp_path, fill_with_ramp, monkeypatch
):
    model, tokenizer = bert()
    save_folder(tmp_path / "grammar", model, tokenizer)
    monkeypatch.chdir(tmp_path)
    assert model_of_start(StartPart(source="grammar"), {}, derived=())["form"] == "encoder-decoder"


RECIPE = """
[data]
kind = "text"
path = "{text}"
[objective]
kind = "{objective}"
[start]
from = "{folder}"
[training]
name = "more"
n_steps = 2
batch_size = 2
evaluate_every = 1
save_every = 2
"""


@pytest.mark.slow
@pytest.mark.parametrize("family", MAKERS)
def test_that_training_goes_on_from_it(tmp_path, fill_with_ramp, family):
    folder, _ = saved(tmp_path, fill_with_ramp, family)
    text = tmp_path / "text.txt"
    text.write_text("the animal did not cross the street because it was too tired .\n" * 60, encoding="utf-8")
    objective = "causal" if family in DECODERS else "masked"
    recipe = parse_recipe(RECIPE.format(text=text, objective=objective, folder=folder))
    start = read_start(recipe)
    module = first_module(recipe, start.module.config, start)
    for name, tensor in start.module.state_dict().items():
        assert torch.equal(module.state_dict()[name], tensor), name
    text_of_recipe = RECIPE.format(text=text, objective=objective, folder=folder)
    list(train(text_of_recipe, tmp_path / "run", "cpu"))
    again = read_model_folder(tmp_path / "run" / "checkpoints" / "2")
    assert again.module.config == start.module.config
    assert again.tokenizer.vocab_size == start.tokenizer.vocab_size


def test_that_another_objective_is_refused_with_what_differs(tmp_path, fill_with_ramp):
    folder, _ = saved(tmp_path, fill_with_ramp, "distilbert")
    text = tmp_path / "text.txt"
    text.write_text("the animal\n" * 60, encoding="utf-8")
    recipe = parse_recipe(RECIPE.format(text=text, objective="causal", folder=folder))
    with pytest.raises(RecipeError, match="form"):
        read_start(recipe)


def test_that_a_causal_model_goes_on_as_one_that_sees_both_sides(tmp_path, fill_with_ramp):
    folder, _ = saved(tmp_path, fill_with_ramp, "gpt2")
    byte_tokenizer().save(str(folder / "tokenizer.json"))
    text = tmp_path / "text.txt"
    text.write_text("the animal\n" * 60, encoding="utf-8")
    recipe = parse_recipe(RECIPE.format(text=text, objective="masked", folder=folder))
    start = read_start(recipe)
    weights = start.module.state_dict()
    module = first_module(recipe, replace(start.module.config, form="encoder"), start)
    assert module.config.form == "encoder"
    for name, weight in module.state_dict().items():
        assert torch.equal(weight, weights[name.replace("encoder", "decoder")]), name


@torch.no_grad()
def test_that_segments_given_up_leave_a_model_of_one_text_that_computes_the_same(
    tmp_path, fill_with_ramp, assert_close
):
    folder, reference = saved(tmp_path, fill_with_ramp, "bert")
    text = tmp_path / "text.txt"
    text.write_text("the animal\n" * 60, encoding="utf-8")
    recipe = parse_recipe(
        RECIPE.format(text=text, objective="masked", folder=folder), overrides={"model.n_segments": "0"}
    )
    start = read_start(recipe)
    config = replace(start.module.config, n_segments=0)
    module = first_module(recipe, config, start).eval()
    ids = ids_of(30, 9) + 5
    assert_close(module(ids), reference(ids).logits, atol=ATOL)
    assert start.module.config.n_segments == 2


def test_that_a_tokenizer_without_the_marks_a_text_begins_with_is_refused(tmp_path, fill_with_ramp):
    folder, _ = saved(tmp_path, fill_with_ramp, "gpt2")
    byte_tokenizer(specials=()).save(str(folder / "tokenizer.json"))
    with pytest.raises(LoadError, match="no token for: begin"):
        adopt(folder)


@pytest.mark.slow
@pytest.mark.parametrize("has_second", [False, True])
def test_that_labelled_texts_say_whether_it_goes_on_reading_two(tmp_path, fill_with_ramp, has_second):
    folder, _ = saved(tmp_path, fill_with_ramp, "bert")
    text = tmp_path / "texts.tsv"
    second = "\tit was too tired" if has_second else ""
    lines = [f"{mood}\tthe animal {mood} {n}{second}\n" for n in range(12) for mood in ("good", "bad")]
    text.write_text("".join(lines), encoding="utf-8")
    recipe = RECIPE.format(text=text, objective="classification", folder=folder)
    recipe = recipe.replace('"text"', '"labelled"') + "[[watch]]\ntext = 'the <mask> was [MASK].'\n"
    assert parse_recipe(recipe).watch[0].text == "the was."
    list(train(recipe, tmp_path / "run", "cpu"))
    model = load(str(tmp_path / "run"))
    assert model.info.reads_pairs == has_second
    assert model.own.config.n_segments == 2 * has_second
    assert len(model.trace("the animal").source) > 2


OURS = {"form": "decoder", "d_model": 32, "n_layers": 2, "n_heads": 4, "d_ff": 48, "max_tokens": 40}
LLAMA = {"position": "rotary", "norm": "rms", "activation": "swiglu", "bias": False}
WRITTEN = [
    ("gpt2", {}),
    ("gpt2", {"activation": "gelu-tanh", "dropout": 0.1, "norm_epsilon": 1e-3}),
    ("gpt2", {"activation": "relu"}),
    ("llama", {**LLAMA, "n_kv_heads": 2, "tie_embeddings": False}),
    ("llama", {**LLAMA, "d_head": 16, "rope_base": 1000.0}),
    ("gpt_neox", {"position": "rotary", "rope_base": 1000.0}),
    ("gpt_neox", {"position": "rotary", "activation": "gelu-tanh", "tie_embeddings": False}),
]


def ours_saved(folder, fill_with_ramp, **changes):
    """The folder of a model of ours, which begins texts with <s>."""
    tokenizer = train_tokenizer("byte-bpe", ["the cat sat on the mat"] * 3, vocab_size=270)
    config = ModelConfig(vocab_size=tokenizer.vocab_size, **{**OURS, **changes})
    module = build_transformer(config, seed=0)
    fill_with_ramp(module)
    write_model_folder(folder, module, config, tokenizer, ModelCard(name="ours", objective="causal"))
    return str(folder)


@pytest.mark.slow
@torch.no_grad()
@pytest.mark.parametrize(("family", "changes"), WRITTEN, ids=str)
def test_that_a_model_of_ours_opens_in_the_library_with_its_logits(
    tmp_path, fill_with_ramp, assert_close, capsys, family, changes
):
    source = ours_saved(tmp_path / "ours", fill_with_ramp, **changes)
    assert main(["convert", source, "-o", str(tmp_path / "theirs")]) == 0
    title = FAMILIES[family].title
    assert f"{title} in the format of transformers; its logits differ by at most" in capsys.readouterr().out
    theirs = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "theirs").eval()
    assert theirs.config.model_type == family
    text, model = "the mat sat on a cat", load(source)
    ids = transformers.AutoTokenizer.from_pretrained(tmp_path / "theirs")(text, return_tensors="pt").input_ids
    assert ids[0].tolist() == list(model.encode(text).source.ids)
    assert_close(theirs(ids).logits, model.own.module.eval()(ids), atol=1e-5)
    back = adopt(tmp_path / "theirs").module.state_dict()
    for name, weights in model.own.module.state_dict().items():
        assert torch.equal(back[name], weights)


@pytest.mark.slow
@torch.no_grad()
def test_that_stories_is_written_and_continues_a_text_as_here(tmp_path):
    model = load("stories")
    assert model.save_for_transformers(tmp_path / "stories").title == "GPT-NeoX"
    theirs = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "stories").eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "stories")
    text = "A farmer's goose would not come down from the roof,"
    ids = tokenizer(text, return_tensors="pt").input_ids
    longer = theirs.generate(ids, max_new_tokens=20, do_sample=False)[0, ids.shape[1] :]
    assert tokenizer.decode(longer) == model.generate(text, max_tokens=20)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"position": "alibi"}, "GPT-2, would need position learned, not alibi"),
        ({"norm": "rms"}, "GPT-2, would need norm layer, not rms"),
        ({**LLAMA, "norm_place": "post"}, "Llama, would need norm_place pre, not post"),
        ({"kept_heads": (("decoder.0", (0, 1)),)}, "GPT-2, would need every head, and"),
    ],
)
def test_that_what_the_library_cannot_be_is_named(tmp_path, fill_with_ramp, capsys, changes, why):
    source = ours_saved(tmp_path / "ours", fill_with_ramp, **changes)
    assert main(["convert", source, "-o", str(tmp_path / "theirs")]) == 2
    assert why in capsys.readouterr().err
    assert not (tmp_path / "theirs").exists()


def test_that_what_keeps_a_model_from_being_written_is_said_in_words(tmp_path):
    grammar, stories = load("grammar"), load("stories")
    gates = stories.gates()
    gates["decoder", 0, 0] = gates["decoder", 2, 1] = 0.0
    for model, told in (
        (grammar, "GPT-2, would need form decoder, not encoder-decoder; position learned, not sinusoidal."),
        (stories.prune(gates), "GPT-NeoX, would need every head, and 2 are removed here."),
        (load("english-french"), "scale_embeddings false, not true; n_decoder_layers unset, not 4."),
    ):
        with pytest.raises(UserError, match=re.escape(told)):
            model.save_for_transformers(tmp_path / "out")
    assert not (tmp_path / "out").exists()
