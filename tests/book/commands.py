"""Commands on all chapters: subcommands and options that the programs have, and paths and packages that there are.

It reads what stands in blocks of code and begins with a program of ours, and so notices a renamed option on pages whose
commands no test runs.
"""

import functools
import itertools
import os
import re
import shlex
import subprocess
from pathlib import Path

from pages import ROOT, all_sources, chapters, page, shown

PROGRAMS = {"tetris", "tetris-node", "tetris-scaler", "tetris-gateway", "tetris-webhook"}
#: Words before a program that are no part of its command.
BEFORE = re.compile(r"^(sudo|exec|time|nice|then|do|-|\$|[A-Z_][A-Z0-9_]*=.*)$")
#: A path of the checkout in a command: `tests/rust`, `deploy/overlays/node`.
CHECKOUT = re.compile(r"^(?:\./)?((?:tests|deploy|agent|scaler|reclaimer|docs|store-layout|fuzz)/[\w./-]+)$")
#: Folders that builds and runs make.
MADE = ("fuzz/artifacts/", "fuzz/corpus-found/")
#: Pages whose commands are of the past, or whole lists of help.
LEFT_OUT = ("CHANGELOG.md", "docs/reference/tetris")


def mistakes(programs: str | None) -> list[str]:
    """A line for each command that cannot be as it stands."""
    folder = Path(programs or ROOT / "target/debug").resolve()
    absent = sorted(name for name in PROGRAMS if not (folder / name).exists())
    if absent:
        return [f"no {', '.join(absent)} in {folder}; build them with: cargo build --workspace --bins"]
    found, count = [], 0
    for path in chapters():
        if shown(path).startswith(LEFT_OUT):
            continue
        for line, words in commands(path):
            count += 1
            found += [f"{shown(path)}:{line}: {wrong}" for wrong in check(folder, words)]
    if count < 200:
        found.append(f"only {count} commands were found")
    return found


def commands(path: Path):
    """Commands of a page, each with the number of its line, as lists of words."""
    for block in page(path).code:
        if block.words and block.words[0] not in ("sh", "bash", "console"):
            continue
        number = block.line
        text = ""
        for offset, line in enumerate(block.lines):
            text = text or ""
            if line.rstrip().endswith("\\"):
                text += line.rstrip()[:-1] + " "
                continue
            text, line = "", text + line
            for words in split(line):
                yield number + offset, words


def split(line: str):
    """Simple commands of one line of shell."""
    try:
        lexer = shlex.shlex(line, posix=True, punctuation_chars="|&;()<>")
        lexer.whitespace_split = True
        lexer.commenters = "#"
        words = list(lexer)
    except ValueError:  # prose, or a quote that goes on in the next line
        return
    command: list[str] = []
    for word in [*words, ";"]:
        if set(word) <= set("|&;()<>"):
            while command and BEFORE.match(command[0]):
                command.pop(0)
            if command:
                yield command
            command = []
        else:
            command.append(word)


def check(folder: Path, words: list[str]) -> list[str]:
    """Mistakes in one command."""
    program = words[0].rsplit("/", 1)[-1]
    found = []
    if program in PROGRAMS and words[0] in (program, f"target/debug/{program}", f"target/release/{program}"):
        found += check_program(folder, program, words[1:])
    elif program == "cargo":
        found += [f"no package {name}" for name in named_packages(words) if name not in packages()]
    for before, word in itertools.pairwise(["", *words]):
        # `deploy/NAME` is a Deployment to kubectl, except as a file.
        if program == "kubectl" and before not in ("-f", "-k"):
            continue
        place = CHECKOUT.match(word)
        if place and not place[1].startswith(MADE) and not (ROOT / place[1]).exists():
            found.append(f"{place[1]} does not exist")
    return found


def named_packages(words: list[str]) -> list[str]:
    """Packages that a command of cargo names; `NAME` stands for any."""
    after = [name for word, name in itertools.pairwise(words) if word in ("-p", "--package")]
    return [name for name in after if name.islower()]


def check_program(folder: Path, program: str, words: list[str]) -> list[str]:
    """Mistakes in the subcommand and the options of one of our programs."""
    path: list[str] = []
    verbs = subcommands(folder, program, ())
    options = list(words)
    for word in words:
        if word == "--":
            break
        if not word.startswith("-") and word in verbs:
            path.append(word)
            options.remove(word)
            verbs = subcommands(folder, program, tuple(path))
            if not verbs:
                break
    if not path:
        if any(word in ("--help", "--version", "-h", "-V") for word in words) or not words:
            return []
        first = next((word for word in words if not word.startswith("-")), "")
        # Prose that begins with the program's name is no command.
        return [f"{program} has no subcommand {first}"] if re.fullmatch(r"[a-z][a-z-]+", first) else []
    text = help_of(folder, program, tuple(path))
    found = []
    for word in options:
        if word == "--":
            break
        name = word.partition("=")[0]
        if re.fullmatch(r"--[a-z][a-z-]*", name) and not re.search(rf"{name}(?![a-z-])", text):
            found.append(f"{program} {' '.join(path)} has no option {name}")
    return found


@functools.cache
def help_of(folder: Path, program: str, path: tuple[str, ...]) -> str:
    """The help of a subcommand."""
    environment = {"PATH": os.environ["PATH"]}
    return subprocess.run([folder / program, *path, "--help"], capture_output=True, text=True, env=environment).stdout


@functools.cache
def subcommands(folder: Path, program: str, path: tuple[str, ...]) -> frozenset[str]:
    """Names of the subcommands of a command."""
    _, _, rest = help_of(folder, program, path).partition("Commands:\n")
    return frozenset(re.findall(r"^  ([a-z][a-z-]*)", rest.split("\n\n")[0], re.MULTILINE))


@functools.cache
def packages() -> frozenset[str]:
    """Names of the workspace's packages."""
    found = set()
    for path in all_sources("Cargo.toml"):
        found.update(re.findall(r'^name = "([^"]+)"', path.read_text(), re.MULTILINE))
    return frozenset(found)
