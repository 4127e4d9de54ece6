"""Stores as the package's tests have them; processes of tests find the benchmarks."""

import importlib.util
import os
from pathlib import Path

BENCHMARKS = Path(__file__).resolve().parents[1]
PACKAGE = BENCHMARKS.parents[1] / "agent" / "python" / "tests" / "conftest.py"

os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(BENCHMARKS), os.environ.get("PYTHONPATH")]))

_spec = importlib.util.spec_from_file_location("package_conftest", PACKAGE)
assert _spec is not None and _spec.loader is not None
_fixtures = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_fixtures)
_environment, empty_dir, store = _fixtures._environment, _fixtures.empty_dir, _fixtures.store
