"""``python -m tetris``: diagnoses the store, this machine and this interpreter, as ``tetris doctor`` does."""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
from collections.abc import Sequence

#: Exit code of a failure, as of ``tetris doctor``.
FAILURE = 7

_EPILOG = """\
exit codes:
  0  all is well
  2  the command line is wrong
  6  warnings: something works less well than it could
  7  failures: something does not work

`tetris.doctor()` looks at a running program or notebook, from inside of it."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Print a diagnosis; returns the exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    # The only command, which may be left out.
    options = _parser().parse_args(given[1:] if given[:1] == ["doctor"] else given)
    # In the interpreter that is looked at, as a program would import it.
    with contextlib.suppress(Exception):
        __import__("safetensors")
    try:
        from tetris import doctor

        found = doctor(*options.models, store=options.store, pid=options.pid)
    except ImportError as error:
        return _without_native_half(error, options.format)
    print(found.json if options.format == "json" else found.text.rstrip("\n"))
    return found.exit_code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tetris [doctor]",
        description="Diagnoses the store, this machine, models, processes, and this interpreter; changes nothing.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("models", nargs="*", metavar="MODEL", help="a model to look at: a file or a directory")
    parser.add_argument("--pid", type=_positive, help="a process to look at: its shared and its private memory")
    parser.add_argument("--store", metavar="DIR", help="directory of the store")
    parser.add_argument("--format", choices=("text", "json"), default="text", help="format of the result")
    return parser


def _positive(text: str) -> int:
    number = int(text)
    if not 1 <= number < 1 << 32:
        raise argparse.ArgumentTypeError(f"expected a process id, found {text}")
    return number


def _without_native_half(error: ImportError, form: str) -> int:
    """Say that the package itself cannot be loaded, as far as that goes without it."""
    remedy = f"run `{sys.executable} -m pip install --force-reinstall --no-deps tetris-store`"
    found = f"the native half of tetris cannot be loaded: {error}"
    if form == "json":
        from tetris._doctor.checks import check

        package = check("package", "failure", found, remedy=remedy)
        section = {"name": "interpreter", "subject": sys.executable, "checks": [package]}
        print(json.dumps({"version": None, "status": "failure", "sections": [section]}))
    print(f"error: {found}; {remedy}", file=sys.stderr)
    return FAILURE


if __name__ == "__main__":
    sys.exit(main())
