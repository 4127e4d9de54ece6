"""Commands of pages, run as they stand.

Blocks of code say by the words behind their fence what becomes of them:

    sh run              runs; `sh run torch` where torch is there (`--with torch`)
    python run torch    is a program, behind tests/book/before/PAGE.py with the names that it takes for granted
    sh by=PATH          does not run here (a cluster, a GPU, a build); the file or program at PATH tests it
    LANGUAGE file=NAME  is written to that file
    LANGUAGE output     what the block before it prints; `...` stands for anything

tests/book/before/PAGE.sh makes what a page takes for granted, such as a model; tests/book/after/PAGE.sh checks what the
page promises. PAGE is its path with `-` for `/`.

A page runs in one bash with `-e`, in a folder of its own, so its blocks can use what those before them made. It has
mount, process and network namespaces of its own with empty /run, /dev/shm and /tmp: stores are there and nowhere else,
ports are free, and what it started ends with it. `sudo` only runs its arguments.
"""

import itertools
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from markdown import Code
from pages import ROOT, chapters, page, shown

#: Longest time of one page.
LIMIT_S = 300
MARK = "--- block of line"
SHELL = ("unshare", "--mount", "--net", "--pid", "--fork", "--kill-child", "--mount-proc")
#: The loopback device of a new network namespace is down: SIOCSIFFLAGS with IFF_UP and IFF_RUNNING (netdevice(7)).
LOOPBACK_UP = """
import fcntl, socket, struct
fcntl.ioctl(socket.socket(), 0x8914, struct.pack("16sh14x", b"lo", 0x41))
"""


def mistakes(names: list[str], programs: str | None, present: set[str], only_list: bool) -> list[str]:
    """Runs the pages, and returns a line for each mistake."""
    paths = [Path(name).resolve() for name in names] or [path for path in chapters() if runs(path)]
    found = [wrong for path in chapters() for wrong in unmarked(path)]
    if only_list:
        for path in paths:
            for block in page(path).code:
                if "run" in block.words:
                    print(f"{shown(path)}:{block.line}: {' '.join(block.words[2:])}\n  " + "\n  ".join(block.lines))
        return found
    if reason := cannot_run():
        print(f"SKIPPED: {reason}", file=sys.stderr)
        return found
    folder = Path(programs or ROOT / "target/debug").resolve()
    for path in paths:
        # agent/python/tests/test_book.py names the pages whose blocks need torch; all pages are run without these.
        chosen = able(path, present, say=bool(names))
        found += run_page(path, folder, chosen) if chosen else []
    return found


def print_blocks(name: str, words: set[str]) -> list[str]:
    """Prints the lines of a page's blocks with these words, for scripts that run them elsewhere."""
    found = [block for block in page(Path(name).resolve()).code if words <= set(block.words)]
    for block in found:
        print("\n".join(block.lines))
    return [] if found else [f"{name}: no block has {' and '.join(sorted(words))} behind its fence"]


def able(path: Path, present: set[str], say: bool) -> list[Code]:
    """Blocks to run whose needs are met; says which are left out."""
    chosen = []
    for block in page(path).code:
        if "run" in block.words:
            missing = [need for need in block.words[block.words.index("run") + 1 :] if need not in present]
            if not missing:
                chosen.append(block)
            elif say:
                print(f"SKIPPED: {shown(path)}:{block.line}: needs {' and '.join(missing)}", file=sys.stderr)
    return chosen


def runs(path: Path) -> bool:
    """Returns true if a page has commands to run."""
    return any("run" in block.words for block in page(path).code)


def unmarked(path: Path) -> list[str]:
    """Blocks of commands that say neither that they run nor what tests them."""
    found = []
    for block in page(path).code:
        if block.words[:1] != ("sh",):
            continue
        tested_by = [word[3:] for word in block.words if word.startswith("by=")]
        if "run" not in block.words and not tested_by:
            found.append(f"{shown(path)}:{block.line}: a block of commands is neither `sh run` nor `sh by=PATH`")
        found += [
            f"{shown(path)}:{block.line}: by={name} does not exist" for name in tested_by if not (ROOT / name).exists()
        ]
    return found


def cannot_run() -> str | None:
    """The reason for which no page can run on this machine."""
    if shutil.which("unshare") is None:
        return "no program unshare (util-linux)"
    tried = subprocess.run([*namespaces(), "sh", "-c", "mount -t tmpfs none /run"], capture_output=True, text=True)
    return f"no mount namespace: {tried.stderr.strip()}" if tried.returncode else None


def namespaces() -> list[str]:
    """The command that gives the rest of its arguments namespaces of their own."""
    return [*SHELL] if os.geteuid() == 0 else [*SHELL, "--map-root-user"]


def run_page(path: Path, programs: Path, chosen: list[Code]) -> list[str]:
    """Runs these blocks of a page and returns a line for each mistake."""
    blocks = page(path).code
    used = {
        word
        for block in chosen
        for word in re.findall(r"(?:^|[\s;|&(])(tetris(?:-\w+)?)(?=\s)", "\n".join(block.lines))
    }
    absent = sorted(name for name in used if not (programs / name).exists() and shutil.which(name) is None)
    if absent:
        return [f"{shown(path)}: no {', '.join(absent)} in {programs}; build them with: cargo build --workspace --bins"]
    # Not in /tmp, which is empty for the page.
    (ROOT / "target").mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="page-", dir=ROOT / "target") as name:
        folder = Path(name)
        write_files(blocks, folder)
        return outcome(path, blocks, chosen, execute(path, folder, chosen, programs))


def write_files(blocks: list[Code], folder: Path) -> None:
    """Writes the files that the page shows."""
    for block in blocks:
        for word in block.words:
            if word.startswith("file="):
                (folder / word[5:]).write_text("\n".join(block.lines) + "\n")


def hook(name: str, path: Path, kind: str = ".sh") -> str:
    """The script before or after a page; empty without one."""
    script = ROOT / "tests/book" / name / shown(path).replace("/", "-").replace(".md", kind)
    return script.read_text() if script.exists() else ""


def execute(path: Path, folder: Path, chosen: list[Code], programs: Path) -> subprocess.CompletedProcess[str]:
    """Runs the blocks in one shell."""
    tools = folder / ".tools"
    tools.mkdir()
    (tools / "sudo").write_text('#!/bin/sh\nexec "$@"\n')
    (tools / "sudo").chmod(0o755)
    script = [
        "for place in /run /dev/shm /tmp; do mount -t tmpfs -o mode=1777 none $place; done",
        f"set -euo pipefail\npython3 -c '{LOOPBACK_UP}'\ncd {folder}",
        hook("before", path),
    ]
    for block in chosen:
        script.append(f"echo '{MARK} {block.line}'; echo '{MARK} {block.line}' >&2")
        if block.words[0] == "python":
            program = tools / f"line_{block.line}.py"
            program.write_text(hook("before", path, ".py") + "\n".join(block.lines) + "\n")
            script.append(f"python {program}")
        else:
            script += block.lines
    script.append(hook("after", path))
    kept = {
        name: value for name, value in os.environ.items() if not name.startswith(("TETRIS_", "RUST_", "POD_", "NODE_"))
    }
    environment = kept | {
        "PATH": f"{tools}:{programs}:{os.environ['PATH']}",
        "HOME": str(folder),
        "CHECKOUT": str(ROOT),
        "PAGE": str(folder),
        "NO_COLOR": "1",
        "LC_ALL": "C.UTF-8",
    }
    command = [*namespaces(), "bash", "-c", "\n".join(script)]
    with subprocess.Popen(
        command,
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            out, err = process.communicate(timeout=LIMIT_S)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            out, err = process.communicate()
            err += f"\nended after {LIMIT_S} s"
    return subprocess.CompletedProcess(command, process.returncode, out, err)


def outcome(path: Path, blocks: list[Code], chosen: list[Code], result: subprocess.CompletedProcess[str]) -> list[str]:
    """Compares the end of the shell, and the outputs that the page shows."""
    printed = parts(result.stdout)
    if result.returncode:
        last = max(printed, default=0)
        told = parts(result.stderr).get(last, result.stderr).strip()
        return [f"{shown(path)}:{last}: the commands ended with {result.returncode}:\n{printed.get(last, '')}{told}"]
    found = []
    lines = {block.line for block in chosen}
    for before, after in itertools.pairwise(blocks):
        if before.line in lines and after.words[1:2] == ("output",):
            expected = "\n".join(line.rstrip() for line in after.lines).strip()
            actual = "\n".join(line.rstrip() for line in printed.get(before.line, "").splitlines()).strip()
            if not fits(expected, actual):
                found.append(f"{shown(path)}:{after.line}: expected\n{expected}\nfound\n{actual}")
    print(f"{shown(path)}: {len(chosen)} blocks ran")
    return found


def parts(output: str) -> dict[int, str]:
    """Output of each block, by the number of its line."""
    pieces = re.split(rf"^{re.escape(MARK)} (\d+)$\n?", output, flags=re.MULTILINE)
    return {int(line): text for line, text in zip(pieces[1::2], pieces[2::2], strict=True)}


def fits(expected: str, actual: str) -> bool:
    """Returns true if `actual` is `expected`, where `...` stands for anything, and runs of spaces for each other."""
    words = [re.escape(part) for part in re.split(r"\.\.\.", expected)]
    pattern = re.sub(r"(?:\\ )+", r" +", ".*?".join(words))
    return re.fullmatch(pattern, actual, re.DOTALL) is not None
