"""The package as a node gives it to pods: `sitecustomize` on PYTHONPATH, in interpreters without the package."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import model_files
import pytest
import tetris
from injected import SOURCES, fill_volume
from model_files import floats
from process import HANGS_S

#: What a program says of itself: modules that matter, finders that are ours, the module path.
ABOUT = """
import json, sys
print(json.dumps([
    sorted(name for name in sys.modules if name.partition(".")[0] in ("tetris", "torch", "safetensors")),
    [type(one).__name__ for one in sys.meta_path],
    sys.path,
]))
"""


class Image:
    """An interpreter with libraries and without the package, and the node's volume."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.volume = folder / "volume"
        self.python = folder / "image" / "bin" / "python"
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder / "image"], check=True)
        [self.site] = (folder / "image" / "lib").glob("python3*/site-packages")

    def link_libraries(self) -> None:
        """Give it the libraries of this interpreter, but for the package."""
        import safetensors

        libraries = Path(safetensors.__file__).parents[1]
        for entry in libraries.iterdir():
            if not entry.name.startswith("tetris"):
                (self.site / entry.name).symlink_to(entry)

    def library(self, name: str, text: str) -> None:
        """Give it a module."""
        (self.site / f"{name}.py").write_text(text)

    def run(
        self, program: str, *arguments: object, flags: tuple[str, ...] = (), **env: str
    ) -> subprocess.CompletedProcess[str]:
        """Run a program as in a pod."""
        environment = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
        environment |= {"TETRIS_PATCH": "1", "PYTHONPATH": str(self.volume)} | env
        command = [self.python, *flags, "-c", program, *map(str, arguments)]
        return subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=HANGS_S, env=environment, cwd=self.folder
        )

    def value(self, program: str, *arguments: object, flags: tuple[str, ...] = (), **env: str) -> Any:
        """Run a program that writes nothing but JSON; returns it."""
        done = self.run(program, *arguments, flags=flags, **env)
        assert (done.returncode, done.stderr) == (0, ""), done
        return json.loads(done.stdout)


@pytest.fixture
def bare(tmp_path: Path) -> Image:
    """An image without libraries, and the volume."""
    image = Image(tmp_path)
    fill_volume(image.volume)
    return image


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory) -> Image:
    """An image with the libraries of this interpreter, and the volume."""
    image = Image(tmp_path_factory.mktemp("full"))
    image.link_libraries()
    fill_volume(image.volume)
    return image


@pytest.fixture(scope="module")
def rules(tmp_path_factory: pytest.TempPathFactory) -> ModuleType:
    """The file that decides, by itself."""
    module = ModuleType("tetris_injection")
    source = (SOURCES / "tetris_injection.py").read_text()
    exec(compile(source, "tetris_injection.py", "exec"), vars(module))
    return module


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file."""
    return model_files.write(tmp_path_factory.mktemp("files") / "m.safetensors", {"w": floats([256, 256])})


def _is_for_everyone(python: Path) -> bool:
    """Returns true if every user may run an interpreter, and it is one that the package fits."""
    try:
        done = subprocess.run(
            [python, "-c", "import sys; print(sys.version_info >= (3, 11))"],
            capture_output=True,
            text=True,
            check=False,
            user=54321,
            group=54321,
            extra_groups=[],
        )
    except OSError:
        return False
    return done.stdout == "True\n"


class TestPrograms:
    """Unmodified programs, in an image that has never heard of the package."""

    @pytest.mark.parametrize("imports", ["safetensors", "torch", "safetensors.torch", "torch, safetensors.torch"])
    def test_load_through_the_store(self, full: Image, store: Path, path: Path, imports: str) -> None:
        program = f"""if True:
            import json, sys
            import {imports}
            from safetensors.torch import load_file
            weights = load_file(sys.argv[1])
            import tetris
            status = tetris.patch_status()
            print(json.dumps([tetris.agent().counters["loads"], status.occasion, status.problems,
                              status.functions["safetensors.torch.load_file"], float(weights["w"].sum())]))
        """
        loads, occasion, problems, patched, total = full.value(program, path)
        assert (loads, occasion, problems, patched) == (1, "injection", [], True)
        assert full.value(program, path)[-1] == total
        assert len(list((store / "objects-v1").iterdir())) == 1

    def test_hook_what_libraries_copy(self, full: Image, store: Path) -> None:
        program = "import json, torch, tetris; print(json.dumps(tetris.patch_status()))"
        functions = full.value(program)[3]
        assert functions["torch.nn.modules.module.Module.load_state_dict"]

    def test_import_nothing_before_they_import_a_library(self, full: Image) -> None:
        modules, finders, path = full.value(ABOUT)
        assert modules == [] and finders[0] == "Injection"
        assert not [one for one in path if one.startswith(str(full.volume))]

    def test_are_not_patched_without_the_variable_but_have_the_package(self, full: Image) -> None:
        program = "import json, safetensors.torch, tetris; print(json.dumps(tetris.patch_status()))"
        for value in "", "0":
            active, occasion, *_ = full.value(program, TETRIS_PATCH=value)
            assert (active, occasion) == (False, None)

    def test_started_by_multiprocessing_are_patched_too(self, full: Image, tmp_path: Path) -> None:
        script = tmp_path / "pool.py"
        script.write_text(
            "import multiprocessing\n"
            "def occasion(_):\n"
            "    import safetensors, tetris\n"
            "    return tetris.patch_status().occasion\n"
            "if __name__ == '__main__':\n"
            "    with multiprocessing.get_context('spawn').Pool(1) as pool:\n"
            "        print(pool.map(occasion, [0]))\n"
        )
        done = full.run("import runpy, sys; runpy.run_path(sys.argv[1], run_name='__main__')", script)
        assert (done.stdout, done.stderr) == ("['injection']\n", ""), done

    def test_with_an_installed_package_use_that(self, full: Image, tmp_path: Path) -> None:
        installed = tmp_path / "installed"
        shutil.copytree(Path(tetris.__file__).parent, installed / "tetris", ignore=shutil.ignore_patterns("bench"))
        program = "import safetensors, tetris, json; print(json.dumps([tetris.__file__, tetris.patch_status().active]))"
        folders = f"{full.volume}:{installed}"
        file, active = full.value(program, PYTHONPATH=folders)
        assert file.startswith(str(installed)) and active

    def test_see_their_own_error_of_a_library_that_is_missing(self, bare: Image) -> None:
        done = bare.run("import safetensors")
        assert done.returncode == 1 and done.stderr.endswith("ModuleNotFoundError: No module named 'safetensors'\n")
        assert "Tetris" not in done.stderr

    def test_see_libraries_and_their_specs_as_they_are(self, full: Image) -> None:
        program = """if True:
            import importlib.util, json
            before = importlib.util.find_spec("safetensors")
            import safetensors
            print(json.dumps([before.loader.get_filename("safetensors"), type(safetensors.__loader__).__name__,
                              type(safetensors.__spec__.loader).__name__, safetensors.__file__]))
        """
        name, loader, of_spec, file = full.value(program)
        assert (loader, of_spec) == ("SourceFileLoader", "SourceFileLoader") and name == file

    def test_that_raise_in_a_library_raise_as_before(self, bare: Image) -> None:
        bare.library("safetensors", "raise RuntimeError('its own')")
        done = bare.run("import safetensors")
        assert done.returncode == 1 and done.stderr.endswith("RuntimeError: its own\n")

    @pytest.mark.parametrize(("name", "version", "oldest"), [("safetensors", "0.4.1", "0.6"), ("torch", "2.1", "2.4")])
    def test_with_older_libraries_run_as_without_it(self, bare: Image, name: str, version: str, oldest: str) -> None:
        for library in "safetensors", "torch":
            bare.library(library, "def safe_open(): pass")
        metadata = bare.site / f"{name}-{version}.dist-info"
        metadata.mkdir()
        (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        program = "import safetensors, torch, tetris; print(tetris.patch_status().active)"
        done = bare.run(program)
        expected = f"expected {name} {oldest} or later, found {version}"
        assert done.stdout == "False\n" and done.stderr.count("Tetris") == 1 and expected in done.stderr
        found = bare.run("import safetensors, tetris._doctor.interpreter as i; print(i._package())")
        assert expected in found.stdout


class TestStartUp:
    """Start of an interpreter with the volume on PYTHONPATH."""

    @pytest.mark.parametrize("name", ["sitecustomize", "usercustomize"])
    def test_runs_the_program_s_own_customization(self, bare: Image, name: str) -> None:
        bare.library(name, "import sys; sys.customized = __file__")
        program = f"import json, sys, {name}; print(json.dumps([sys.customized, {name}.__file__]))"
        # In a virtual environment the user's folder is off, and the module is found all the same.
        assert bare.value(program) == [str(bare.site / f"{name}.py")] * 2

    def test_reports_errors_of_the_program_s_own_customization_as_ever(self, bare: Image) -> None:
        bare.library("sitecustomize", "raise RuntimeError('broken')")
        with_it, without = bare.run("print(1)"), bare.run("print(1)", PYTHONPATH="")
        assert "RuntimeError: broken" in with_it.stderr
        assert (with_it.stdout, with_it.stderr) == (without.stdout, without.stderr)

    def test_reports_a_customization_that_imports_what_is_missing(self, bare: Image) -> None:
        bare.library("sitecustomize", "import there_is_none")
        with_it, without = bare.run("print(1)"), bare.run("print(1)", PYTHONPATH="")
        assert (with_it.stdout, with_it.stderr) == (without.stdout, without.stderr)
        assert "there_is_none" in with_it.stderr

    def test_leaves_the_module_path_as_it_was(self, bare: Image) -> None:
        own = bare.folder / "own"
        own.mkdir()
        expected = bare.value(ABOUT, PYTHONPATH=str(own))[2]
        assert bare.value(ABOUT, PYTHONPATH=f"{bare.volume}:{own}")[2] == expected
        without = bare.value(ABOUT, PYTHONPATH="")[2]
        # As the kubelet leaves a reference to a variable that is not set, or is empty.
        for unset in "$(PYTHONPATH)", "":
            assert bare.value(ABOUT, PYTHONPATH=f"{bare.volume}:{unset}")[2] == without

    @pytest.mark.parametrize("flag", ["-S", "-I", "-E"])
    def test_does_nothing_where_python_is_told_so(self, bare: Image, flag: str) -> None:
        _, finders, _ = bare.value(ABOUT, flags=(flag,))
        assert "Injection" not in finders

    def test_does_nothing_with_an_empty_volume(self, bare: Image) -> None:
        shutil.rmtree(bare.volume)
        bare.volume.mkdir()
        _, finders, _ = bare.value(ABOUT)
        assert "Injection" not in finders

    def test_a_volume_without_a_package_is_told_of_once(self, bare: Image) -> None:
        for package in bare.volume.glob("tetris_store-*"):
            shutil.rmtree(package)
        bare.library("safetensors", "")
        bare.library("torch", "")
        done = bare.run("import safetensors, torch; print(1)")
        assert (done.returncode, done.stdout) == (0, "1\n")
        assert done.stderr.count("\n") == 1 and "expected a package" in done.stderr

    @pytest.mark.parametrize("damage", ["raise RuntimeError('x')", "syntax error", ""])
    def test_a_damaged_volume_costs_one_line(self, bare: Image, damage: str) -> None:
        (bare.volume / "tetris_injection.py").write_text(damage)
        bare.library("safetensors", "")
        done = bare.run("import safetensors; print(1)")
        assert (done.returncode, done.stdout) == (0, "1\n")
        assert done.stderr.count("\n") == 1 and "Tetris: injection: no effect" in done.stderr

    def test_a_native_half_that_cannot_be_loaded_costs_one_line(self, full: Image, path: Path, tmp_path: Path) -> None:
        image = Image(tmp_path)
        shutil.copytree(full.volume, image.volume)
        image.link_libraries()
        for extension in image.volume.rglob("*.so"):
            extension.write_bytes(b"no library")
        program = "import safetensors.torch, sys; print(len(safetensors.torch.load_file(sys.argv[1])))"
        done = image.run(program, path)
        assert (done.returncode, done.stdout) == (0, "1\n"), done
        assert "loads privately" in done.stderr

    def test_works_for_any_user_and_writes_no_file(self, bare: Image) -> None:
        if os.geteuid() != 0:
            pytest.skip("needs root, to be another user")
        python = next(filter(_is_for_everyone, (Path(sys.executable).resolve(), Path("/usr/bin/python3"))), None)
        if python is None:
            pytest.skip("needs an interpreter that another user may run")
        with tempfile.TemporaryDirectory(dir="/tmp") as folder:
            image = Path(folder)
            image.chmod(0o755)
            shutil.copytree(bare.volume, image / "volume")
            (image / "safetensors.py").touch()
            before = sorted(image.rglob("*"))
            done = subprocess.run(
                [python, "-c", "import safetensors, tetris; print(tetris.patch_status().occasion)"],
                capture_output=True,
                text=True,
                check=False,
                env={"TETRIS_PATCH": "1", "PYTHONPATH": f"{image}/volume:{image}"},
                user=54321,
                group=54321,
                extra_groups=[],
            )
            assert (done.stdout, done.stderr) == ("injection\n", ""), done
            assert sorted(image.rglob("*")) == before

    def test_costs_little(self, bare: Image, capsys: pytest.CaptureFixture[str]) -> None:
        """Prints times; people judge."""

        # By turns, since other programs slow the machine down at times.
        folders: dict[str, list[float]] = {"": [], str(bare.volume): []}
        for _ in range(31):
            for folder, times in folders.items():
                begun = time.perf_counter()
                bare.run("pass", PYTHONPATH=folder)
                times.append(time.perf_counter() - begun)
        without, with_it = (sorted(times)[len(times) // 2] for times in folders.values())
        imported = bare.run("pass", flags=("-X", "importtime")).stderr.splitlines()
        line = [line for line in imported if line.endswith(" sitecustomize")][-1]
        micros = int(line.split("|")[1])
        with capsys.disabled():
            print(
                f"\nstart of python -c pass: {without * 1e3:.1f} ms without the volume, {with_it * 1e3:.1f} ms with it "
                f"({with_it / without:.3f} of it); sitecustomize {micros} us by -X importtime"
            )


def _older_interpreters() -> list[str]:
    """Interpreters of this machine that are too old: by name, and those of pyenv."""
    names = ["python2.7", *(f"python3.{minor}" for minor in range(4, 11))]
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    found = [*filter(None, map(shutil.which, names)), *map(str, sorted(pyenv.glob("*/bin/python")))]
    program = "import sys; print(sys.version_info < (3, 11))"
    runs = ((one, subprocess.run([one, "-c", program], capture_output=True, check=False)) for one in found)
    return [one for one, done in runs if done.stdout == b"True\n"]


def test_older_interpreters_say_so_once_and_run_as_before(bare: Image) -> None:
    interpreters = _older_interpreters()
    if not interpreters:
        pytest.skip("needs Python 2.7, or 3.4 to 3.10")
    own = bare.folder / "own"
    own.mkdir()
    (own / "sitecustomize.py").write_text("import sys; sys.customized = 1")
    for library in "safetensors", "torch":
        (own / f"{library}.py").touch()
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
    environment |= {"TETRIS_PATCH": "1", "PYTHONPATH": f"{bare.volume}:{own}", "PYTHONDONTWRITEBYTECODE": "1"}
    program = "import sys, safetensors, torch; print(sys.customized)"
    for interpreter in interpreters:
        command = [interpreter, "-c", program]
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
        assert (done.returncode, done.stdout) == (0, "1\n"), (interpreter, done)
        assert done.stderr.count("\n") == 1 and "expected Python 3.11 or later, found" in done.stderr, interpreter


class TestFit:
    """Interpreters and the packages that fit them."""

    PACKAGES = (
        "__pycache__",
        "sitecustomize.py",
        "tetris_store-0.1.0-cp311-abi3-manylinux_2_17_x86_64",
        "tetris_store-0.1.0-cp311-abi3-musllinux_1_2_x86_64",
    )

    @pytest.fixture
    def choose(self, rules: ModuleType) -> Callable[..., tuple[str | None, str | None]]:
        """The choice for an interpreter that differs from a usual one in these facts."""
        usual = {
            "implementation": "cpython",
            "version": (3, 12, 1),
            "flags": "",
            "is_64_bit": True,
            "machine": "x86_64",
            "libc": ("glibc", (2, 36)),
        }

        def choose(names: tuple[str, ...] = self.PACKAGES, **differing: object) -> tuple[str | None, str | None]:
            return rules.choose(rules.Interpreter(**{**usual, **differing}), names)

        return choose

    @pytest.mark.parametrize("version", [(3, 11, 0), (3, 14, 2), (4, 0, 0)])
    def test_versions_that_fit_get_the_package_of_their_libc(self, choose: Any, version: tuple[int, ...]) -> None:
        assert choose(version=version) == (self.PACKAGES[2], None)
        assert choose(version=version, libc=("musl", ())) == (self.PACKAGES[3], None)

    @pytest.mark.parametrize(
        ("differing", "reason"),
        [
            ({"version": (3, 10, 14)}, "expected Python 3.11 or later, found 3.10.14"),
            ({"version": (2, 7, 18)}, "expected Python 3.11 or later, found 2.7.18"),
            ({"implementation": "pypy"}, "expected CPython, found pypy"),
            ({"flags": "t"}, "expected a Python with the global interpreter lock, found the free-threaded 3.12.1"),
            ({"is_64_bit": False}, "expected a 64-bit Python, found a 32-bit one"),
            ({"machine": "riscv64"}, "found glibc 2.36 on riscv64"),
            ({"libc": ("glibc", (2, 12))}, "expected glibc 2.17 or later on x86_64"),
        ],
    )
    def test_others_get_none_and_a_reason(self, choose: Any, differing: dict[str, Any], reason: str) -> None:
        package, found = choose(**differing)
        assert package is None and reason in found

    def test_musl_without_a_build_for_it_gets_none(self, choose: Any) -> None:
        package, reason = choose(self.PACKAGES[:3], libc=("musl", ()))
        assert package is None
        assert reason == "expected glibc 2.17 or later on x86_64, found musl on x86_64"

    @pytest.mark.parametrize(
        "name",
        [
            "x",
            "x-0-cp311-abi3-manylinux_2_17_x",
            "tetris_store-0-cp311-cp311-manylinux_2_17_x",
            "tetris_store-0-a-abi3-b_c_d_e",
        ],
    )
    def test_other_files_are_no_packages(self, choose: Any, name: str) -> None:
        assert choose((name,))[1].startswith("expected a package, and there is none in the volume")

    def test_this_interpreter_is_what_the_platform_says(self, rules: ModuleType) -> None:
        this = rules.this_interpreter()
        assert this.implementation == "cpython" and this.version == sys.version_info[:3]
        assert this.libc[0] in ("glibc", "musl") and this.is_64_bit

    @pytest.mark.parametrize("name", ["sitecustomize.py", "tetris_injection.py"])
    def test_old_versions_can_read_the_files(self, name: str) -> None:
        """As far as this interpreter can tell: no syntax of later versions than 3.4, and none that 2.7 lacks."""
        import ast

        source = (SOURCES / name).read_text()
        tree = ast.parse(source, feature_version=(3, 4))
        for node in ast.walk(tree):
            newer = (ast.JoinedStr, ast.AnnAssign, ast.Nonlocal, ast.AsyncFunctionDef, ast.Starred)
            assert not isinstance(node, newer), ast.dump(node)
            if isinstance(node, ast.FunctionDef):
                assert node.returns is None and not node.args.kwonlyargs
            if isinstance(node, ast.Raise):
                assert node.cause is None
        assert source.isascii()

    def test_libraries_that_wait_are_those_that_are_patched(self) -> None:
        from tetris._patch import HOOKED, REPLACED

        module: dict[str, Any] = {"__name__": "sitecustomize", "__file__": "/none/sitecustomize.py"}
        source = (SOURCES / "sitecustomize.py").read_text().partition("def _begin")[0]
        exec(compile(source, "sitecustomize.py", "exec"), module)
        expected = {name.partition(".")[0] for name in (*REPLACED, *HOOKED)} | {"tetris"}
        assert expected == module["Injection"].LIBRARIES


def test_the_doctor_names_the_way_and_the_daemon(full: Image, store: Path) -> None:
    done = full.run(
        "import runpy, sys; sys.argv = ['x', '--format', 'json']; runpy.run_module('tetris', run_name='__main__')"
    )
    document = json.loads(done.stdout)
    [section] = [section for section in document["sections"] if section["name"] == "interpreter"]
    found = {check["name"]: check for check in section["checks"]}
    version = tetris.__version__
    assert found["package"]["status"] == "ok", found["package"]
    assert found["package"]["found"] == f"{version} in {full.volume}, by injection from the node daemon {version}"
    assert found["package"]["facts"]["daemon"] == version
    assert found["patch"]["facts"]["occasion"] == "injection"
