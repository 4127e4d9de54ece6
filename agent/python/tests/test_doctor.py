"""`tetris.doctor()` and `python -m tetris`: the interpreter's part, and that of the native half."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import model_files
import pytest
import tetris
from model_files import floats
from process import Helper, python, run
from tetris._doctor.packages import TESTED, package_checks, release_of

PACKAGE = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file."""
    return model_files.write(tmp_path_factory.mktemp("doctor") / "m.safetensors", {"w": floats([512, 256])})


def checks(document: dict[str, Any], section: str) -> dict[str, dict[str, Any]]:
    """The checks of a section by name; the last of each."""
    [found] = [one for one in document["sections"] if one["name"] == section]
    return {check["name"]: check for check in found["checks"]}


def module(*arguments: object, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """Run `python -m tetris`."""
    command = [sys.executable, "-m", "tetris", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, **(env or {})})


def test_a_program_can_look_at_itself(store: Path, path: Path) -> None:
    program = """
        import json, os, sys, tetris.torch
        weights = tetris.torch.load_file(sys.argv[1])
        float(weights["w"].sum())
        found = tetris.doctor(sys.argv[1], pid=os.getpid())
        assert str(found) == found.text == repr(found)
        print(found.json)
    """
    document = python(program, path)
    process = checks(document, "process")
    assert process["shared"]["facts"]["objects"] == 1
    assert process["shared"]["facts"]["resident_bytes"] > 0
    assert process["python"]["facts"]["extension"] is True
    assert checks(document, "model")["in store"]["status"] == "ok"
    loads = checks(document, "interpreter")["loads"]
    assert (loads["status"], loads["facts"]["store"]) == ("ok", str(store))


def test_a_private_copy_is_told_with_its_reason(store: Path, path: Path) -> None:
    program = """
        import json, sys, mmap
        file = open(sys.argv[1], "rb")
        weights = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        copy = bytearray(64 << 20)
        copy[::4096] = b"1" * len(copy[::4096])
        weights[0]
        print(json.dumps("ready"), flush=True)
        input()
    """
    # Only files of a megabyte and more count as models.
    large = model_files.write(path.with_name("large.safetensors"), {"w": floats([1024, 512])})
    for env, reason in ({"TETRIS_PATCH": ""}, "unpatched"), ({"TETRIS_PATCH": "1"}, "not-loaded"):
        with Helper(program, large, env=env) as helper:
            assert helper.line() == "ready"
            document = json.loads(tetris.doctor(pid=helper.pid).json)
            process = checks(document, "process")
            assert process["private"]["facts"]["bytes"] >= 64 << 20
            [file] = process["page cache"]["facts"]["files"]
            assert file["path"] == str(large)
            assert process["reason"]["facts"]["reason"] == reason
            assert "tetris" in process["reason"]["remedy"]


def test_the_module_prints_text_and_json_with_the_same_code(store: Path, path: Path) -> None:
    text, document = module(path), module("doctor", path, "--format", "json")
    found = json.loads(document.stdout)
    codes = {"ok": 0, "note": 0, "warning": 6, "failure": 7}
    assert document.returncode == codes[found["status"]] == text.returncode
    heads = [line.split("  ")[0] for line in text.stdout.splitlines() if line[:1].isalpha()]
    assert heads == ["store", "machine", "model", "interpreter"]
    assert [section["name"] for section in found["sections"]] == heads
    assert (text.stderr, document.stderr) == ("", "")


def test_a_store_that_is_missing_or_of_another_version_is_a_failure(store: Path, empty_dir: Path) -> None:
    missing = module("--format", "json", "--store", empty_dir / "none")
    assert missing.returncode == 7
    layout = checks(json.loads(missing.stdout), "store")["layout"]
    assert layout["facts"]["cause"] == "no-store" and "tetris init" in layout["remedy"]
    header = store / "store"
    content = bytearray(header.read_bytes())
    content[8] = 2
    header.unlink()
    header.write_bytes(content)
    other = module("--format", "json")
    assert other.returncode == 7
    assert "version 2" in checks(json.loads(other.stdout), "store")["layout"]["found"]


@pytest.mark.parametrize("arguments", [["--pid", "0"], ["--pid", "x"], ["--format", "xml"], ["--unknown"]])
def test_a_wrong_command_line_is_code_2(arguments: list[str]) -> None:
    done = module(*arguments)
    assert (done.returncode, done.stdout) == (2, "") and "usage: python -m tetris" in done.stderr


def test_no_such_process_is_a_failure(store: Path) -> None:
    done = module("--pid", 2**32 - 1, "--format", "json")
    assert done.returncode == 7
    assert "no process" in checks(json.loads(done.stdout), "process")["process"]["found"]


def test_the_patch_is_on_or_off_and_says_what_to_do(store: Path) -> None:
    off = checks(json.loads(module("--format", "json").stdout), "interpreter")["patch"]
    assert off["status"] == "note" and "TETRIS_PATCH=1" in off["remedy"]
    assert off["facts"]["functions"] == {"safetensors.safe_open": False}
    on = checks(json.loads(module("--format", "json", env={"TETRIS_PATCH": "1"}).stdout), "interpreter")
    assert on["patch"]["status"] == "ok", on["patch"]
    assert on["patch"]["facts"]["occasion"] == "start-up"
    assert on["patch"]["facts"]["functions"] == {"safetensors.safe_open": True}
    wrong = checks(json.loads(module("--format", "json", env={"TETRIS_PATCH": "enable"}).stdout), "interpreter")
    assert wrong["patch"]["status"] == "warning" and "enable" in wrong["patch"]["found"]


def test_the_order_of_imports_is_that_of_the_program(store: Path) -> None:
    program = """
        import json, safetensors.numpy, tetris.numpy
        print(tetris.doctor().json)
    """
    order = checks(python(program), "interpreter")["imports"]["facts"]["order"]
    assert order.index("safetensors") < order.index("tetris")
    assert order.index("safetensors.numpy") < order.index("tetris.numpy")


def test_a_native_half_that_cannot_be_loaded_is_told(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("import sys; sys.modules['tetris._native'] = None\n")
    folders = os.pathsep.join(filter(None, [str(tmp_path), os.environ.get("PYTHONPATH")]))
    for form in "text", "json":
        done = module("--format", form, env={"PYTHONPATH": folders})
        assert done.returncode == 7 and "native half" in done.stderr and "pip install" in done.stderr
        assert (done.stdout == "") == (form == "text")
    assert json.loads(done.stdout)["status"] == "failure"


def test_importing_the_doctor_imports_no_library() -> None:
    program = """
        import json, sys, tetris
        tetris.doctor()
        print(json.dumps([name for name in ("torch", "numpy", "safetensors", "transformers") if name in sys.modules]))
    """
    assert python(program) == []


def test_the_tested_versions_are_those_of_the_tests_and_of_the_package() -> None:
    requirements = (Path(__file__).parent / "requirements.txt").read_text().splitlines()
    pinned = dict(line.split("==") for line in requirements if "==" in line)
    project = tomllib.loads((PACKAGE / "pyproject.toml").read_text())["project"]
    wanted = [*project["dependencies"], *(one for extra in project["optional-dependencies"].values() for one in extra)]
    oldest = dict(one.split(">=") for one in wanted if ">=" in one)
    for name, (least, newest) in TESTED.items():
        assert newest == pinned[name], name
        assert least == oldest.get(name), name
    assert set(oldest) <= set(TESTED)


def test_versions_outside_of_the_tested_range_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    versions = {"safetensors": "0.5.9", "torch": "99.1+cu130", "numpy": "2.4.6", "onnx": "unknown"}
    monkeypatch.setattr("tetris._doctor.packages._installed", versions.get)
    libraries, *others = package_checks()
    assert libraries["found"] == "numpy 2.4.6"
    found = {check["name"]: check["status"] for check in others}
    assert found == {"safetensors": "warning", "torch": "note", "onnx": "note"}
    assert any(">=0.6" in (check["remedy"] or "") for check in others)


def test_releases_are_compared_as_numbers() -> None:
    assert release_of("2.4.0+cu121") == (2, 4) < release_of("2.10") == (2, 10)
    assert release_of("1!2.0rc1") == (2,) and release_of("0.0") == (0,)
    assert release_of("") is None and release_of("main") is None


@pytest.mark.parametrize("section", ["", "[]", '{"name": "a"}', '{"name": "a", "checks": [1]}'])
def test_a_section_that_is_none_is_refused(section: str) -> None:
    with pytest.raises(ValueError):
        tetris._native.diagnose([], section=section)


def test_a_program_in_another_store_is_told_apart(store: Path, empty_dir: Path) -> None:
    other = empty_dir / "other"
    tetris.create_store(other)
    program = "import json; print(json.dumps('ready'), flush=True); input()"
    with Helper(program, env={"TETRIS_STORE": str(other)}) as helper:
        assert helper.line() == "ready"
        found = json.loads(tetris.doctor(pid=helper.pid).json)
    assert checks(found, "process")["its store"]["facts"]["same"] is False
    assert run("import tetris; print(tetris.doctor().status)").returncode == 0
