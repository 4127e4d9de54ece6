"""Offers the package ``tetris`` of the node to an interpreter that starts with this folder on PYTHONPATH.

Nothing is imported here but ``os`` and ``sys``, which are there, and the program's own ``sitecustomize``. The rest
waits for the first import of a library that loads models. Python 2.7 and later read this file, so it has the syntax
of all.
"""

import os
import sys


class Injection(object):
    """A finder that calls ``tetris_injection.py`` when a library that loads models is imported for the first time."""

    #: ``tetris`` itself, and the libraries that the package patches, as :mod:`tetris._patch` lists them.
    LIBRARIES = frozenset(
        ("tetris", "ctransformers", "diffusers", "llama_cpp", "safetensors", "torch", "transformers", "vllm")
    )
    #: This module. Python 2 empties a module without references.
    module = sys.modules.get(__name__)

    def __init__(self, folder):
        self.folder = folder
        self.code = None

    def find_spec(self, name, path=None, target=None):
        if name not in self.LIBRARIES:
            return None
        try:
            return self.loaded()["find_spec"](self, name, path, target)
        except Exception as error:
            self.tell("no effect: %s: %s" % (type(error).__name__, error))
            return None

    def find_module(self, name, path=None):
        """Python 2 asks this, and learns that it is too old."""
        return self.find_spec(name, path) if sys.version_info < (3, 4) else None

    def loaded(self):
        """Return the names of ``tetris_injection.py``. The import system is busy, so it is not used."""
        if self.code is None:
            self.code = {"__name__": "tetris_injection"}
            path = self.folder + "/tetris_injection.py"
            with open(path) as file:
                exec(compile(file.read(), path, "exec"), self.code)
        return self.code

    def tell(self, what):
        """Write one line to standard error, once in this process."""
        self.LIBRARIES = frozenset()
        try:
            sys.stderr.write("Tetris: injection: %s; this program runs as without it\n" % what)
        except Exception:
            pass


def _begin():
    folder = __file__.rpartition("/")[0]
    at = sys.path.index(folder)
    # The webhook puts a reference to the pod's own PYTHONPATH after the folder. Without such a variable it stays as it
    # is, and of an empty one an empty part stays, which Python takes for the working directory.
    if os.environ.get("PYTHONPATH") in (folder + ":", folder + ":$(PYTHONPATH)"):
        del sys.path[at + 1]
    del sys.path[at]
    # Where the package is installed and has patched this interpreter, it stays.
    if "tetris" not in sys.modules:
        sys.meta_path.insert(0, Injection(folder))


def _own():
    """Import the program's own sitecustomize in place of this one. Its errors are the program's, as always."""
    this = sys.modules.pop(__name__, None)
    try:
        __import__(__name__)
    except ImportError as error:
        if getattr(error, "name", __name__) != __name__:
            raise
    finally:
        if this is not None:
            sys.modules.setdefault(__name__, this)


try:
    _begin()
except Exception as error:
    Injection("").tell("no effect: %s: %s" % (type(error).__name__, error))
_own()
