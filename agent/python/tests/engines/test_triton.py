"""Triton's Python backend, with several instances of a model. The server is the one that nvidia-pytriton brings."""

from __future__ import annotations

import shutil
import sys
import sysconfig
from pathlib import Path

import pytest
from server_programs import Model, Store
from serving import FOLDER, OPEN_INFERENCE, check, open_inference

pytriton = pytest.importorskip("pytriton")


def backends(folder: Path) -> Path:
    """Triton's backends, with the Python backend for this version of Python."""
    triton = Path(pytriton.__file__).with_name("tritonserver")
    shutil.copytree(triton / "backends", folder)
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    shutil.copy(triton / "python_backend_stubs" / version / "triton_python_backend_stub", folder / "python")
    return folder


def test_instances_hold_one_copy(classifier: Model, servers_store: Store, tmp_path: Path) -> None:
    # Libraries of the server itself, which the copied backends no longer find beside them, and of Python.
    libraries = [Path(pytriton.__file__).parents[1] / "nvidia_pytriton.libs", sysconfig.get_config_var("LIBDIR")]
    kind = open_inference(
        "triton",
        [
            str(Path(pytriton.__file__).with_name("tritonserver") / "bin" / "tritonserver"),
            f"--model-repository={FOLDER / 'triton_models'}",
            f"--backend-directory={backends(tmp_path / 'backends')}",
            "--http-port={port}",
            "--allow-grpc=false",
            "--allow-metrics=false",
        ],
        LD_LIBRARY_PATH=":".join(map(str, libraries)),
    )
    check(kind, classifier, servers_store, tmp_path, ready=(f"{OPEN_INFERENCE}/ready", ""))
