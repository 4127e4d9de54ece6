"""KServe's Python server, one in each pod, over what KServe's storage initializer downloads."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tarfile
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import tetris
from server_programs import HANGS_S, WORKERS, Model, Server, Store, assert_nothing_held, assert_one_copy
from serving import serving, wait_until_ready

kserve = pytest.importorskip("kserve")
kubernetes = pytest.importorskip("kubernetes")
yaml = pytest.importorskip("yaml")

KSERVE = serving(
    "kserve",
    ["kserve_model", "--http_port", "{port}", "--enable_grpc", "false"],
    "/v1/models/classifier:predict",
    lambda features: {"instances": [features]},
    lambda document: document["predictions"][0],
)
#: What the init container of a pod runs.
INITIALIZER = "import sys; from kserve_storage import Storage; Storage.download_files([sys.argv[1]], [sys.argv[2]])"


@pytest.fixture
def published(tmp_path: Path) -> Iterator[tuple[Path, str]]:
    """A folder, and the URL from which others get its files."""
    folder = tmp_path / "published"
    folder.mkdir()
    handler = partial(SimpleHTTPRequestHandler, directory=folder)
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield folder, f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def initialized(uri: str, models: Path) -> Path:
    """The model that KServe's storage initializer puts into a pod's `/mnt/models`, here `models`."""
    subprocess.run([sys.executable, "-c", INITIALIZER, uri, models], check=True, timeout=HANGS_S)
    return models / "classifier.safetensors"


def check(model: Model, paths: list[Path], store: Store, tmp_path: Path) -> None:
    """Servers, each with separate paths, hold one copy, and leave nothing behind."""
    with ExitStack() as stack:
        servers = [
            stack.enter_context(Server(KSERVE, model._replace(path=path), store, tmp_path / f"log{place}"))
            for place, path in enumerate(paths)
        ]
        workers: set[int] = set()
        for server in servers:
            wait_until_ready(server, "/v1/models/classifier", "classifier")
            workers |= server.answers_of(model, 1, in_turn=False)
        assert len(workers) == len(servers)
        assert_one_copy(store, model, [pid for server in servers for pid in server.pids()], workers)
        for server in servers:
            server.terminate()
        assert_nothing_held(store)


def test_servers_hold_one_copy_of_what_each_has_downloaded(
    classifier: Model, servers_store: Store, published: tuple[Path, str], tmp_path: Path
) -> None:
    folder, url = published
    shutil.copy(classifier.path, folder / "classifier.safetensors")
    paths = [initialized(f"{url}/classifier.safetensors", tmp_path / f"models{place}") for place in range(WORKERS)]
    assert len({path.stat().st_ino for path in paths}) == WORKERS, "the initializer made no copies"
    check(classifier, paths, servers_store, tmp_path)
    # Each was read once, and had nothing that the store did not have.
    assert len(servers_store.identities()) == WORKERS


def test_archives_with_a_sidecar_are_recognized_without_reading_the_model(
    classifier: Model, servers_store: Store, published: tuple[Path, str], tmp_path: Path, tetris_bin: str
) -> None:
    folder, url = published
    model = tmp_path / "classifier.safetensors"
    shutil.copy(classifier.path, model)
    # A sidecar is for a time stamp, and the initializer's unpacking keeps whole seconds.
    os.utime(model, (1_700_000_000, 1_700_000_000))
    subprocess.run([tetris_bin, "hash", str(model)], check=True, timeout=HANGS_S)
    with tarfile.open(folder / "classifier.tar", "w") as archive:
        for file in (model, model.with_name(f"{model.name}.tetris")):
            archive.add(file, file.name)
    # The node has the model from elsewhere.
    agent: Any = tetris.Agent(servers_store.directory)
    agent.load(classifier.path)
    identities = servers_store.identities()
    assert len(identities) == 1
    paths = [initialized(f"{url}/classifier.tar", tmp_path / f"models{place}") for place in range(WORKERS)]
    check(classifier, paths, servers_store, tmp_path)
    # A file that is read gets a record.
    assert servers_store.identities() == identities


def test_placed_copies_are_recognized_without_reading_the_model(
    classifier: Model, servers_store: Store, published: tuple[Path, str], tmp_path: Path, tetris_bin: str
) -> None:
    folder, _ = published
    shutil.copy(classifier.path, folder / "classifier.safetensors")
    places = [tmp_path / f"models{place}" for place in range(WORKERS)]
    for place in places:
        command = [tetris_bin, "place", "--store", str(servers_store.directory), str(folder), str(place)]
        subprocess.run(command, check=True, timeout=HANGS_S)
    identities = servers_store.identities()
    check(classifier, [place / "classifier.safetensors" for place in places], servers_store, tmp_path)
    assert servers_store.identities() == identities


def test_servers_hold_one_copy_of_a_volume(
    classifier: Model, servers_store: Store, published: tuple[Path, str], tmp_path: Path
) -> None:
    folder, _ = published
    shutil.copy(classifier.path, folder / "classifier.safetensors")
    # The initializer links what is on this machine.
    paths = [initialized(f"file://{folder}", tmp_path / f"models{place}") for place in range(2)]
    assert all(path.is_symlink() for path in paths)
    check(classifier, paths, servers_store, tmp_path)
    assert len(servers_store.identities()) == 1


#: The sample of KServe, which its package describes.
SAMPLE = Path(__file__).parents[4] / "deploy" / "samples" / "kserve"


def made(document: Any, kind: str, where: str) -> Any:
    """An object of KServe's or Kubernetes' client, which looks at required fields. Unknown ones are errors too."""
    if outer := re.fullmatch(r"[Ll]ist\[(.*)\]", kind):
        assert isinstance(document, list), where
        return [made(part, outer[1], f"{where}[{place}]") for place, part in enumerate(document)]
    if outer := re.fullmatch(r"[Dd]ict[([]str, (.*)[)\]]", kind):
        assert isinstance(document, dict), where
        return {name: made(part, outer[1], f"{where}.{name}") for name, part in document.items()}
    cls = getattr(kserve.models, kind, None) or getattr(kubernetes.client, kind, None)
    if cls is None:
        # One of Python's.
        assert type(document).__name__ == kind, f"{where}: {document!r} is no {kind}"
        return document
    assert isinstance(document, dict), where
    names = {outside: inside for inside, outside in cls.attribute_map.items()}
    assert set(document) <= set(names), f"{where}: {set(document) - set(names)}"
    fields = {
        names[name]: made(part, cls.openapi_types[names[name]], f"{where}.{name}") for name, part in document.items()
    }
    return cls(**fields)


def test_sample_is_what_kserve_describes_and_gets_the_package() -> None:
    documents = {file.stem: yaml.safe_load(file.read_text()) for file in SAMPLE.glob("*.yaml")}
    runtime = made(documents["serving-runtime"], "V1alpha1ServingRuntime", "ServingRuntime")
    service = made(documents["inference-service"], "V1beta1InferenceService", "InferenceService")
    assert service.spec.predictor.model.runtime == runtime.metadata.name
    assert service.spec.predictor.model.model_format.name in {
        supported.name for supported in runtime.spec.supported_model_formats
    }
    # What the webhook looks at, on the pods.
    (container,) = runtime.spec.containers
    assert runtime.spec.labels["tetris.dev/inject"] == "python"
    assert container.name in runtime.spec.annotations["tetris.dev/containers"].split(", ")
    # KServe finds the initializer by the source, and the webhook the model.
    storage = made(documents["storage-container"], "V1alpha1ClusterStorageContainer", "ClusterStorageContainer")
    source = service.spec.predictor.model.storage_uri
    assert source.startswith(storage.spec.supported_uri_formats[0].prefix)
    assert source == f"tetris://{documents['model']['metadata']['name']}"
    assert storage.spec.container.name == "storage-initializer"
    # Errors are distinguished.
    wrong = {**documents["serving-runtime"], "spec": {**documents["serving-runtime"]["spec"], "label": {}}}
    with pytest.raises(AssertionError, match="label"):
        made(wrong, "V1alpha1ServingRuntime", "ServingRuntime")
