"""`attnscope completion`: completion scripts for bash, zsh and fish, generated from the parser itself."""

import argparse
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from importlib import import_module
from types import MappingProxyType

from attnscope.cli.terminal import say
from attnscope.paths import resources_folder

_ABOUT = """\
Prints a script that completes commands, options, their values, names of models, recipes, labs and questions,
and files. bash: eval "$(attnscope completion bash)" in ~/.bashrc, or save it as
~/.local/share/bash-completion/completions/attnscope. zsh: save it as _attnscope in a folder of $fpath. fish:
save it as ~/.config/fish/completions/attnscope.fish. Print it again after an update.
"""
_DEVICES = ("auto", "cpu", "cuda", "mps")


@dataclass(frozen=True, slots=True, kw_only=True)
class Values:
    """Possible completions: some words, any file, or neither if nobody can list them."""

    words: tuple[str, ...] = ()
    has_files: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """An option by all its names; a switch has no values. With `needs_value` the next word is its value."""

    names: tuple[str, ...]
    meaning: str
    values: Values | None
    needs_value: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Completed:
    """A command, its options, and the completions of each argument."""

    name: str
    meaning: str
    options: tuple[Option, ...]
    places: tuple[Values, ...]


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser("completion", description=_ABOUT)
    parser.add_argument("shell", metavar="SHELL", choices=tuple(SHELLS), help="bash, zsh or fish")
    parser.set_defaults(run=run, device="cpu")


def run(arguments: argparse.Namespace) -> int:
    from attnscope.cli.main import COMMANDS, build_parser

    say(SHELLS[arguments.shell](*read_parser(build_parser(tuple(COMMANDS)), COMMANDS)))
    return 0


# What is completed: read from the parser, and for names of things from where they are kept.


def read_parser(
    parser: argparse.ArgumentParser, meanings: Mapping[str, str]
) -> tuple[tuple[Option, ...], tuple[Completed, ...]]:
    """The options before a command, and the commands with theirs; `meanings` of those without help."""
    branches = next(action for action in parser._actions if isinstance(action, argparse._SubParsersAction))
    told = {choice.dest: choice.help or "" for choice in branches._choices_actions}
    commands = tuple(
        Completed(
            name=name,
            meaning=told.get(name) or meanings[name],
            options=_options(name, branch),
            places=tuple(_values(name, action) for action in branch._actions if not action.option_strings),
        )
        for name, branch in branches.choices.items()
    )
    return _options("", parser), commands


def _options(command: str, parser: argparse.ArgumentParser) -> tuple[Option, ...]:
    return tuple(
        Option(
            names=tuple(action.option_strings),
            meaning=_meaning(parser, action),
            values=None if action.nargs == 0 else _values(command, action),
            needs_value=action.nargs is None,
        )
        for action in parser._actions
        if action.option_strings and action.help != argparse.SUPPRESS
    )


def _meaning(parser: argparse.ArgumentParser, action: argparse.Action) -> str:
    return " ".join(parser._get_formatter()._expand_help(action).split()) if action.help else ""


def _values(command: str, action: argparse.Action) -> Values:
    if action.choices is not None:
        return Values(words=tuple(str(choice) for choice in action.choices))
    if action.dest == "device":
        return Values(words=_DEVICES)
    metavar = action.metavar if isinstance(action.metavar, str) else action.dest
    named = _NAMES.get((command, metavar)) or _NAMES.get(("", metavar))
    return Values(words=tuple(named()) if named is not None else (), has_files=metavar in _FILES)


_FILES = frozenset(("MODEL", "PATH", "FILE", "OUT", "DIR", "FOLDER", "RUN", "RECIPE"))


def _models() -> list[str]:
    return sorted(path.parent.name for path in resources_folder().glob("models/*/config.json"))


def _recipes() -> list[str]:
    return sorted(path.stem for path in resources_folder().glob("recipes/*.toml"))


def _shelf() -> list[str]:
    from attnscope.hub.shelf import shelf_entries

    return [entry.short or entry.name for entry in shelf_entries()]


def _studies() -> list[str]:
    from attnscope.studies.study import studies

    return [card.name for card in studies()]


def _in(module: str, name: str) -> list[str]:
    return [*getattr(import_module(f"attnscope.{module}"), name)]


_NAMES: MappingProxyType[tuple[str, str], Callable[[], Iterable[str]]] = MappingProxyType(
    {
        ("", "MODEL"): _models,
        ("", "PATH"): _models,
        ("info", "MODEL"): lambda: [*_models(), *_in("nn", "PRESETS")],
        ("train", "RECIPE"): lambda: [*_recipes(), *_in("nn", "PRESETS")],
        ("get", "NAME"): _shelf,
        ("lab", "NAME"): lambda: _in("labs", "LABS"),
        ("ask", "NAME"): lambda: _in("questions", "QUESTIONS"),
        ("study", "NAME"): _studies,
        ("bench", "GROUP"): lambda: _in("cli.bench", "NAMES"),
    }
)
"""Meaning of a metavar, of one command or of all."""


# The three shells.


def _quoted(word: str) -> str:
    return "'" + word.replace("'", "'\\''") + "'"


_BASH = """\
# Completion of attnscope for bash.
_attnscope_offer() {
    local word
    for word in "$@"; do
        [[ $word == "$_attnscope_begun"* ]] && COMPREPLY+=("$word")
    done
}
_attnscope_files() {
    local word
    while IFS= read -r word; do COMPREPLY+=("$word"); done < <(compgen -f -- "$_attnscope_begun")
}
_attnscope_value() {
    case "$1" in
@VALUES@
        *) return 1 ;;
    esac
}
_attnscope_place() {
    case "$1" in
@PLACES@
    esac
}
_attnscope_options() {
    case "$1" in
@OPTIONS@
    esac
}
_attnscope() {
    local IFS=$' \\t\\n' word command='' before='' number=0 k
    local _attnscope_begun=${COMP_WORDS[COMP_CWORD]}
    COMPREPLY=()
    for ((k = 1; k < COMP_CWORD; k++)); do
        word=${COMP_WORDS[k]}
        if [[ $word == '=' ]]; then continue; fi
        if [[ $word == -* ]]; then
            before=$word
        elif [[ -n $before ]] && _attnscope_value "$command $before"; then
            before=''
        elif [[ -z $command ]]; then
            command=$word before=''
        else
            number=$((number + 1)) before=''
        fi
    done
    COMPREPLY=()
    [[ $_attnscope_begun == '=' ]] && _attnscope_begun=''
    _attnscope_begun=${_attnscope_begun#[\\"\\']}
    _attnscope_begun=${_attnscope_begun//\\\\/}
    if [[ $_attnscope_begun == -* ]]; then
        _attnscope_options "$command"
    elif [[ -z $before ]] || ! _attnscope_value "$command $before"; then
        _attnscope_place "$command $number"
    fi
}
complete -o filenames -F _attnscope attnscope"""


def bash_script(own: tuple[Option, ...], commands: tuple[Completed, ...]) -> str:
    """Functions that ask by command and option what to offer; for bash 3.2 and later."""
    values, places, options = [], [], []
    first = Values(words=tuple(command.name for command in commands), has_files=True)
    for name, listed, stands in (("", own, (first,)), *((c.name, c.options, c.places) for c in commands)):
        names = [word for option in listed for word in option.names]
        options.append(f"        {_quoted(name)}) _attnscope_offer {' '.join(map(_quoted, names))} ;;")
        for option in listed:
            if option.values is not None:
                labels = "|".join(_quoted(f"{name} {word}") for word in option.names)
                values.append(f"        {labels}) {_bash_offer(option.values)} ;;")
        for number, found in enumerate(stands):
            places.append(f"        {_quoted(f'{name} {number}')}) {_bash_offer(found)} ;;")
    return (
        _BASH.replace("@VALUES@", "\n".join(values))
        .replace("@PLACES@", "\n".join(places))
        .replace("@OPTIONS@", "\n".join(options))
    )


def _bash_offer(values: Values) -> str:
    words = f"_attnscope_offer {' '.join(map(_quoted, values.words))}" if values.words else ""
    files = "_attnscope_files" if values.has_files else ""
    return "; ".join((*filter(None, (words, files)), "return 0"))


_ZSH = """\
#compdef attnscope
# Completion of attnscope for zsh.
_attnscope() {
    local curcontext=$curcontext state line
    local -A opt_args
    local -a commands=(
@COMMANDS@
    )
    _arguments -C \\
@OWN@
        '1: :->command' '*:: :->rest'
    case $state in
        command) _alternative 'commands:command:{_describe command commands}' 'files:file:_files' ;;
        rest)
            case $words[1] in
@BRANCHES@
            esac ;;
    esac
}
if [ "$funcstack[1]" = _attnscope ]; then _attnscope "$@"; else compdef _attnscope attnscope; fi"""


def zsh_script(own: tuple[Option, ...], commands: tuple[Completed, ...]) -> str:
    """A completion function with the meaning of each command and option."""
    told = [f"        {_quoted(_zsh_plain(c.name) + ':' + _zsh_plain(c.meaning))}" for c in commands]
    branches = []
    for command in commands:
        specs = [spec for option in command.options for spec in _zsh_option(option)]
        specs += [f"{number}:value:{_zsh_action(values)}" for number, values in enumerate(command.places, 1)]
        joined = " \\\n                    ".join(map(_quoted, specs))
        branches.append(f"                {command.name}) _arguments {joined} ;;")
    mine = [f"        {_quoted(spec)} \\" for option in own for spec in _zsh_option(option)]
    return (
        _ZSH.replace("@COMMANDS@", "\n".join(told))
        .replace("@OWN@", "\n".join(mine))
        .replace("@BRANCHES@", "\n".join(branches))
    )


def _zsh_option(option: Option) -> list[str]:
    """A specification for each name of an option; one that takes a value may be given again."""
    meaning = _zsh_plain(option.meaning)
    if option.values is None:
        return [f"{name}[{meaning}]" for name in option.names]
    colon = ":" if option.needs_value else "::"
    tail = f"[{meaning}]{colon}value:{_zsh_action(option.values)}"
    return [f"*{name}{'=' if name.startswith('--') else ''}{tail}" for name in option.names]


def _zsh_plain(text: str) -> str:
    r"""Escape text for part of a zsh specification: `\[`, `\]`, `\:` and `\\`."""
    for sign in "\\[]:":
        text = text.replace(sign, f"\\{sign}")
    return text


def _zsh_action(values: Values) -> str:
    """Completion action for one argument; a space before a command keeps `_arguments` from adding options to
    it.
    """
    words = " ".join(_quoted_in_zsh(word) for word in values.words)
    if values.words and values.has_files:
        return f' _alternative "words\\:word\\:({words})" "files\\:file\\:_files"'
    return f"({words})" if values.words else "_files" if values.has_files else " "


def _quoted_in_zsh(word: str) -> str:
    """A word of a list within a specification, with separators escaped."""
    return "".join(f"\\{sign}" if sign in "\\ :()'\"" else sign for sign in word)


def fish_script(own: tuple[Option, ...], commands: tuple[Completed, ...]) -> str:
    lines = ["# Completion of attnscope for fish.", "complete -c attnscope -f", _FISH_PLACE]
    names = " ".join(command.name for command in commands)
    is_first = f"not __fish_seen_subcommand_from {names}"
    lines += [_fish_option(is_first, option) for option in own]
    lines.append(f"complete -c attnscope -n {_fish_quoted(is_first)} -F")
    for command in commands:
        lines.append(
            f"complete -c attnscope -n {_fish_quoted(is_first)} -a {command.name} "
            f"-d {_fish_quoted(command.meaning)}"
        )
    for command in commands:
        seen = f"__fish_seen_subcommand_from {command.name}"
        lines += [_fish_option(seen, option) for option in command.options]
        valued = [n for o in command.options if o.needs_value for n in o.names]
        for number, values in enumerate(command.places):
            at_place = f"__attnscope_at {number} {command.name} {' '.join(valued)}"
            lines += [
                f"complete -c attnscope -n {_fish_quoted(at_place)} -a {_fish_quoted(_fish_quoted(word))}"
                for word in values.words
            ]
            if values.has_files:
                lines.append(f"complete -c attnscope -n {_fish_quoted(at_place)} -F")
    return "\n".join(lines)


_FISH_PLACE = """\
# Whether so many words stand after a command, besides options; after it, the options that have a value.
function __attnscope_at
    set -l command $argv[2]
    set -l valued $argv[3..-1]
    set -l number -1
    set -l is_value 0
    for word in (commandline -opc)[2..-1]
        if test $is_value = 1
            set is_value 0
        else if string match -q -- '-*' $word
            contains -- $word $valued; and set is_value 1
        else if test $number = -1
            test $word = $command; or return 1
            set number 0
        else
            set number (math $number + 1)
        end
    end
    test $number = $argv[1]; and test $is_value = 0
end"""


def _fish_option(condition: str, option: Option) -> str:
    names = " ".join(f"-l {n[2:]}" if n.startswith("--") else f"-s {n[1:]}" for n in option.names)
    values = option.values
    takes = ""
    if values is not None:
        words = f" -a {_fish_quoted(' '.join(_fish_quoted(w) for w in values.words))}" if values.words else ""
        needs = " -r" if option.needs_value else ""
        takes = f"{needs}{words}{' -F' if values.has_files else ' -f'}"
    return (
        f"complete -c attnscope -n {_fish_quoted(condition)} {names}{takes} -d {_fish_quoted(option.meaning)}"
    )


def _fish_quoted(word: str) -> str:
    return "'" + word.replace("\\", "\\\\").replace("'", "\\'") + "'"


SHELLS: MappingProxyType[str, Callable[[tuple[Option, ...], tuple[Completed, ...]], str]] = MappingProxyType(
    {"bash": bash_script, "zsh": zsh_script, "fish": fish_script}
)
"""The writer of each shell's script."""
