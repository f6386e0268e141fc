"""Scripts by which a shell completes the command line. They hold every word, so that a Tab starts no Python. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

Shell = Literal["bash", "zsh", "fish"]

_BASH = """\
_floorkeeper() {{
    local line="${{COMP_WORDS[*]:1:$((COMP_CWORD - 1))}}" words
    case "$line " in
{cases}
    esac
    COMPREPLY=($(compgen -W "$words" -- "${{COMP_WORDS[COMP_CWORD]}}"))
}}
complete -o default -F _floorkeeper floorkeeper
"""
_ZSH = "autoload -U +X compinit && compinit\nautoload -U +X bashcompinit && bashcompinit\n"


def script(shell: Shell, words: Mapping[str, Sequence[str]]) -> str:
    """What `source` reads. `words` are those that may follow each command: {'': ['serve', …], 'policy': ['check', …]}.

    Where none of them fits, the shell completes file names.
    """
    if shell == "fish":
        return "".join(_fish(command, following) for command, following in words.items())
    # The longest command first: 'policy check' begins with 'policy'.
    ordered = sorted(words.items(), key=lambda row: len(row[0]), reverse=True)
    cases = "\n".join(f'        "{name} "*) words="{" ".join(row)}" ;;' for name, row in ordered if name)
    bash = _BASH.format(cases=f'{cases}\n        *) words="{" ".join(words[""])}" ;;')
    return _ZSH + bash if shell == "zsh" else bash


def _fish(command: str, words: Sequence[str]) -> str:
    follows = rf"^\S+ {command} " if command else r"^\S+ \S*\$"
    return f"complete -c floorkeeper -n 'string match -qr \"{follows}\" -- (commandline -pc)' -a '{' '.join(words)}'\n"
