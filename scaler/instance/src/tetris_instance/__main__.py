"""Entry point of ``python -m tetris_instance``."""

from tetris_instance.cli import main

if __name__ == "__main__":
    raise SystemExit(main())
