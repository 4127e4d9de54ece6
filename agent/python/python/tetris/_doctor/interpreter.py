"""The interpreter's own part of a diagnosis: the package, the patch, and the libraries that load models."""

from __future__ import annotations

import platform
import sys
from importlib import metadata
from typing import Any

from tetris._doctor.checks import check
from tetris._doctor.packages import package_checks
from tetris._injection import Injection, injection
from tetris._patch import HOOKED, REPLACED, VARIABLE
from tetris._patch_status import PatchStatus, patch_status

#: Occasions of the patch.
_SINCE = {
    "start-up": f"the start, by {VARIABLE}",
    "injection": f"the first library that loads models, by injection and {VARIABLE}",
    "import": f"the import of tetris, by {VARIABLE}",
}
#: Name of the distribution.
DISTRIBUTION = "tetris-store"


def section() -> dict[str, Any]:
    """Return the checks of this interpreter."""
    status = patch_status()
    checks = [_python(), _package(), *_patch(status), _imports(), *package_checks()]
    loads = _loads()
    if loads is not None:
        checks.append(loads)
    return {"name": "interpreter", "subject": sys.executable, "checks": checks}


def _python() -> dict[str, Any]:
    found = f"{platform.python_implementation()} {platform.python_version()}"
    return check("python", "ok", found, facts={"prefix": sys.prefix, "flags": _flags()})


def _flags() -> list[str]:
    """Return the options of the interpreter that keep it from reading site-packages."""
    flags = {"-S": sys.flags.no_site, "-I": sys.flags.isolated, "-E": sys.flags.ignore_environment}
    return [name for name, is_set in flags.items() if is_set]


def _package() -> dict[str, Any]:
    """Compare the native half with the Python half, whose version the installed distribution has."""
    import tetris

    folder = str(tetris.__path__[0])
    native = tetris.__version__
    try:
        installed = metadata.version(DISTRIBUTION)
    except metadata.PackageNotFoundError:
        injected = injection()
        if injected is not None:
            return _injected(injected, native)
        return check(
            "package",
            "note",
            f"{native} in {folder}, not installed",
            expected="an installed package, which patches interpreters when they start",
            remedy=f"run `{sys.executable} -m pip install {DISTRIBUTION}`, or from a checkout `... ./agent/python`",
            facts={"native_version": native, "version": None, "folder": folder},
        )
    facts = {"native_version": native, "version": installed, "folder": folder}
    if installed != native:
        return check(
            "package",
            "warning",
            f"its native half is of version {native}, the installed package of version {installed}",
            expected="one version of both",
            remedy=f"run `{sys.executable} -m pip install --force-reinstall --no-deps {DISTRIBUTION}`",
            facts=facts,
        )
    return check("package", "ok", f"{DISTRIBUTION} {installed}, native half of the same version", facts=facts)


def _injected(injected: Injection, native: str) -> dict[str, Any]:
    """Tell of a package that the node gives, and compare it with the daemon."""
    folder = f"{injected.folder}, by injection from the node daemon"
    facts = {"native_version": native, "version": None, "folder": injected.folder, "daemon": injected.daemon}
    if injected.unfit is not None:
        return check(
            "package",
            "warning",
            f"{native} in {folder}, and off: {injected.unfit}",
            expected="libraries that the package works with",
            remedy='use an image with newer libraries, or label the pod `tetris.dev/inject: "true"`',
            facts=facts,
        )
    if injected.daemon != native:
        return check(
            "package",
            "warning",
            f"{native} in {folder} {injected.daemon or 'of an unknown version'}",
            expected="one version of both",
            remedy="build the image of the node daemon again with deploy/images/build",
            facts=facts,
        )
    return check("package", "ok", f"{native} in {folder} {injected.daemon}", facts=facts)


def _patch(status: PatchStatus) -> list[dict[str, Any]]:
    facts = {
        "active": status.active,
        "occasion": status.occasion,
        "variable": status.variable,
        "functions": status.functions,
    }
    private = [name for name, patched in status.functions.items() if not patched]
    if not status.active:
        found = check(
            "patch",
            "note",
            "off: safetensors and transformers load without the store; tetris.torch and tetris.numpy share anyway",
            remedy=f"start with `{VARIABLE}=1 python ...` or `tetris exec -- python ...`, or call tetris.patch()",
            facts=facts,
        )
    else:
        words = f"on since {_SINCE.get(status.occasion or '', 'a call of tetris.patch()')}"
        patched = [name for name in status.functions if name not in private]
        if patched:
            words += f": {', '.join(patched)}"
        if private:
            words += f"; not {', '.join(private)}"
        found = check("patch", "ok", words, facts=facts)
    # Most problems end with their remedy.
    return [found, *(_problem(problem) for problem in status.problems)]


def _problem(problem: str) -> dict[str, Any]:
    found, remedy = problem, f"start with `{VARIABLE}=1 python ...`"
    for separator in (": ", "; "):
        head, _, tail = problem.rpartition(separator)
        if tail.startswith(("call ", "install ")):
            found, remedy = head, tail
    return check("patch", "warning", found, expected=f"a patch as {VARIABLE} says", remedy=remedy)


def _imports() -> dict[str, Any]:
    """Return the modules that matter for the patch, in the order of their import."""
    relevant = {*REPLACED, *HOOKED, "tetris", "tetris.torch", "tetris.numpy", "torch", "numpy", "transformers"}
    relevant |= {"safetensors.numpy", "diffusers", "onnxruntime"}
    order = [name for name in sys.modules if name in relevant]
    return check("imports", "ok", " ".join(order) or "none that matters", facts={"order": order})


def _loads() -> dict[str, Any] | None:
    """Return what this process has loaded so far; `None` if it has loaded nothing by this package."""
    module = sys.modules.get("tetris._agent")
    agent = None if module is None else module.current()
    if agent is None:
        return None
    counters = dict(agent.counters)
    facts = {"store": agent.store, "unavailable": agent.unavailable, "counters": counters}
    if agent.store is None:
        return check(
            "loads",
            "warning",
            f"{counters['loads']} files, all private: {agent.unavailable or 'no store'}",
            expected="a store",
            remedy="see the section `store`",
            facts=facts,
        )
    words = f"{counters['loads']} files through {agent.store}"
    if counters["private_loads"]:
        return check(
            "loads",
            "warning",
            f"{words}, {counters['private_loads']} of them private in part: {counters['private_bytes']} bytes",
            expected="no private bytes",
            remedy="read the warning of the logger `tetris`, which names the model, the cause and the remedy",
            facts=facts,
        )
    return check("loads", "ok", words, facts=facts)
