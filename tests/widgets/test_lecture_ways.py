"""What a lecturer does with the keyboard and on a projector, in a window whose worker never starts."""

from pathlib import Path
from typing import get_args

import pytest
from PySide6.QtCore import QEvent, QObject, Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QLineEdit, QWidget

from attnscope.app import Program
from attnscope.crash import CrashLog
from attnscope.kept_models import kept_names
from attnscope.records import InspectionsShown, OpenRuns, Ready, RunsOpened, ShowInspections, StartTraining
from attnscope.settings import Settings, StartOptions
from attnscope.training import InspectionsReader, RunsReader
from attnscope.viewmodels import Page, find
from attnscope.widgets.labs import lab_offers
from attnscope.widgets.training import INSIDE, WatchPanel
from attnscope.widgets.window import with_numbers

pytestmark = pytest.mark.qt
_WORDS = (
    "softmax, sliding window, Bahdanau, Luong, induction, Voita, explanation, RoPE, extrapolation, residual, "
    "LayerNorm, warm-up, masked, temperature, top-p, BPE, KV cache, GQA, linear attention, scaling law, "
    "FLOPs, summarisation, teacher forcing, exposure bias, permutation equivariance, permutation invariance, "
    "nucleus, saturation, LSTM, weight tying, embedding scale, dropout, "
    "ViT, exercise, reverse, tagging, labels, Transformer-XL, segment recurrence, "
    "inducing points, Set Transformer, Perceiver, bottleneck, adaptive span, "
    "scaled dot-product, Nadaraya-Watson, bilinear, hierarchical attention, premise hypothesis, "
    "vanishing gradients, GELU, SwiGLU, RMSNorm, W_O, tied embeddings, mixed precision, label smoothing, "
    "LoRA, Dodge, BERT-base, span corruption, beam search, BLEU, coreference, strawberries, "
    "Longformer, complexity, sentinels, "
    "pointer-generator, copying, hard mask, memory tokens, prompt tuning, latents, "
    "SQuAD, span prediction, cloze, 80/10/10, autoregressive, greedy decoding, gradients by depth, LAMB, "
    "Noam, learning-rate schedule, load balancing, Switch Transformer, exploding gradients, "
    "long-range dependencies, copy task, "
    "similarity of positions, permutation equivariant, length generalisation, redundancy, syntactic heads, "
    "Cordonnier 2020, Chefer, interpretability, oversmoothing, residual connections, 65M, scaling factor, "
    "natural language inference, GNN, input feeding, local-p, RWKV, pretraining, transfer learning, "
    "sorting, bracket matching, DeepNet, weight change by layer, "
    "low-rank, local attention, scaling laws, "
    "fine-tuning instability, dictionary, hidden states, encoder-decoder attention, "
    "next sentence, NSP, IsNext, gradient accumulation, checkpointing, bfloat16, nested lists, "
    "batch size warm-up, length warm-up, sequence-length warm-up, curriculum, curriculum learning"
).split(", ")


@pytest.fixture
def posted(monkeypatch):
    kept: list[object] = []
    monkeypatch.setattr(Program, "_start_worker", lambda self: None)
    monkeypatch.setattr(
        "attnscope.workers.threads.WorkerThread.post", lambda self, request: kept.append(request)
    )
    return kept


@pytest.fixture
def program(qtbot, tmp_path, posted):
    made = Program(
        settings=Settings(theme="light"),
        crash_log=CrashLog(tmp_path / "logs"),
        options=StartOptions(),
        is_remembering=False,
    )
    made.show()
    made.window.resize(1280, 800)
    yield made
    made.close()
    made.window.deleteLater()
    made.deleteLater()


class _Windows(QObject):
    """Keeps every widget that is shown as a window of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.shown: list[str] = []

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if event.type() == QEvent.Type.Show and isinstance(watched, QWidget) and watched.isWindow():
            self.shown.append(type(watched).__name__)
        return False


def test_that_no_page_flashes_parts_of_it_as_windows_when_it_is_first_seen(program):
    windows, app = _Windows(), QApplication.instance()
    app.installEventFilter(windows)
    for page in get_args(Page):
        program.window.view.show_page(page)
    app.removeEventFilter(windows)
    assert windows.shown == []


def test_that_the_keys_of_training_work_wherever_the_focus_is_on_the_page(program, posted):
    window = program.window
    window.activateWindow()
    window.view.show_page("train")
    line = window.pages.training.findChild(WatchPanel).findChild(QLineEdit)
    line.setFocus()
    QTest.keyClick(line, Qt.Key.Key_Return, Qt.KeyboardModifier.ControlModifier)
    assert [type(request) for request in posted].count(StartTraining) == 1


@pytest.mark.parametrize(("point", "gone"), [("watch", "curves_half"), ("run-curves", "watch_half")])
def test_that_in_a_low_window_the_half_of_train_that_is_spoken_of_has_all_the_height(program, point, gone):
    window, page = program.window, program.window.pages.training
    halves = {name: getattr(page, name) for name in ("curves_half", "watch_half")}
    window.view.show_page("train")
    window.learning.places.make_room(point)
    assert {name for name, half in halves.items() if not half.isVisible()} == {gone}
    window.learning.places.make_room("recipe")
    assert all(half.isVisible() for half in halves.values())
    window.resize(1280, 1400)
    window.learning.places.make_room(point)
    assert all(half.isVisible() for half in halves.values())


def test_that_numbers_of_several_lines_stay_in_lines():
    shown = with_numbers("{lab}", {"lab": "T: 4\nd: <b>"})
    assert [line.strip("\u2068\u2069") for line in shown.split("\n")] == ["T: 4", "d: <b>"]
    assert with_numbers("{lab}", {}, is_waiting=True) == "…"


def test_that_tab_goes_through_learn_as_one_reads_it(program):
    window = program.window
    window.activateWindow()
    window.view.show_page("learn")
    page = window.learning.page
    page.tabs.tabs["Welcome"].setFocus()
    wanted = [*page.welcome.tour_cards.values(), *page.welcome.lesson_cards.values()]  # the left column
    for card in (*wanted, *page.welcome.example_cards.values()):
        QTest.keyClick(QApplication.focusWidget(), Qt.Key.Key_Tab)
        assert QApplication.focusWidget() is card


def test_that_after_a_tour_enter_does_not_bring_it_back(program):
    window = program.window
    window.activateWindow()
    window.view.show_page("learn")
    learning = window.learning
    learning.start_tour("attention")
    learning.panel.next_button.setFocus()
    learning.tours.leave()
    assert QApplication.focusWidget() is learning.page.tabs.tabs["Welcome"]


def test_that_a_word_of_a_lecture_leads_to_a_place_to_show_it(program):
    pages = program.window.pages
    offers = (*program.window.learning.offers(), *lab_offers(pages.labs, program.window.view))
    for word in _WORDS:
        keys = [match.item.key for match in find((offer.item for offer in offers), word)]
        assert keys[:1], word
        assert keys[0].startswith(("help:topics#", "lab:", "tour:")), (word, keys)


_LEADS = {
    "projection matrices": "ask:projections",
    "concatenate": "ask:layer-steps",
    "sqrt(d_k)": "lab:Scaling by √d",
    "GQA": "lab:Heads and their keys",
    "look-ahead mask": "lab:Masks as structure",
    "graph neural network": "action:custom-mask",
    "bag of words": "lab:Order blindness",
    "O(n²)": "lab:Cost by length",
    "binary": "place:Positions: Positions",
    "sine waves": "place:Positions: Waves",
    "desiderata": "place:Positions: Checklist",
    "PE(t+Δ)": "lab:A shift is one matrix",
    "token uniformity": "lab:Rank collapse",
    "ResNet": "lab:Loss landscape",
    "vanishing gradient": "lab:Gradient by distance",
    "analysis of heads": "action:page-heads",
    "Cordonnier": "place:Heads: Weights",
    "Wiegreffe": "place:Explore: Rollout",
    "inverse square root": "lab:Why warm-up",
    "weighted sum": "lab:A weighted average",
    "probing": "lab:Probing",
    "linear classifier": "lab:Probing",
    "what a layer knows": "lab:Probing",
    "diagnostic classifier": "lab:Probing",
    "lottery ticket": "help:lecture-words#lottery-ticket-hypothesis",
    "value zeroing": "help:lecture-words#value-zeroing-ablation",
}


def test_that_a_lecture_s_own_words_lead_to_where_the_thing_is_shown(program):
    items = [offer.item for offer in program.window.workspace.palette._gather()]
    for word, key in _LEADS.items():
        assert key in [match.item.key for match in find(items, word)][:3], word


@pytest.mark.parametrize(
    "words",
    ["learned vs sinusoidal", "learned against sinusoidal", "learned positions", "row E", "25.7"],
)
def test_that_row_e_of_the_table_leads_to_the_lab_that_repeats_it(program, words):
    items = [offer.item for offer in program.window.workspace.palette._gather()]
    assert find(items, words)[0].item.key == "lab:Learned positions, row E"


def test_that_bleu_leads_to_the_lab_that_measures_it(program):
    items = [offer.item for offer in program.window.workspace.palette._gather()]
    assert find(items, "BLEU")[0].item.key == "lab:BLEU"


_EXPLAINED = {
    "ImageNet": "imagenet",
    "image captioning": "image-captioning-soft-attention-hard-attention",
    "soft attention": "image-captioning-soft-attention-hard-attention",
    "hard attention": "image-captioning-soft-attention-hard-attention",
    "quantisation": "quantisation-quantization-int8",
    "quantization": "quantisation-quantization-int8",
    "distillation": "distillation-student-and-teacher",
    "distillation loss": "distillation-student-and-teacher",
    "AlphaFold": "alphafold-evoformer",
    "protein folding": "alphafold-evoformer",
    "GLUE": "glue-superglue-mnli-sst-2",
    "padding mask": "padding-mask-look-ahead-mask",
    "look-ahead mask": "padding-mask-look-ahead-mask",
    "re-initialise top layers": "re-initialise-top-layers",
    "alignment model": "annotation-vector-alignment-model-hidden-state",
    "word2vec": "word-embedding-word2vec-elmo",
    "ELMo": "word-embedding-word2vec-elmo",
    "OOV": "out-of-vocabulary-words-oov-subwords-sentencepiece",
    "NTK scaling": "position-interpolation-ntk-scaling-yarn",
    "relative position": "positional-embedding-absolute-position-relative-position",
    "self-supervised": "self-supervised-learning-denoising-electra-xlnet-bart",
    "replaced token detection": "self-supervised-learning-denoising-electra-xlnet-bart",
    "chain of thought": "zero-shot-chain-of-thought-prompt-engineering",
    "RLHF": "instruction-tuning-rlhf-instructgpt-chatgpt",
    "Chinchilla": "chinchilla",
    "Xavier initialisation": "initialisation-xavier-he",
    "early stopping": "early-stopping",
    "scheduled sampling": "scheduled-sampling",
    "back-translation": "back-translation-data-augmentation",
    "repetition penalty": "length-penalty-repetition-penalty",
    "ROUGE": "rouge-meteor-bertscore",
    "NER": "named-entity-recognition-ner-dependency-parsing",
    "Performer": "kernel-trick-performer-random-features-nystromformer",
    "speculative decoding": "speculative-decoding",
    "BPTT": "backpropagation-through-time-bptt-parallel-training",
    "path length": "path-length-bytenet-convs2s-wavenet",
    "integrated gradients": "saliency-gradient-input-integrated-gradients",
    "wav2vec": "speech-recognition-whisper-wav2vec-conformer",
    "TPU": "data-parallelism-model-parallelism-pipeline-parallelism-tpu",
}


def test_that_a_word_the_program_has_no_part_for_leads_to_what_it_means(program):
    items = [offer.item for offer in program.window.workspace.palette._gather()]
    found = {word: [match.item.key for match in find(items, word)][:3] for word in _EXPLAINED}
    wrong = {w: keys for w, keys in found.items() if f"help:lecture-words#{_EXPLAINED[w]}" not in keys[:2]}
    assert not wrong


_ASKED = {
    "what does this head do?": "what-does-this-head-do",
    "what is this head for": "what-does-this-head-do",
    "why is this word chosen?": "why-is-this-word-chosen",
    "why this word": "why-is-this-word-chosen",
    "why does it choose that word?": "why-is-this-word-chosen",
    "what happens if I remove it?": "what-happens-if-i-remove-it",
    "what happens when you remove a head": "what-happens-if-i-remove-it",
    "why did it pick this word": "why-is-this-word-chosen",
    "why does the model say that?": "why-is-this-word-chosen",
    "what if I delete a head": "what-happens-if-i-remove-it",
    "what changes when heads are pruned": "what-happens-if-i-remove-it",
    "how does the model know the order of words": "how-does-position-get-in",
    "how can I watch it train": "what-does-it-look-like-while-it-learns",
    "is BERT the same as GPT?": "how-is-that-different-in-bert-gpt-and-t5",
    "how does position get in?": "how-does-position-get-in",
    "what does it look like while it learns?": "what-does-it-look-like-while-it-learns",
    "how does it learn": "what-does-it-look-like-while-it-learns",
    "how is that different in BERT": "how-is-that-different-in-bert-gpt-and-t5",
    "how is that different in BERT/GPT/T5?": "how-is-that-different-in-bert-gpt-and-t5",
}


def test_that_what_students_ask_leads_to_where_the_answer_is_seen(program):
    items = [offer.item for offer in program.window.workspace.palette._gather()]
    first = {asked: find(items, asked)[0].item.key for asked in _ASKED}
    assert first == {asked: f"help:students#{slug}" for asked, slug in _ASKED.items()}


@pytest.mark.parametrize(
    ("word", "name"),
    [
        ("ablate", "toggle-heads"),
        ("turn off", "toggle-heads"),
        ("screenshot", "export"),
        ("handout", "export"),
        ("bookmark", "keep-view"),
        ("speaker notes", "kept-views"),
        ("next slide", "next-view"),
        ("fullscreen", "present"),
        ("full screen", "present"),
        ("bigger", "larger"),
    ],
)
def test_that_the_first_word_that_comes_to_mind_leads_to_the_command(program, word, name):
    items = [offer.item for offer in program.window.workspace.palette._gather()]
    assert f"action:{name}" in [match.item.key for match in find(items, word)][:2]


@pytest.mark.parametrize("word", ["Longformer", "LED", "BigBird", "Reformer", "Funnel"])
def test_that_a_model_of_the_library_leads_to_a_small_one_and_to_what_help_says_of_it(program, word):
    program.session.handle(Ready(devices=("cpu",), demo_models=tuple(kept_names())))
    items = [offer.item for offer in program.window.workspace.palette._gather()]
    keys = [match.item.key for match in find(items, word)]
    assert keys[0] == f"model:{word.casefold()}"
    assert "help:models#led-bigbird-reformer-funnel" in keys[:5]


_PLACES = {
    "beam search": ("place:Explore: Generate", "explore"),
    "lens": ("place:Explore: Lens", "explore"),
    "similar heads": ("place:Heads: Similar heads", "heads"),
    "waves": ("place:Positions: Waves", "positions"),
    "checklist": ("place:Positions: Checklist", "positions"),
    "what it reads": ("place:Cost: What it reads", "train"),
    "Turing-NLG": ("place:Cost: Presets", "train"),
    "Recipe: induction": ("recipe:induction", "train"),
    "memory tokens": ("recipe:induction-memory", "train"),
    "low-rank": ("recipe:agreement-lora", "train"),
    "LoRA": ("recipe:agreement-lora", "train"),
    "LAMB": ("recipe:reverse-lamb", "train"),
    "local-p": ("recipe:reverse-luong", "train"),
    "scaling laws": ("place:Train: Scaling", "train"),
    "sequence reversal": ("recipe:reverse-labels", "train"),
    "runs side by side": ("place:Train: Runs", "train"),
    "learned against sinusoidal": ("lab:Modifications", "labs"),
}


def test_that_the_palette_turns_to_tabs_views_and_recipes_by_a_word(program):
    window = program.window
    for word, (key, page) in _PLACES.items():
        offers = {offer.item.key: offer for offer in window.workspace.palette._gather()}
        found = [match.item.key for match in find((one.item for one in offers.values()), word)]
        assert key in found[:3], (word, found[:5])
        offers[key].run()
        assert window.view.page == page
    assert window.pages.explore.answers.is_shown("Layers")
    assert window.pages.heads_tabs.tabs.is_shown("Alike")
    assert window.pages.training.lower_tabs.is_shown("Runs")
    assert program.states.positions.view == "checklist"
    assert program.states.training.recipe.name == "reverse-labels"


@pytest.mark.parametrize(
    ("word", "choice"),
    [("DeepNet", "moved"), ("gradient norm", "updates"), ("gradients by depth", "updates")],
)
def test_that_gradients_lead_to_a_kept_run_that_was_looked_into(program, posted, word, choice):
    window, runs = program.window, program.states.training.runs
    place = {
        "moved": "place:Train: Accumulated update, norms",
        "updates": "place:Train: Gradients and updates",
    }
    offers = {offer.item.key: offer for offer in window.workspace.palette._gather()}
    found = [match.item for match in find((one.item for one in offers.values()), word)]
    assert place[choice] in [item.key for item in found if item.is_enabled][:3]
    offers[place[choice]].run()
    tabs = window.pages.training.upper_tabs
    assert window.view.page == "train"
    assert tabs.tabs[INSIDE].isHidden()
    (asked,) = (request for request in posted if isinstance(request, OpenRuns))
    *_, (listed, _) = RunsReader().read(asked.folders)
    runs.handle(RunsOpened(number=asked.number, folders=asked.folders, runs=listed))
    assert runs.chosen == listed[0].folder
    runs.tick()
    wanted = [request for request in posted if isinstance(request, ShowInspections)][-1]
    reader = InspectionsReader()
    assert [*reader.read(Path(wanted.folder))]
    shown = InspectionsShown(
        number=wanted.number, folder=wanted.folder, version=reader.version, history=reader.history()
    )
    runs.handle(shown)
    assert tabs.is_shown(INSIDE)
    assert window.pages.training._inside.choice == choice
    assert len([layer for layer in shown.history.layers if layer.startswith("encoder")]) == 6
    assert program.states.training.recipe.name == Path(wanted.folder).name == "reverse-deep"


@pytest.mark.parametrize(
    ("key", "pages"),
    [
        ("model:stories", {"train": "explore", "labs": "explore", "heads": "heads", "compare": "compare"}),
        ("Show: mean of heads", {"train": "explore", "heads": "explore", "compare": "compare"}),
        ("Lines: the strongest of each query", {"labs": "explore", "explore": "explore"}),
        ("action:inside", {"labs": "explore", "learn": "explore"}),
        ("action:heatmap", {"train": "explore"}),
    ],
)
def test_that_what_is_chosen_in_the_palette_turns_to_where_it_is_seen(program, key, pages):
    window = program.window
    program.session.demo_models = ("stories",)
    for page, seen in pages.items():
        window.view.show_page(page)
        offers = {offer.item.key: offer for offer in window.workspace.palette._gather()}
        offers[key].run()
        assert window.view.page == seen, (key, page)


_SAID = {
    "attention heatmap": "action:heatmap",
    "hierarchical attention network": "recipe:reviews-hierarchical",
    "layer normalization": "lab:Norms over axes",
    "loss surface": "lab:Loss landscape",
    "neural scaling laws": "place:Train: Scaling",
    "training FLOPs": "place:Cost: This recipe",
    "minimal pair": "action:page-compare",
    "save as PDF": "action:export",
    "prune heads": "place:Heads: Pruning",
    "nucleus sampling": "place:Explore: Generate",
    "Switch Transformer": "recipe:brackets-experts",
    "extractive question answering": "recipe:questions",
    "masked tokens 80 10 10": "place:Cost: What it reads",
}


@pytest.mark.parametrize(("words", "key"), _SAID.items(), ids=lambda word: str(word).replace(" ", "-"))
def test_that_a_lecturers_own_words_find_the_thing_and_not_help_alone(program, words, key):
    items = [offer.item for offer in program.window.workspace.palette._gather()]
    assert key in [match.item.key for match in find(items, words)[:4]]


def test_that_higher_curves_take_from_the_sentence_below_what_it_can_spare(program, qtbot):
    page = program.window.pages.training
    program.window.view.show_page("train")
    plots, curves, below = page._curves, page._curves.parentWidget(), page._watch
    whole = sum(page._down.sizes())
    plots.setMinimumHeight(300)  # as in larger type
    plots.height_changed.emit()
    qtbot.waitUntil(lambda: curves.parentWidget().height() == 300)
    plots.setMinimumHeight(2000)
    plots.height_changed.emit()
    qtbot.waitUntil(lambda: below.minimumSizeHint().height() == below.parentWidget().height())
    assert sum(page._down.sizes()) == whole


def test_that_a_recipe_is_not_opened_over_a_run_in_progress(program):
    window = program.window
    name = "recipe:reverse"
    assert next(o for o in window.workspace.palette._gather() if o.item.key == name).item.is_enabled
    window.view.show_page("train")
    window.pages.training.actions_of_run[0].trigger()
    assert program.states.training.run.is_active
    assert not next(o for o in window.workspace.palette._gather() if o.item.key == name).item.is_enabled
