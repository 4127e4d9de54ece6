"""Modules and versions of an interpreter: `python -m tetris_bench.engines.installed MODULE,... PACKAGE,...`."""

import importlib.util
import json
import sys
from importlib import metadata


def versions(packages: list[str]) -> dict[str, str]:
    """Versions of those packages that are installed."""
    found = {}
    for package in packages:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return found


if __name__ == "__main__":
    modules, packages = (argument.split(",") for argument in sys.argv[1:3])
    missing = [module for module in modules if importlib.util.find_spec(module) is None]
    print(json.dumps({"missing": missing, "versions": versions(packages)}))
