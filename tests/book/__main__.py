"""The book: its build, its generated pages, and the checks of all pages.

python3 tests/book build [--open]     builds it in target/book, with mdBook, and checks its links
python3 tests/book links              checks the links of all pages, anchors included; needs nothing else
python3 tests/book reference          checks the generated pages; `--write` writes them
python3 tests/book commands           compares the commands of all pages with the programs' help; needs their builds
python3 tests/book run [PAGE...]      runs the commands of pages, each page in a folder and with a store of its own
python3 tests/book blocks PAGE WORD...    prints the lines of a page's blocks with all these words behind their fence
"""

import argparse
import sys

import build
import commands
import links
import reference
import run


def main() -> int:
    """Runs one of the commands above and returns its exit status."""
    parser = argparse.ArgumentParser(
        prog="tests/book", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    verbs = parser.add_subparsers(dest="verb", required=True)
    building = verbs.add_parser("build")
    building.add_argument("--open", action="store_true", help="open it in a browser")
    verbs.add_parser("links")
    writing = verbs.add_parser("reference")
    writing.add_argument("--write", action="store_true")
    checking = verbs.add_parser("commands")
    checking.add_argument("--programs", help="folder of the built programs [default: target/debug]")
    running = verbs.add_parser("run")
    running.add_argument("pages", nargs="*", help="paths of pages; all pages with commands to run by default")
    running.add_argument("--programs", help="folder of the built programs [default: target/debug]")
    running.add_argument(
        "--with",
        dest="present",
        action="append",
        default=[],
        metavar="NEED",
        help="a need that is met here, such as `torch`; can be repeated",
    )
    running.add_argument("--list", action="store_true", help="print the commands and their needs, and run none")
    printing = verbs.add_parser("blocks")
    printing.add_argument("page")
    printing.add_argument("words", nargs="+")
    given = parser.parse_args()
    match given.verb:
        case "build":
            mistakes = build.build(given.open)
        case "links":
            mistakes = links.mistakes()
        case "reference":
            mistakes = reference.mistakes(given.write)
        case "commands":
            mistakes = commands.mistakes(given.programs)
        case "blocks":
            mistakes = run.print_blocks(given.page, set(given.words))
        case _:
            mistakes = run.mistakes(given.pages, given.programs, set(given.present), given.list)
    for mistake in mistakes:
        print(f"error: {mistake}", file=sys.stderr)
    return 1 if mistakes else 0


if __name__ == "__main__":
    sys.exit(main())
