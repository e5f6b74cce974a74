"""The synthetic tasks: their answers and links against slow checks that know nothing of the generators."""

import pytest

from attnscope.errors import RecipeError
from attnscope.text.tasks import TASKS, labels_of, make_task, task_tokenizer, written_words

ROWS = ("copy", "reverse", "sort")
BOTH_FORMS = (*ROWS, "addition")


@pytest.mark.slow
@pytest.mark.parametrize("name", TASKS)
def test_that_held_out_texts_never_occur_in_training(name: str) -> None:
    task = make_task(name)
    seen = {e.source for seed in range(3) for e in task.examples(400, seed=seed)}
    held_out = {e.source for seed in range(3) for e in task.examples(200, seed=seed, held_out=True)}
    assert not seen & held_out


@pytest.mark.parametrize("name", TASKS)
def test_that_a_seed_gives_the_same_examples_again(name: str) -> None:
    task = make_task(name)
    assert task.examples(30, seed=5) == make_task(name).examples(30, seed=5)
    assert task.examples(30, seed=5) != task.examples(30, seed=6)
    assert task.name == name


@pytest.mark.parametrize("name", TASKS)
def test_that_the_words_of_a_task_are_the_tokens_of_its_tokenizer(name: str) -> None:
    task = make_task(name)
    tokenizer = task_tokenizer(task)
    assert tokenizer.vocab_size == len(task.vocabulary) + 5
    for example in task.examples(50, seed=1):
        for text in (example.source, example.target):
            if text is not None:
                tokens = tokenizer.encode(text)
                words, known = text.split(), set(task.vocabulary)
                unknown = [word for word in words if word not in known]
                assert list(tokens.pieces) == [word if word in known else "<unk>" for word in words]
                assert tokens.n_unknown == len(unknown)
                assert not unknown or name == "reports"  # whose names and numbers are there to be copied


@pytest.mark.parametrize("name", [name for name in TASKS if not labels_of(make_task(name))])
def test_that_links_point_at_words_that_stand_in_the_texts(name: str) -> None:
    for example in make_task(name).examples(200, seed=2):
        n_keys = len(example.source.split())
        n_queries = n_keys if example.target is None else len(example.target.split())
        assert example.links
        assert all(0 <= query < n_queries and 0 <= key < n_keys for query, key in example.links)
        if make_task(name).form == "decoder":
            assert all(key <= query for query, key in example.links), "a decoder cannot see the future"
            assert all(query >= example.n_given - 1 for query, _ in example.links)


@pytest.mark.parametrize("rule", ROWS)
def test_that_copying_the_linked_words_gives_the_answer(rule: str) -> None:
    right = {"copy": list, "reverse": lambda row: row[::-1], "sort": sorted}[rule]
    for example in make_task(rule).examples(300, seed=3):
        source, target = example.source.split(), example.target.split()
        assert [source[key] for _, key in sorted(example.links)] == target == right(source)
        assert len({key for _, key in example.links}) == len(source)


@pytest.mark.parametrize("name", [*ROWS, "induction"])
def test_that_the_linked_key_of_a_decoder_task_is_the_next_word(name: str) -> None:
    options = {} if name == "induction" else {"form": "decoder"}
    for example in make_task(name, **options).examples(300, seed=4):
        words = example.source.split()
        assert example.target is None
        assert all(words[query + 1] == words[key] for query, key in example.links)
        assert {query + 1 for query, _ in example.links} == set(range(example.n_given, len(words)))


def test_that_an_induction_key_follows_the_same_word() -> None:
    for example in make_task("induction").examples(200, seed=5):
        words = example.source.split()
        assert all(words[key - 1] == words[query] for query, key in example.links)


@pytest.mark.parametrize("form", ["encoder-decoder", "decoder"])
def test_that_sums_are_right_and_linked_to_the_digits_of_their_column(form: str) -> None:
    for example in make_task("addition", form=form, n_digits=4).examples(200, seed=6):
        text = example.source if example.target is None else f"{example.source} = {example.target}"
        words = text.split()
        first, second, result = "".join(words[:4]), "".join(words[5:9]), "".join(words[10:])
        assert int(first) + int(second) == int(result)
        for n in range(4):  # units first
            carry = (int(first) % 10**n + int(second) % 10**n) // 10**n
            query = 4 - n + (9 if form == "decoder" else 0)
            keys = [key for at, key in example.links if at == query]
            digits = [int(words[key]) for key in keys]
            assert len(keys) == 2
            assert (sum(digits) + carry) % 10 == int(result[4 - n])


def test_that_closing_brackets_are_linked_to_the_bracket_they_close() -> None:
    for example in make_task("brackets").examples(200, seed=7):
        text = example.source.replace(" ", "")
        links = dict(example.links)
        assert {query + 1 for query in links} == {n for n, sign in enumerate(text) if sign in ")]}"}
        for query, key in links.items():
            inside = text[key + 1 : query + 1]
            while inside:
                shorter = inside.replace("()", "").replace("[]", "").replace("{}", "")
                assert shorter != inside, "what stands between two partners is properly nested"
                inside = shorter
            assert text[key] + text[query + 1] in ("()", "[]", "{}")


def test_that_the_verb_agrees_with_the_linked_noun() -> None:
    singular_attracted = 0
    for example in make_task("agreement").examples(400, seed=8):
        words = example.source.split()
        ((query, key),) = example.links
        nouns = [n for n, word in enumerate(words[:-1]) if word.rstrip("s") in NOUNS]
        assert query == len(words) - 2
        assert key == nouns[0]
        assert words[-1] == ("are" if words[key].endswith("s") else "is")
        singular_attracted += words[-1] == "is" and words[nouns[-1]].endswith("s")
    assert singular_attracted > 20, "some nouns between pull the other way"


NOUNS = "key cabinet dog door friend king letter author report river teacher tree".split()


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("translate", {}, "There is no task 'translate'"),
        ("copy", {"length": 3}, "has no option length"),
        ("copy", {"rule": "sort"}, "has no option rule"),
        ("copy", {"min_words": 9, "max_words": 3}, "data.min_words is 9"),
        ("copy", {"max_words": "9"}, "data.max_words is '9'"),
        ("copy", {"max_words": True}, "data.max_words is True"),
        ("addition", {"form": "encoder"}, "data.form is 'encoder'"),
        ("induction", {"max_words": 50}, "at most 36"),
        ("addition", {"n_digits": 10**9}, "from 2 to 50"),
    ],
)
def test_that_an_impossible_option_is_named(name: str, options: dict[str, object], message: str) -> None:
    with pytest.raises(RecipeError, match=message):
        make_task(name, **options)


def test_that_a_task_with_too_few_texts_says_so() -> None:
    task = make_task("copy", min_words=1, max_words=1, n_letters=2)
    with pytest.raises(RecipeError, match="too few different texts"):
        [task.examples(5, seed=0, held_out=held_out) for held_out in (True, False)]


def test_that_what_a_model_writes_is_called_what_it_is_to_its_task() -> None:
    said = {task: written_words(task, "translation") for task in TASKS}
    assert {
        task: said[task] for task in ("copy", "reverse", "sort", "addition", "reports", "english-french")
    } == {
        "copy": "copied row",
        "reverse": "reversed row",
        "sort": "sorted row",
        "addition": "sum",
        "reports": "summary",
        "english-french": "translation",
    }
    assert written_words(None, "translation") == "translation"
    assert written_words(None, "span-corruption") == "written text"
