"""The examples as real processes: servers with several workers, pools and actors hold one copy of the weights.

What the kernel says of the processes decides: their mappings and pages (proc_pid_smaps(5)), and the locks that are the
references to the store's objects (proc_locks(5)).
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import tempfile
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from server_programs import (
    HANGS_S,
    WORKERS,
    Filter,
    Kind,
    Model,
    Server,
    Store,
    assert_nothing_held,
    assert_one_copy,
    made_classifier,
    require,
    signal_all,
    stored,
    wait_for_references,
)

torch = pytest.importorskip("torch")

TEXTS = ["one copy of every tensor", "however many processes", "tensor tensor one"]


@pytest.fixture
def store() -> Iterator[Store]:
    """An empty store."""
    directory = Path(tempfile.mkdtemp(prefix="tetris-servers-", dir="/dev/shm"))
    yield Store(directory)
    shutil.rmtree(directory)


# Models, and what they are to answer.


@pytest.fixture(scope="module")
def classifier(tmp_path_factory: pytest.TempPathFactory) -> Model:
    """The model of most examples."""
    return made_classifier(tmp_path_factory.mktemp("classifier"))


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Model:
    """A model and a tokenizer as Hugging Face lays them out."""
    require("transformers")
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

    path = tmp_path_factory.mktemp("encoder")
    words = ["[UNK]", "[PAD]", *sorted({word for text in TEXTS for word in text.split()})]
    made = Tokenizer(models.WordLevel({word: index for index, word in enumerate(words)}, "[UNK]"))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=made, unk_token="[UNK]", pad_token="[PAD]")
    tokenizer.save_pretrained(path)
    config = BertConfig(
        vocab_size=len(words),
        hidden_size=384,
        num_hidden_layers=4,
        num_attention_heads=6,
        intermediate_size=1536,
        max_position_embeddings=32,
    )
    model = BertModel(config).eval()
    model.save_pretrained(path)
    expected = []
    for text in TEXTS:
        with torch.inference_mode():
            hidden = model(**tokenizer(text, return_tensors="pt")).last_hidden_state
        expected.append(hidden[0].mean(dim=0).tolist())
    nbytes = sum(one.nbytes for one in stored(path / "model.safetensors").values())
    return Model(path, nbytes, TEXTS, expected)


def _embedding(name: str, command: list[str], *needs: str) -> Kind:
    return Kind(
        name,
        command,
        "encoder",
        "/embed",
        lambda text: {"texts": [text]},
        lambda document: document["embeddings"][0],
        ("fastapi", "transformers", *needs),
        {"TETRIS_PATCH": "1", "HF_HUB_OFFLINE": "1"},
    )


def _classifying(name: str, *options: str) -> Kind:
    command = [*GUNICORN, *options, "gunicorn_wsgi"]
    return Kind(
        name, command, "classifier", "/", lambda one: one, lambda document: document["scores"], ("gunicorn",), {}
    )


GUNICORN = ["gunicorn", "--bind", "127.0.0.1:{port}", "--no-control-socket", "--timeout", str(HANGS_S)]
UVICORN_FASTAPI = _embedding(
    "uvicorn-fastapi",
    ["uvicorn", "--port", "{port}", "--workers", "{workers}", "--timeout-worker-healthcheck", "60", "fastapi_app:app"],
    "uvicorn",
)
GUNICORN_FASTAPI = _embedding(
    "gunicorn-fastapi",
    [*GUNICORN, "-w", "{workers}", "-k", "uvicorn_worker.UvicornWorker", "fastapi_app:app"],
    "gunicorn",
    "uvicorn_worker",
)
GUNICORN_WSGI = _classifying("gunicorn-wsgi", "-w", "{workers}")
GUNICORN_PRELOAD = _classifying("gunicorn-wsgi-preload", "-w", "{workers}", "--preload")
GUNICORN_RECYCLING = _classifying("gunicorn-wsgi-max-requests", "-w", "2", "--max-requests", "5")


@pytest.fixture
def model_of(request: pytest.FixtureRequest) -> Callable[[Kind], Model]:
    """The model of a kind of server."""
    return lambda kind: request.getfixturevalue(kind.model)


def named(kind: Kind) -> str:
    """The name of its tests."""
    return kind.name


class TestServers:
    @pytest.mark.parametrize("kind", [UVICORN_FASTAPI, GUNICORN_FASTAPI, GUNICORN_WSGI, GUNICORN_PRELOAD], ids=named)
    def test_four_workers_hold_one_copy_and_leave_nothing_behind(
        self, kind: Kind, model_of: Callable[[Kind], Model], store: Store, tmp_path: Path
    ) -> None:
        kind.require()
        model = model_of(kind)
        with Server(kind, model, store, tmp_path / "log") as server:
            workers = server.answers_of(model, WORKERS)
            assert_one_copy(store, model, server.pids(), workers)
            server.terminate()
            assert_nothing_held(store)

    @pytest.mark.parametrize("kind", [UVICORN_FASTAPI, GUNICORN_WSGI], ids=named)
    def test_killed_worker_holds_nothing_and_its_successor_attaches(
        self, kind: Kind, model_of: Callable[[Kind], Model], store: Store, tmp_path: Path
    ) -> None:
        kind.require()
        model = model_of(kind)
        with Server(kind, model, store, tmp_path / "log") as server:
            workers = server.answers_of(model, WORKERS)
            wait_for_references(store, WORKERS)
            objects = set(store.objects())
            # So that there is no successor yet.
            os.kill(server.process.pid, signal.SIGSTOP)
            killed = workers.pop()
            os.kill(killed, signal.SIGKILL)
            wait_for_references(store, WORKERS - 1)
            os.kill(server.process.pid, signal.SIGCONT)
            assert len(server.answers_of(model, 1, without={*workers, killed})) == 1
            workers = server.answers_of(model, WORKERS, without={killed})
            assert_one_copy(store, model, server.pids(), workers)
            wait_for_references(store, WORKERS)
            assert set(store.objects()) == objects
            server.terminate()
            assert_nothing_held(store)

    def test_recycled_workers_attach_without_hashing_the_file(
        self, classifier: Model, store: Store, tmp_path: Path
    ) -> None:
        GUNICORN_RECYCLING.require()
        with Server(GUNICORN_RECYCLING, classifier, store, tmp_path / "log") as server:
            server.answers_of(classifier, 2)
            objects, identities = set(store.objects()), store.identities()
            assert len(identities) == 1
            # Each of which lives for five answers.
            server.answers_of(classifier, 6, in_turn=False)
            assert store.identities() == identities
            assert set(store.objects()) == objects
            server.terminate()
            assert_nothing_held(store)

    def test_reference_of_a_preloaded_model_outlives_the_master(
        self, classifier: Model, store: Store, tmp_path: Path
    ) -> None:
        GUNICORN_PRELOAD.require()
        with Server(GUNICORN_PRELOAD, classifier, store, tmp_path / "log") as server:
            workers = server.answers_of(classifier, WORKERS)
            # One mapping, made before the fork, so one reference.
            assert set(store.references()) == {1}
            last = workers.pop()
            # Workers end when they see that their master has gone, this one not yet.
            os.kill(last, signal.SIGSTOP)
            server.process.kill()
            signal_all(workers, signal.SIGTERM)
            server.process.wait()
            server.wait_for_end(but=[last])
            assert set(store.references()) == {1}
            assert store.pages_of(last).rss >= 0.9 * classifier.nbytes
            signal_all([last], signal.SIGTERM)
            signal_all([last], signal.SIGCONT)
            server.wait_for_end()
            assert_nothing_held(store)


#: Loads and computes, and lets a forked child compute the answer.
FORK = """
    import json, os, sys
    import classifier, torch

    torch.set_num_threads(1)
    model = classifier.load(sys.argv[1])
    for line in sys.stdin:
        classifier.answer(model, json.loads(line))
        child = os.fork()
        if child == 0:
            print(json.dumps(classifier.answer(model, json.loads(line))), flush=True)
            os._exit(0)
        os.waitpid(child, 0)
"""


class TestPools:
    @pytest.mark.parametrize("start_method", ["spawn", "fork", "forkserver"])
    def test_pool_holds_one_copy_and_leaves_nothing_behind(
        self, classifier: Model, store: Store, tmp_path: Path, start_method: str
    ) -> None:
        arguments: list[str | Path] = [classifier.path, "--start-method", start_method, "--workers", str(WORKERS)]
        with Filter("multiprocessing_pool.py", arguments, store, tmp_path / "log") as pool:
            workers = pool.answers_of(classifier, WORKERS)
            assert_one_copy(store, classifier, pool.pids(), workers)
            wait_for_references(store, WORKERS)
            pool.finish()
            assert_nothing_held(store)

    def test_killed_pool_leaves_nothing_behind(self, classifier: Model, store: Store, tmp_path: Path) -> None:
        with Filter("multiprocessing_pool.py", [classifier.path], store, tmp_path / "log") as pool:
            pool.answers_of(classifier, 1)
            pool.kill()
            pool.wait_for_end()
            assert_nothing_held(store)

    def test_forked_child_computes_where_the_parent_has_one_torch_thread(
        self, classifier: Model, store: Store, tmp_path: Path
    ) -> None:
        script = tmp_path / "fork.py"
        script.write_text(textwrap.dedent(FORK))
        with Filter(script, [classifier.path], store, tmp_path / "log") as parent:
            assert parent.process.pid not in parent.answers_of(classifier, 3)
            parent.finish()
            assert_nothing_held(store)

    def test_stat_says_what_a_pool_saves(
        self, classifier: Model, store: Store, tmp_path: Path, tetris_bin: str
    ) -> None:
        command = [tetris_bin, "stat", "--store", str(store.directory), "--format", "json"]
        arguments: list[str | Path] = [classifier.path, "--start-method", "fork", "--workers", str(WORKERS)]
        with Filter("multiprocessing_pool.py", arguments, store, tmp_path / "log") as pool:
            pool.answers_of(classifier, WORKERS)
            wait_for_references(store, WORKERS)
            said = json.loads(subprocess.check_output(command, timeout=HANGS_S))
            assert said["shared_factor"] == pytest.approx(WORKERS)
            assert said["referenced_bytes"] >= classifier.nbytes
            assert said["saved_bytes"] >= (WORKERS - 1) * classifier.nbytes
            pool.finish()
        said = json.loads(subprocess.check_output(command, timeout=HANGS_S))
        assert (said["holders"], said["referenced_objects"]) == (0, 0)


class TestActors:
    def test_actors_hold_one_copy_and_leave_nothing_behind(
        self, classifier: Model, store: Store, tmp_path: Path
    ) -> None:
        with Filter("ray_style.py", [classifier.path], store, tmp_path / "log") as actors:
            workers = actors.answers_of(classifier, WORKERS)
            assert_one_copy(store, classifier, actors.pids(), workers)
            wait_for_references(store, WORKERS)
            os.kill(workers.pop(), signal.SIGKILL)
            wait_for_references(store, WORKERS - 1)
            # The others end when their driver does, in whatever way.
            actors.process.kill()
            actors.wait_for_end()
            assert_nothing_held(store)

    def test_ray_actors_hold_one_copy_and_leave_nothing_behind(
        self, classifier: Model, store: Store, tmp_path: Path
    ) -> None:
        require("ray")
        with Filter("ray_actors.py", [classifier.path], store, tmp_path / "log", RAY_USAGE_STATS_ENABLED="0") as actors:
            workers = actors.answers_of(classifier, WORKERS)
            # Ray's processes are in sessions of their own; those that are no actors do not load.
            assert_one_copy(store, classifier, actors.pids(), workers)
            wait_for_references(store, WORKERS)
            actors.finish()
            wait_for_references(store, 0)
