"""The help: every page, lab and dialog has one, every link leads somewhere, every word is explained."""

import ast
import re
from pathlib import Path
from typing import get_args

import pytest

import attnscope.widgets
from attnscope.cli.main import COMMANDS, build_parser
from attnscope.errors import LoadError
from attnscope.fields import fields_of
from attnscope.labs import LABS
from attnscope.paths import resources_folder
from attnscope.questions import QUESTIONS
from attnscope.records import CORPUS_MEASURES
from attnscope.viewmodels import (
    HELP_OF_DIALOGS,
    HELP_OF_VIEWS,
    Page,
    find_in_help,
    heading_slug,
    help_name,
    read_help,
)
from attnscope.viewmodels.tours import read_tours

HELP = resources_folder() / "help"
PAGES = {page.name: page for page in read_help(HELP)}
WORDS = (
    "layer head query key score weight site stack gate trace tile piece recipe run lse d_model d_head n_heads"
    " n_kv_heads n_layers d_ff"
).split()


def test_that_every_file_of_the_help_is_in_its_contents():
    assert {path.stem for path in HELP.glob("*.md")} == PAGES.keys()


def test_that_every_page_of_the_program_has_help():
    for page in get_args(Page):
        assert help_name(page) in PAGES, page
    assert set(HELP_OF_VIEWS.values()) <= PAGES.keys()


def test_that_every_lab_has_a_part_of_the_help():
    for lab in LABS.values():
        assert lab.name in PAGES["labs"].headings, f"resources/help/labs.md lacks '## {lab.name}'"
        assert lab.help.strip()
        assert lab.shows


def test_that_every_question_has_a_part_of_the_help():
    for question in QUESTIONS.values():
        assert question.title in PAGES["questions"].headings
        assert question.words[1:] in PAGES["questions"].text
        for option in fields_of(question.options):
            assert f"`{option.name}`: {option.tip} (" in PAGES["questions"].text


@pytest.mark.slow
def test_that_every_dialog_has_help():
    folder = Path(attnscope.widgets.__file__).parent
    trees = [ast.parse(path.read_text(encoding="utf-8")) for path in folder.rglob("*.py")]
    classes = [node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    dialogs = {c.name for c in classes if any(isinstance(b, ast.Name) and b.id == "QDialog" for b in c.bases)}
    assert dialogs == HELP_OF_DIALOGS.keys(), "name the help of each dialog in viewmodels/help_pages.py"
    assert set(HELP_OF_DIALOGS.values()) <= PAGES.keys()


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES.values(), ids=lambda page: page.name)
def test_that_every_link_leads_somewhere(page):
    tours = {tour.name for tour in read_tours(resources_folder() / "tours")}
    labs = {heading_slug(lab.name) for lab in LABS.values()}
    for link in page.links:
        kind, _, rest = link.partition(":")
        name, _, anchor = rest.partition("#")
        known = {
            "help": PAGES.keys(),
            "tour": tours,
            "page": set(get_args(Page)),
            "lab": labs,
            "ask": QUESTIONS.keys(),
            "recipe": {path.stem for path in (resources_folder() / "recipes").glob("*.toml")},
            "model": {path.name for path in (resources_folder() / "models").iterdir()},
        }
        assert kind in known, link
        assert name in known[kind], link
        if anchor:
            assert anchor in {heading_slug(heading) for heading in PAGES[name].headings}, link


def test_that_every_word_of_the_program_is_explained():
    explained = " ".join(PAGES["words"].headings).lower().replace(",", " ").split()
    assert not [word for word in WORDS if word not in explained]


def test_that_every_measure_is_defined_as_the_table_defines_it():
    for measure in CORPUS_MEASURES:
        row = f"| {measure.title} | {measure.unit} | {measure.definition.replace('|', '∣')} |"
        assert row in PAGES["measures"].text, measure.name


def test_that_a_search_finds_titles_before_text_and_every_word_must_be_there():
    pages = tuple(PAGES.values())
    found = find_in_help(pages, "pruning")
    assert found[0].page.name == "pruning"
    assert len(found) > 3
    assert [f.heading for f in find_in_help(pages, "saturates variance")] == ["Scaling by √d"]
    assert "saturates" in find_in_help(pages, "saturates variance")[0].excerpt
    assert find_in_help(pages, "nosuchword") == ()
    assert find_in_help(pages, "  ") == ()


@pytest.mark.parametrize(
    "query", ["lora", "fine-tun", "sweep", "span", "label", "gates", "preset", "scaling", "runs"]
)
def test_that_what_a_recipe_can_do_is_found_by_its_name(query):
    found = {place.page.name for place in find_in_help(tuple(PAGES.values()), query)}
    assert found & {"recipes", "train"}, query


def test_that_a_broken_help_folder_is_refused_by_name(tmp_path):
    with pytest.raises(LoadError, match=r"contents\.toml"):
        read_help(tmp_path)
    (tmp_path / "contents.toml").write_text('[[group]]\ntitle = "A"\npages = ["b"]\n')
    (tmp_path / "b.md").write_text("no title")
    with pytest.raises(LoadError, match="does not begin with a title"):
        read_help(tmp_path)


def test_that_every_command_that_a_text_of_the_program_names_has_the_options_it_is_given():
    """Pages, tours, and the heads of recipes; the README's commands are run elsewhere."""
    resources = resources_folder()
    texts = [
        *HELP.glob("*.md"),
        *(resources / "tours").glob("*.toml"),
        *(resources / "models").glob("*/*.toml"),
    ]
    found = 0
    for path in [*texts, *(resources / "recipes").rglob("*.toml")]:
        text = path.read_text(encoding="utf-8")
        lines = [
            *re.findall(r"`(attnscope [^`\n]+)`", text),
            *re.findall(r"^#.*?(attnscope [a-z]+ [^`\n]*)$", text, re.M),
        ]
        for line in lines:
            _, name, *words = line.replace('"', "").split()
            if not name.islower():
                continue  # attnscope FILE, attnscope COMMAND --help
            assert name in ("open", *COMMANDS), f"{path.name}: {line}"
            parsers = build_parser([name])._subparsers._group_actions[0].choices
            options = {word for word in words if re.match(r"--?[a-z]", word)}
            assert options <= parsers[name]._option_string_actions.keys(), f"{path.name}: {line}"
            found += 1
    assert found > 50
