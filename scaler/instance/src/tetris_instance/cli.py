"""The command ``tetris-instance``."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Sequence

from tetris_instance import options
from tetris_instance.errors import ConfigurationError


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve one model or many, and return the exit status."""
    try:
        chosen = options.parse(sys.argv[1:] if arguments is None else arguments, os.environ)
        logging.basicConfig(
            level=chosen.log_level.upper(), format="%(asctime)s %(levelname)s %(name)s: %(message)s", stream=sys.stderr
        )
        if chosen.repository is not None:
            from tetris_instance.executor.server import ExecutorServer

            return ExecutorServer(chosen).run()
        from tetris_instance.server import Server

        return Server(chosen).run()
    except ConfigurationError as error:
        print(f"tetris-instance: {error}", file=sys.stderr)
        return 2
