"""ONNX Runtime sessions on the store: results, what is shared, and what is left to plain ONNX Runtime."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")

import onnx_models
import tetris
from onnx import TensorProto, helper, numpy_helper
from onnx_models import CASES, Case
from tetris.onnxruntime import InferenceSession, SessionOptions

WEIGHTS = ("prepacked", "unpacked", "private_prepacked", "optimized")
MIB = 1 << 20


@pytest.fixture
def agent(store: Path) -> tetris.Agent:
    """An agent of that store."""
    return tetris.Agent(store)


def plain(model: str | bytes, case: Case, *, unpacked: bool = False, **more: object) -> list[np.ndarray]:
    """Outputs of ONNX Runtime itself."""
    options = onnxruntime.SessionOptions()
    if unpacked:
        options.add_session_config_entry("session.disable_prepacking", "1")
    return onnxruntime.InferenceSession(model, options, **more).run(None, case.inputs)


def assert_same(found: list[np.ndarray], expected: list[np.ndarray]) -> None:
    """Every output has the same type, shape and bits."""
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        assert (one.dtype, one.shape) == (other.dtype, other.shape)
        assert one.tobytes() == other.tobytes() if one.dtype != object else one.tolist() == other.tolist()


def objects(agent: tetris.Agent) -> set[str]:
    """File names of the objects in the store."""
    return set(os.listdir(agent.objects_dir))


class TestResults:
    @pytest.mark.parametrize("weights", WEIGHTS)
    @pytest.mark.parametrize("name", CASES)
    def test_outputs_are_those_of_plain_onnxruntime_bit_for_bit(
        self, agent: tetris.Agent, tmp_path: Path, name: str, weights: str
    ) -> None:
        case = CASES[name]()
        path = case.save(tmp_path / "model.onnx")
        expected = plain(path, case, unpacked=weights == "unpacked")
        for _ in ("made", "found"):
            session = InferenceSession(path, weights=weights, agent=agent)
            assert session.sharing.weights == weights, session.sharing.reason
            assert_same(session.run(None, case.inputs), expected)

    @pytest.mark.parametrize("weights", WEIGHTS)
    def test_a_model_in_bytes_is_shared_like_one_in_a_file(self, agent: tetris.Agent, weights: str) -> None:
        case = onnx_models.matmul_stack()
        model = case.model.SerializeToString()
        expected = plain(model, case, unpacked=weights == "unpacked")
        for _ in ("made", "found"):
            session = InferenceSession(model, weights=weights, agent=agent)
            assert session.sharing.weights == weights
            assert_same(session.run(None, case.inputs), expected)

    def test_session_is_one_of_onnxruntime_with_the_same_inputs_outputs_and_metadata(
        self, agent: tetris.Agent, tmp_path: Path
    ) -> None:
        case = onnx_models.overridable()
        path = case.save(tmp_path / "model.onnx")
        session, other = InferenceSession(path, agent=agent), onnxruntime.InferenceSession(path)
        assert isinstance(session, onnxruntime.InferenceSession)
        for get in ("get_inputs", "get_outputs", "get_overridable_initializers"):
            found = [(arg.name, arg.type, arg.shape) for arg in getattr(session, get)()]
            assert found == [(arg.name, arg.type, arg.shape) for arg in getattr(other, get)()]
        assert session.get_modelmeta().custom_metadata_map == {"note": "kept"}
        assert session.get_modelmeta().graph_name == other.get_modelmeta().graph_name
        override = {**case.inputs, "w": onnx_models.matrix(77)}
        assert_same(session.run(None, override), other.run(None, override))

    def test_providers_can_be_set_anew(self, agent: tetris.Agent, tmp_path: Path) -> None:
        case = onnx_models.matmul_stack()
        path = case.save(tmp_path / "model.onnx")
        session = InferenceSession(path, providers=["CPUExecutionProvider"], agent=agent)
        session.set_providers(["CPUExecutionProvider"])
        assert_same(session.run(None, case.inputs), plain(path, case))

    def test_disabled_optimizers_are_passed_on(self, agent: tetris.Agent, tmp_path: Path) -> None:
        case = onnx_models.matmul_stack()
        path = case.save(tmp_path / "model.onnx")
        more = {"disabled_optimizers": ["MatMulAddFusion"]}
        for weights in ("prepacked", "optimized"):
            session = InferenceSession(path, weights=weights, agent=agent, **more)
            assert session.sharing.weights == weights
            assert session.sharing.packed_bytes > 0
            assert_same(session.run(None, case.inputs), plain(path, case, **more))


class TestObjects:
    def test_a_tensor_is_one_object_in_all_models(self, agent: tetris.Agent, tmp_path: Path) -> None:
        shared = agent.publish(onnx_models.matrix(1).tobytes())
        stack = InferenceSession(onnx_models.matmul_stack().save(tmp_path / "a.onnx"), weights="unpacked", agent=agent)
        gemm = InferenceSession(onnx_models.gemm_stack().save(tmp_path / "b.onnx"), weights="unpacked", agent=agent)
        assert shared.object in stack.sharing.objects
        assert shared.object in gemm.sharing.objects

    def test_small_tensors_share_an_object(self, agent: tetris.Agent, tmp_path: Path) -> None:
        path = onnx_models.many_small().save(tmp_path / "model.onnx")
        session = InferenceSession(path, weights="unpacked", agent=agent)
        assert len(session.sharing.objects) == 2  # the graph, and that of the tensors
        assert session.sharing.tensor_bytes >= 64 * 2048

    def test_objects_stay_while_the_session_lives(self, agent: tetris.Agent, tmp_path: Path) -> None:
        case = onnx_models.matmul_stack()
        session = InferenceSession(case.save(tmp_path / "model.onnx"), agent=agent)
        assert {os.path.basename(path) for path in held_objects(agent)} >= set(session.sharing.objects)
        del session
        assert not held_objects(agent)

    def test_gc_leaves_what_a_session_uses_and_takes_the_rest(
        self, store: Path, agent: tetris.Agent, tmp_path: Path, tetris_bin: str
    ) -> None:
        def gc() -> None:
            subprocess.run([tetris_bin, "gc", "--store", store], check=True, stdout=subprocess.DEVNULL)

        case = onnx_models.matmul_stack()
        path = case.save(tmp_path / "model.onnx")
        session = InferenceSession(path, agent=agent)
        gc()
        assert objects(agent) >= set(session.sharing.objects)
        expected = session.run(None, case.inputs)
        del session
        gc()
        assert not objects(agent)
        session = InferenceSession(path, agent=agent)
        assert session.sharing.weights == "prepacked"
        assert_same(session.run(None, case.inputs), expected)

    def test_what_was_reclaimed_is_made_again(self, agent: tetris.Agent, tmp_path: Path) -> None:
        case = onnx_models.matmul_stack()
        path = case.save(tmp_path / "model.onnx")
        expected = plain(path, case)
        session = InferenceSession(path, agent=agent)
        names = list(session.sharing.objects)
        del session
        before = objects(agent)
        for gone in (names[:1], names[1:2], names, sorted(before)):
            for name in gone:
                os.unlink(os.path.join(agent.objects_dir, name))
            session = InferenceSession(path, agent=agent)
            assert session.sharing.weights == "prepacked", session.sharing.reason
            assert_same(session.run(None, case.inputs), expected)
            del session
            assert objects(agent) == before

    def test_optimized_shares_the_weights_that_optimizers_make(self, agent: tetris.Agent, tmp_path: Path) -> None:
        case = onnx_models.conv_stack()
        path = case.save(tmp_path / "model.onnx")
        unpacked = InferenceSession(path, weights="unpacked", agent=agent)
        session = InferenceSession(path, weights="optimized", agent=agent)
        assert set(session.sharing.objects) - set(unpacked.sharing.objects)
        assert_same(session.run(None, case.inputs), plain(path, case))


def held_objects(agent: tetris.Agent) -> set[str]:
    """Paths of the objects that this process maps."""
    with open("/proc/self/maps", encoding="utf-8") as maps:
        paths = {line.split(maxsplit=5)[5].strip() for line in maps if agent.objects_dir in line}
    return {path for path in paths if not path.endswith("(deleted)")}


class Processes:
    """Processes with a session each, all alive at the same time."""

    def __init__(self, store: Path, model: str, case: Case, weights: str, count: int, folder: Path) -> None:
        inputs = folder / "inputs.npz"
        np.savez(inputs, **case.inputs)
        script = Path(__file__).with_name("onnx_process.py")
        command = [sys.executable, os.fspath(script), model, os.fspath(inputs), weights]
        environment = {**os.environ, "TETRIS_STORE": os.fspath(store)}
        self.children: list[subprocess.Popen] = []
        self.found: list[dict] = []
        for _ in range(count):
            child = subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            self.children.append(child)
        for child in self.children:
            line = child.stdout.readline()
            assert line, f"process ended with {child.wait()}"
            self.found.append(json.loads(line))

    def proportional_bytes(self, folder: str) -> int:
        """Sum over the processes of the proportional share of what they map below `folder`."""
        return sum(_proportional_bytes(child.pid, folder) for child in self.children)

    def end(self) -> None:
        """End the processes."""
        for child in self.children:
            child.communicate()
            assert child.returncode == 0


def _proportional_bytes(pid: int, folder: str) -> int:
    total, inside = 0, False
    with open(f"/proc/{pid}/smaps", encoding="utf-8") as smaps:
        for line in smaps:
            if re.match(r"[0-9a-f]+-[0-9a-f]+ ", line):
                inside = folder in line
            elif inside and line.startswith("Pss:"):
                total += int(line.split()[1]) * 1024
    return total


@contextlib.contextmanager
def processes(*args: object) -> Iterator[Processes]:
    """Processes that have run once and wait."""
    group = Processes(*args)
    try:
        yield group
    finally:
        group.end()


class TestProcesses:
    WIDTH, LAYERS = 768, 8

    @pytest.mark.parametrize("weights", WEIGHTS)
    def test_eight_processes_hold_one_copy(
        self, store: Path, agent: tetris.Agent, tmp_path: Path, weights: str
    ) -> None:
        case = onnx_models.matmul_stack(self.LAYERS, self.WIDTH)
        path = case.save(tmp_path / "model.onnx")
        weight_bytes = self.LAYERS * self.WIDTH * self.WIDTH * 4
        options = SessionOptions()
        options.intra_op_num_threads = 1
        kept = InferenceSession(path, options, weights=weights, agent=agent)  # made here; the processes find it
        assert kept.sharing.tensor_bytes >= weight_bytes
        assert (kept.sharing.packed_bytes >= weight_bytes) == (weights in ("prepacked", "optimized"))
        del kept
        with processes(store, path, case, weights, 8, tmp_path) as group:
            shared = group.proportional_bytes(agent.objects_dir)
        with processes(store, path, case, "plain", 1, tmp_path) as other:
            private = other.found[0]["anon_kib"]
        assert [found["weights"] for found in group.found] == [weights] * 8
        assert not any(found["onnx"] for found in group.found), "a known model was parsed"
        assert len({found["outputs"] for found in group.found}) == 1
        if weights != "unpacked":
            assert group.found[0]["outputs"] == other.found[0]["outputs"]
        if weights == "private_prepacked":
            return
        # Of a packed weight, the unpacked form is in the store, and no longer mapped.
        assert 0.9 * weight_bytes <= shared <= 1.1 * weight_bytes + MIB
        for found in group.found:
            saved = (private - found["anon_kib"]) * 1024
            assert saved >= 0.8 * weight_bytes, "a private copy of the weights stayed"

    def test_a_known_model_is_opened_without_a_private_copy_at_any_time(
        self, store: Path, agent: tetris.Agent, tmp_path: Path
    ) -> None:
        case = onnx_models.matmul_stack(self.LAYERS, self.WIDTH)
        path = case.save(tmp_path / "model.onnx")
        kept = InferenceSession(path, weights="unpacked", agent=agent)
        with processes(store, path, case, "unpacked", 1, tmp_path) as group:
            found = group.found[0]
        # Nothing of the objects has been touched when the session is there, so all growth would be private.
        grown = (found["hwm_made_kib"] - found["hwm_before_kib"]) * 1024
        assert grown < kept.sharing.tensor_bytes / 2 + 8 * MIB

    def test_processes_that_start_together_share(self, store: Path, agent: tetris.Agent, tmp_path: Path) -> None:
        case = onnx_models.matmul_stack()
        path = case.save(tmp_path / "model.onnx")
        with processes(store, path, case, "prepacked", 4, tmp_path) as group:
            pass
        assert [found["weights"] for found in group.found] == ["prepacked"] * 4
        assert len({found["outputs"] for found in group.found}) == 1


class TestExternalData:
    LAYOUTS = {
        "one file": {f"{kind}{i}": "model.data" for i in range(4) for kind in "wb"},
        "files": {f"w{i}": f"w{i}.bin" for i in range(4)},
        "subfolders": {"w0": "a/data", "w1": "a/data", "w2": "b/c/data"},
    }

    @pytest.mark.parametrize("weights", WEIGHTS)
    @pytest.mark.parametrize("layout", LAYOUTS)
    def test_external_data_is_shared(self, agent: tetris.Agent, tmp_path: Path, layout: str, weights: str) -> None:
        case = onnx_models.matmul_stack()
        expected = plain(case.model.SerializeToString(), case, unpacked=weights == "unpacked")
        path = onnx_models.make_external(case, tmp_path, files=self.LAYOUTS[layout], offset=64)
        for _ in ("made", "found"):
            session = InferenceSession(path, weights=weights, agent=agent)
            assert session.sharing.weights == weights, session.sharing.reason
            assert_same(session.run(None, case.inputs), expected)

    def test_inline_and_external_tensors_are_the_same_objects(self, agent: tetris.Agent, tmp_path: Path) -> None:
        inline = InferenceSession(
            onnx_models.matmul_stack().save(tmp_path / "inline.onnx"), weights="unpacked", agent=agent
        )
        case = onnx_models.matmul_stack()
        path = onnx_models.make_external(case, tmp_path, files=self.LAYOUTS["files"])
        external = InferenceSession(path, weights="unpacked", agent=agent)
        assert set(inline.sharing.objects) == set(external.sharing.objects)

    def test_a_relative_path_is_relative_to_the_current_folder(
        self, agent: tetris.Agent, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (tmp_path / "models").mkdir()
        case = onnx_models.matmul_stack()
        path = onnx_models.make_external(case, tmp_path / "models", files=self.LAYOUTS["subfolders"])
        expected = plain(path, case)
        monkeypatch.chdir(tmp_path)
        for model in ("models/model.onnx", Path("models/model.onnx")):
            session = InferenceSession(model, agent=agent)
            assert session.sharing.weights == "prepacked", session.sharing.reason
            assert_same(session.run(None, case.inputs), expected)
        monkeypatch.chdir(tmp_path / "models")
        for model in ("model.onnx", Path("model.onnx").read_bytes()):
            session = InferenceSession(model, agent=agent)
            assert session.sharing.weights == "prepacked", session.sharing.reason
            assert_same(session.run(None, case.inputs), expected)

    def test_a_changed_external_file_is_another_model(self, agent: tetris.Agent, tmp_path: Path) -> None:
        case = onnx_models.matmul_stack()
        path = onnx_models.make_external(case, tmp_path, files=self.LAYOUTS["files"])
        first = InferenceSession(path, agent=agent)
        (tmp_path / "w1.bin").write_bytes(onnx_models.matrix(123).tobytes())
        second = InferenceSession(path, agent=agent)
        assert second.sharing.weights == "prepacked"
        assert_same(second.run(None, case.inputs), plain(path, case))
        assert second.run(None, case.inputs)[0].tobytes() != first.run(None, case.inputs)[0].tobytes()

    @pytest.mark.parametrize("damage", ["missing", "short"])
    @pytest.mark.parametrize("known", [False, True])
    def test_bad_external_data_is_onnxruntimes_error(
        self, agent: tetris.Agent, tmp_path: Path, damage: str, known: bool
    ) -> None:
        case = onnx_models.matmul_stack()
        path = onnx_models.make_external(case, tmp_path, files=self.LAYOUTS["files"])
        if known:
            InferenceSession(path, agent=agent)
        if damage == "missing":
            (tmp_path / "w1.bin").unlink()
        else:
            os.truncate(tmp_path / "w1.bin", 1000)
        assert_same_error(path, agent)

    def test_a_link_out_of_the_folder_is_onnxruntimes_error(self, agent: tetris.Agent, tmp_path: Path) -> None:
        folder = tmp_path / "model"
        folder.mkdir()
        path = onnx_models.make_external(onnx_models.matmul_stack(), folder, files=self.LAYOUTS["files"])
        os.rename(folder / "w1.bin", tmp_path / "elsewhere")
        os.symlink("../elsewhere", folder / "w1.bin")
        assert_same_error(path, agent)

    def test_files_of_a_hugging_face_cache_are_shared(self, agent: tetris.Agent, tmp_path: Path) -> None:
        case = onnx_models.matmul_stack()
        blobs, snapshot = tmp_path / "blobs", tmp_path / "snapshots" / "main"
        for folder in (blobs, snapshot):
            folder.mkdir(parents=True)
        path = onnx_models.make_external(case, blobs, files={f"w{i}": "model.onnx_data" for i in range(4)})
        os.rename(path, blobs / "0123")
        os.rename(blobs / "model.onnx_data", blobs / "4567")
        os.symlink("../../blobs/0123", snapshot / "model.onnx")
        os.symlink("../../blobs/4567", snapshot / "model.onnx_data")
        path = os.fspath(snapshot / "model.onnx")
        session = InferenceSession(path, agent=agent)
        assert session.sharing.weights == "prepacked", session.sharing.reason
        assert_same(session.run(None, case.inputs), plain(path, case))

    @pytest.mark.parametrize("weights", WEIGHTS)
    def test_a_model_in_bytes_finds_its_folder_in_the_options(
        self, agent: tetris.Agent, tmp_path: Path, weights: str
    ) -> None:
        case = onnx_models.matmul_stack()
        expected = plain(case.model.SerializeToString(), case, unpacked=weights == "unpacked")
        path = onnx_models.make_external(case, tmp_path, files=self.LAYOUTS["subfolders"])
        options = SessionOptions() if weights == "optimized" else onnxruntime.SessionOptions()
        key = "session.model_external_initializers_file_folder_path"
        options.add_session_config_entry(key, os.fspath(tmp_path))
        for _ in ("made", "found"):
            session = InferenceSession(Path(path).read_bytes(), options, weights=weights, agent=agent)
            assert session.sharing.weights == weights, session.sharing.reason
            assert_same(session.run(None, case.inputs), expected)
        assert options.get_session_config_entry(key) == os.fspath(tmp_path)

    def test_prepacked_data_that_the_model_came_with_is_replaced(self, agent: tetris.Agent, tmp_path: Path) -> None:
        case = onnx_models.matmul_stack()
        path = case.save(tmp_path / "source.onnx")
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3
        options.optimized_model_filepath = os.fspath(tmp_path / "saved.onnx")
        for key, value in {
            "session.optimized_model_external_initializers_file_name": "saved.data",
            "session.optimized_model_external_initializers_min_size_in_bytes": "1024",
            "session.save_external_prepacked_constant_initializers": "1",
        }.items():
            options.add_session_config_entry(key, value)
        onnxruntime.InferenceSession(path, options)
        saved = os.fspath(tmp_path / "saved.onnx")
        session = InferenceSession(saved, agent=agent)
        assert session.sharing.packed_bytes > 0
        assert_same(session.run(None, case.inputs), plain(saved, case))


def assert_same_error(path: str, agent: tetris.Agent, **more: object) -> None:
    """Both classes raise the same error for a model."""
    with pytest.raises(Exception) as expected:
        onnxruntime.InferenceSession(path, **more)
    with pytest.raises(Exception) as found:
        InferenceSession(path, agent=agent, **more)
    assert found.type is expected.type
    assert str(found.value) == str(expected.value)


class TestOptions:
    def test_options_of_the_caller_are_not_changed(self, agent: tetris.Agent, tmp_path: Path) -> None:
        case = onnx_models.matmul_stack()
        path = case.save(tmp_path / "model.onnx")
        external = onnx_models.make_external(onnx_models.matmul_stack(), tmp_path, files={"w0": "w0.bin"})
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
        for weights in WEIGHTS:
            session = InferenceSession(path, options, weights=weights, agent=agent)
            assert session.get_session_options().intra_op_num_threads == 1
        for key in ("session.disable_prepacking", "session.model_external_initializers_file_folder_path"):
            with pytest.raises(RuntimeError):
                options.get_session_config_entry(key)
        assert options.graph_optimization_level == onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
        assert not options.optimized_model_filepath
        onnxruntime.InferenceSession(external, options)

    @pytest.mark.parametrize("level", ["ORT_DISABLE_ALL", "ORT_ENABLE_BASIC", "ORT_ENABLE_EXTENDED"])
    @pytest.mark.parametrize("weights", WEIGHTS)
    def test_optimization_levels_are_kept_apart(
        self, agent: tetris.Agent, tmp_path: Path, level: str, weights: str
    ) -> None:
        case = onnx_models.matmul_stack()
        path = case.save(tmp_path / "model.onnx")
        InferenceSession(path, weights=weights, agent=agent)
        options = SessionOptions()
        options.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, level)
        session = InferenceSession(path, options, weights=weights, agent=agent)
        assert session.sharing.weights == weights
        if weights == "unpacked":
            options.add_session_config_entry("session.disable_prepacking", "1")
        expected = onnxruntime.InferenceSession(path, options)
        assert_same(session.run(None, case.inputs), expected.run(None, case.inputs))

    def test_options_that_switch_prepacking_off_are_obeyed(self, agent: tetris.Agent, tmp_path: Path) -> None:
        case = onnx_models.matmul_stack()
        path = case.save(tmp_path / "model.onnx")
        options = onnxruntime.SessionOptions()
        options.add_session_config_entry("session.disable_prepacking", "1")
        session = InferenceSession(path, options, agent=agent)
        assert session.sharing.weights == "unpacked"
        assert_same(session.run(None, case.inputs), plain(path, case, unpacked=True))

    def test_initializers_given_in_the_options_are_used(self, agent: tetris.Agent, tmp_path: Path) -> None:
        case = onnx_models.matmul_stack()
        path = case.save(tmp_path / "model.onnx")
        before = InferenceSession(path, weights="prepacked", agent=agent).run(None, case.inputs)
        for make in (onnxruntime.SessionOptions, SessionOptions):
            for weights in WEIGHTS:
                options, given = make(), onnxruntime.OrtValue.ortvalue_from_numpy(onnx_models.matrix(55))
                options.add_initializer("w1", given)
                session = InferenceSession(path, options, weights=weights, agent=agent)
                if weights == "unpacked":
                    options.add_session_config_entry("session.disable_prepacking", "1")
                expected = onnxruntime.InferenceSession(path, options).run(None, case.inputs)
                assert_same(session.run(None, case.inputs), expected)
                assert expected[0].tobytes() != before[0].tobytes()

    @pytest.mark.skipif(not hasattr(onnxruntime.SessionOptions, "add_provider"), reason="no providers in options")
    def test_providers_in_the_options_are_kept(self, agent: tetris.Agent, tmp_path: Path) -> None:
        case = onnx_models.matmul_stack()
        path = case.save(tmp_path / "model.onnx")
        options = onnxruntime.SessionOptions()
        options.add_provider("CPUExecutionProvider", {})
        session = InferenceSession(path, options, agent=agent)
        assert session.sharing.weights == "private_prepacked"
        assert "CPU provider" in session.sharing.reason
        session = InferenceSession(path, options, weights="unpacked", agent=agent)
        assert session.sharing.weights is None
        assert "providers" in session.sharing.reason

    def test_optimized_with_options_that_cannot_be_read_is_prepacked_and_says_so(
        self, agent: tetris.Agent, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        case = onnx_models.matmul_stack()
        path = case.save(tmp_path / "model.onnx")
        with caplog.at_level(logging.WARNING, "tetris"):
            session = InferenceSession(path, onnxruntime.SessionOptions(), weights="optimized", agent=agent)
        assert session.sharing.weights == "prepacked"
        assert "tetris.onnxruntime.SessionOptions" in session.sharing.reason
        assert len(caplog.records) == 1

    def test_optimized_keeps_fixed_dimensions_apart(self, agent: tetris.Agent, tmp_path: Path) -> None:
        path = onnx_models.matmul_stack().save(tmp_path / "model.onnx")
        for rows in (2, 4, None):
            options = SessionOptions()
            if rows is not None:
                options.add_free_dimension_override_by_name("n", rows)
            session = InferenceSession(path, options, weights="optimized", agent=agent)
            assert session.sharing.weights == "optimized"
            assert session.get_inputs()[0].shape == [rows or "n", onnx_models.WIDTH]

    def test_optimized_is_the_same_graph_for_any_number_of_threads(self, agent: tetris.Agent, tmp_path: Path) -> None:
        path = onnx_models.matmul_stack().save(tmp_path / "model.onnx")
        graphs = set()
        for threads in (1, 2):
            options = SessionOptions()
            options.intra_op_num_threads = threads
            session = InferenceSession(path, options, weights="optimized", agent=agent)
            assert session.get_session_options().intra_op_num_threads == threads
            graphs.add(session.sharing.objects)
        assert len(graphs) == 1

    def test_a_copy_of_options_has_every_setting(self) -> None:
        from tetris._onnx.options import copy

        for make in (onnxruntime.SessionOptions, SessionOptions):
            options = make()
            options.intra_op_num_threads = 3
            options.logid = "mine"
            options.enable_mem_pattern = False
            options.add_session_config_entry("session.set_denormal_as_zero", "1")
            other = copy(options)
            other.add_session_config_entry("session.disable_prepacking", "1")
            assert (other.intra_op_num_threads, other.logid, other.enable_mem_pattern) == (3, "mine", False)
            assert other.get_session_config_entry("session.set_denormal_as_zero") == "1"
            with pytest.raises(RuntimeError):
                options.get_session_config_entry("session.disable_prepacking")

    def test_weights_of_another_name_are_refused(self, agent: tetris.Agent) -> None:
        with pytest.raises(ValueError, match="expected one of prepacked, unpacked"):
            InferenceSession("model.onnx", weights="packed", agent=agent)


class Refusing:
    """An agent whose store takes nothing: it raises, or returns private memory."""

    def __init__(self, agent: tetris.Agent, *, raises: bool) -> None:
        self._agent = agent
        self._raises = raises

    def __getattr__(self, name: str) -> object:
        return getattr(self._agent, name)

    def publish(self, data: bytes) -> object:
        """Refuse."""
        if self._raises:
            raise tetris.StoreFullError("no room")
        return type("Private", (), {"object": None, "path": None})()


class TestFallback:
    def assert_plain(
        self,
        caplog: pytest.LogCaptureFixture,
        path: str | bytes,
        case: Case,
        reason: str,
        *args: object,
        **more: object,
    ) -> None:
        """The session is one of plain ONNX Runtime, and that was said once."""
        caplog.clear()
        with caplog.at_level(logging.WARNING, "tetris"):
            session = InferenceSession(path, *args, **more)
        assert session.sharing.weights is None
        assert reason in session.sharing.reason
        said = [record for record in caplog.records if "plain ONNX Runtime" in record.getMessage()]
        assert len(said) == 1
        assert reason in said[0].getMessage()
        assert_same(session.run(None, case.inputs), plain(path, case))

    def test_without_a_store(self, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
        case = onnx_models.matmul_stack()
        path = case.save(tmp_path / "model.onnx")
        self.assert_plain(caplog, path, case, "no tensor store", agent=tetris.Agent())

    def test_a_process_without_a_store_is_told_once(
        self, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("TETRIS_STORE", os.fspath(tmp_path / "no-store"))
        path = onnx_models.matmul_stack().save(tmp_path / "model.onnx")
        with caplog.at_level(logging.WARNING, "tetris"):
            for _ in range(2):
                assert InferenceSession(path).sharing.weights is None
        assert len(caplog.records) == 1

    @pytest.mark.parametrize("raises", [True, False])
    def test_with_a_store_that_takes_nothing(
        self, agent: tetris.Agent, tmp_path: Path, caplog: pytest.LogCaptureFixture, raises: bool
    ) -> None:
        case = onnx_models.matmul_stack()
        path = case.save(tmp_path / "model.onnx")
        self.assert_plain(caplog, path, case, "could not take", agent=Refusing(agent, raises=raises))
        assert InferenceSession(path, agent=agent).sharing.weights == "prepacked", "a refusal was remembered"

    def test_a_model_that_onnxruntime_cannot_save_is_shared_without_prepacked_data(
        self,
        agent: tetris.Agent,
        tmp_path: Path,
        caplog: pytest.LogCaptureFixture,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        case = onnx_models.matmul_stack()
        path = case.save(tmp_path / "model.onnx")
        asked = []

        def fail(*args: object, **more: object) -> None:
            asked.append(args)
            raise RuntimeError("cannot be saved")

        monkeypatch.setattr(onnxruntime, "InferenceSession", fail)
        for _ in ("found out", "remembered"):
            caplog.clear()
            with caplog.at_level(logging.WARNING, "tetris"):
                session = InferenceSession(path, agent=agent)
            assert session.sharing.weights == "private_prepacked"
            assert "cannot be saved" in session.sharing.reason
            assert len(caplog.records) == 1
        assert len(asked) == 1
        monkeypatch.undo()
        assert_same(session.run(None, case.inputs), plain(path, case))

    def test_without_room_for_temporary_files(
        self,
        agent: tetris.Agent,
        tmp_path: Path,
        caplog: pytest.LogCaptureFixture,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        case = onnx_models.matmul_stack()
        path = case.save(tmp_path / "model.onnx")
        usage = shutil.disk_usage(tmp_path)
        monkeypatch.setattr(shutil, "disk_usage", lambda path: usage._replace(free=1000))
        session = InferenceSession(path, agent=agent)
        assert session.sharing.weights == "private_prepacked"
        assert "TMPDIR" in session.sharing.reason
        monkeypatch.undo()
        assert InferenceSession(path, agent=agent).sharing.weights == "prepacked", "a full disk was remembered"

    def test_a_model_in_ort_format(self, agent: tetris.Agent, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
        case = onnx_models.matmul_stack()
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3
        options.optimized_model_filepath = os.fspath(tmp_path / "model.ort")
        onnxruntime.InferenceSession(case.save(tmp_path / "model.onnx"), options)
        self.assert_plain(caplog, os.fspath(tmp_path / "model.ort"), case, "ORT format", agent=agent)
        ort = (tmp_path / "model.ort").read_bytes()
        self.assert_plain(caplog, ort, case, "not a model in ONNX format", agent=agent)

    def test_options_that_write_the_optimized_model(
        self, agent: tetris.Agent, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        case = onnx_models.matmul_stack()
        path = case.save(tmp_path / "model.onnx")
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3
        options.optimized_model_filepath = os.fspath(tmp_path / "optimized.onnx")
        self.assert_plain(caplog, path, case, "written to a file", options, agent=agent)
        assert (tmp_path / "optimized.onnx").exists()

    def test_external_data_inside_a_function(
        self, agent: tetris.Agent, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        case = onnx_models.function()
        tensor = case.model.functions[0].node[0].attribute[0].t
        (tmp_path / "inner").write_bytes(tensor.raw_data)
        tensor.ClearField("raw_data")
        tensor.data_location = TensorProto.EXTERNAL
        tensor.external_data.add(key="location", value="inner")
        path = case.save(tmp_path / "model.onnx")
        for _ in ("found out", "remembered"):
            self.assert_plain(caplog, path, case, "outside initializers", agent=agent)

    def test_without_the_package_onnx(self, store: Path, tmp_path: Path) -> None:
        case = onnx_models.matmul_stack()
        path = case.save(tmp_path / "model.onnx")

        def run() -> str:
            code = (
                "import sys; sys.modules['onnx'] = None\n"
                "from tetris.onnxruntime import InferenceSession\n"
                f"session = InferenceSession({path!r})\n"
                "print(session.sharing.weights, session.sharing.reason)\n"
            )
            environment = {**os.environ, "TETRIS_STORE": os.fspath(store)}
            return subprocess.run(
                [sys.executable, "-c", code], env=environment, check=True, text=True, stdout=subprocess.PIPE
            ).stdout

        assert run().startswith("None ")
        assert "tetris-store[onnxruntime]" in run()
        InferenceSession(path, agent=tetris.Agent(store))
        assert run().startswith("prepacked "), "a known model needs no onnx"
        (tmp_path / "external").mkdir()
        path = onnx_models.make_external(onnx_models.gemm_stack(), tmp_path / "external", files={"w0": "w0.bin"})
        InferenceSession(path, agent=tetris.Agent(store))
        assert run().startswith("prepacked "), "nor does one with external data"

    def test_bad_models_are_onnxruntimes_error(self, agent: tetris.Agent, tmp_path: Path) -> None:
        assert_same_error(os.fspath(tmp_path / "missing.onnx"), agent)
        (tmp_path / "noise.onnx").write_bytes(b"\xff" * 1000)
        assert_same_error(os.fspath(tmp_path / "noise.onnx"), agent)
        (tmp_path / "empty.onnx").touch()
        assert_same_error(os.fspath(tmp_path / "empty.onnx"), agent)
        case = onnx_models.matmul_stack()
        case.model.graph.node[0].op_type = "NoSuchOperator"
        assert_same_error(case.save(tmp_path / "operator.onnx"), agent)
        case = onnx_models.matmul_stack()
        case.model.graph.initializer[0].raw_data = b"short"
        assert_same_error(case.save(tmp_path / "short.onnx"), agent)

    def test_bad_arguments_are_onnxruntimes_error(self, agent: tetris.Agent, tmp_path: Path) -> None:
        path = onnx_models.matmul_stack().save(tmp_path / "model.onnx")
        assert_same_error(3, agent)
        assert_same_error(path, agent, providers="CPUExecutionProvider", provider_options=[{}], enable_fallback=0)
        assert_same_error(path, agent, providers=[3], enable_fallback=0)


class TestRealModel:
    def test_minilm_exported_by_torch(self, agent: tetris.Agent, tmp_path: Path) -> None:
        torch = pytest.importorskip("torch")
        transformers = pytest.importorskip("transformers")
        safetensors = pytest.importorskip("safetensors.torch")
        weights = Path(__file__).resolve().parents[3] / "target" / "minilm" / "model.safetensors"
        if not weights.exists():
            pytest.skip("no MiniLM weights: run tests/fetch-minilm.sh")
        config = transformers.BertConfig(
            hidden_size=384, num_hidden_layers=6, num_attention_heads=12, intermediate_size=1536
        )
        config._attn_implementation = "eager"
        inner = transformers.BertModel(config)
        inner.load_state_dict(safetensors.load_file(weights), strict=False)

        class Network(torch.nn.Module):
            """The model with the two arguments that are exported."""

            def __init__(self) -> None:
                super().__init__()
                self.inner = inner

            def forward(self, ids: torch.Tensor, mask: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
                out = self.inner(input_ids=ids, attention_mask=mask)
                return out.last_hidden_state, out.pooler_output

        network = Network().eval()
        ids = torch.arange(32).reshape(2, 16) + 2000
        path = os.fspath(tmp_path / "minilm.onnx")
        torch.onnx.export(
            network, (ids, torch.ones_like(ids)), path, dynamo=False, opset_version=17,
            input_names=["input_ids", "attention_mask"], output_names=["hidden", "pooled"],
        )  # fmt: skip
        case = Case(None, {"input_ids": ids.numpy(), "attention_mask": np.ones((2, 16), np.int64)})
        embeddings = safetensors.load_file(weights)["embeddings.word_embeddings.weight"].numpy().tobytes()
        shared = agent.publish(embeddings)
        for form in WEIGHTS:
            session = InferenceSession(path, weights=form, agent=agent)
            assert session.sharing.weights == form, session.sharing.reason
            assert session.sharing.tensor_bytes > 85 * MIB
            assert shared.object in session.sharing.objects, "the tensor of the safetensors file"
            assert_same(session.run(None, case.inputs), plain(path, case, unpacked=form == "unpacked"))


def test_tensors_of_less_than_a_byte_keep_their_bytes() -> None:
    from tetris._onnx import tensors

    tensor = helper.make_tensor("w", TensorProto.INT4, [3], b"\x21\x03", raw=True)
    assert tensors.nbytes(tensor) == 2
    assert tensors.data_of(tensor, ".") == b"\x21\x03"
    assert tensors.nbytes(numpy_helper.from_array(np.float32(1))) == 4
