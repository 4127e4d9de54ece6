"""State of the patch in this interpreter, and the reasons where it does not do what the environment asks for."""

from __future__ import annotations

import os
import site
import sys
from typing import NamedTuple

from tetris import _patch
from tetris._environment import read_switch
from tetris._patch import FILES, HOOKED, REPLACED, VARIABLE, Occasion

#: The file that patches each interpreter at its start.
PTH = "tetris_store_patch.pth"
#: A function that is not replaced itself, and the one in its module through which it loads.
_THROUGH = {"safetensors.numpy": ("load_file", "safe_open")}


class PatchStatus(NamedTuple):
    """State of the patch in this interpreter."""

    #: True if modules are patched: those that were imported, and others when they are.
    active: bool
    #: The first occasion: ``"start-up"``, ``"injection"`` by the node and ``"import"`` (of ``tetris``) by
    #: ``TETRIS_PATCH``, or ``"call"`` of :func:`tetris.patch`; `None` without a patch.
    occasion: Occasion | None
    #: The value of ``TETRIS_PATCH`` now; `None` if it is not set.
    variable: str | None
    #: Functions and classes of modules that have been imported, by name: true if they load through the store.
    functions: dict[str, bool]
    #: The reasons that programs are not patched as the environment asks, each with its remedy.
    problems: tuple[str, ...]


def patch_status() -> PatchStatus:
    """Return which functions load through the store in this interpreter, since when, and what keeps others from it."""
    return PatchStatus(
        active=_patch.is_active(),
        occasion=_patch.occasion(),
        variable=os.environ.get(VARIABLE),
        functions={**_replaced(), **_through(), **_hooked()},
        problems=tuple(problems()),
    )


def problems() -> list[str]:
    """Return the reasons that programs are not patched as the environment asks, each with its remedy."""
    found = []
    active = _patch.is_active()
    try:
        wanted = read_switch(VARIABLE, FILES)
    except ValueError as error:
        found.append(str(error))
        wanted = None
    if wanted in ("on", FILES):
        if not active and not _patch.was_taken_back():
            found.append(
                f"{VARIABLE} was set after tetris was imported, so this process is not patched: call tetris.patch()"
            )
        elif _patch.occasion() == "import" and (reason := _unread_pth()) is not None:
            found.append(reason)
    elif wanted == "off" and active and _patch.occasion() != "call":
        found.append(f"{VARIABLE} was switched off after this process was patched: call tetris.unpatch()")
    if active:
        found += [
            f"{name} was replaced after it was patched, and loads privately: call tetris.patch() again"
            for name, patched in _replaced().items()
            if not patched
        ]
    return found


def _unread_pth() -> str | None:
    """Return the reason that the start of an interpreter does not patch it; `None` if it does."""
    if sys.flags.no_site:
        return (
            f"this interpreter was started with -S and did not read {PTH}, so only programs that import tetris are "
            "patched: start it without -S"
        )
    folders = site.getsitepackages()
    if site.ENABLE_USER_SITE:
        folders.append(site.getusersitepackages())
    if any(os.path.isfile(os.path.join(folder, PTH)) for folder in folders):
        return None
    folder = os.path.dirname(os.path.dirname(__file__))
    return (
        f"tetris was imported from {folder}, where this interpreter does not look for {PTH}, so "
        f"only programs that import tetris are patched: install the package into {sys.prefix} with pip"
    )


def _replaced() -> dict[str, bool]:
    return {
        f"{name}.{attribute}": _is_ours(vars(sys.modules[name]).get(attribute))
        for name, replaced in REPLACED.items()
        if name in sys.modules
        for attribute, _, _ in replaced
        if attribute in vars(sys.modules[name])
    }


def _through() -> dict[str, bool]:
    return {
        f"{name}.{function}": _is_ours(vars(sys.modules[name]).get(opener))
        for name, (function, opener) in _THROUGH.items()
        if name in sys.modules
    }


def _hooked() -> dict[str, bool]:
    """Return the methods that copy, by class and name."""
    found = {}
    for name, hook in HOOKED.items():
        if name not in sys.modules or hook.cls is None or hook.method is None:
            continue
        cls = vars(sys.modules[name]).get(hook.cls)
        if isinstance(cls, type):
            found[f"{cls.__module__}.{cls.__name__}.{hook.method}"] = _is_ours(vars(cls).get(hook.method))
    return found


def _is_ours(found: object) -> bool:
    return hasattr(found, "_tetris_original")
