"""Chooses the package for this interpreter, and patches it before the first library that loads models runs.

``sitecustomize.py`` executes this file at the first import of such a library; interpreters of any version do, so the
syntax is that of all. Packages lie beside this file, one for each C library, in folders that are named as wheels are:
``tetris_store-0.1.0-cp311-abi3-manylinux_2_17_x86_64``.
"""

import os
import sys

#: The oldest version, as the wheel's name has it (cp311).
OLDEST = (3, 11)


class Interpreter(object):
    """Facts of an interpreter that decide if the package's native half can be loaded."""

    def __init__(self, implementation, version, flags, is_64_bit, machine, libc):
        self.implementation = implementation
        self.version = tuple(version)
        self.flags = flags
        self.is_64_bit = is_64_bit
        self.machine = machine
        #: Name and version: ``("glibc", (2, 36))``, or ``("musl", ())``.
        self.libc = libc


def this_interpreter():
    """Return the facts of this interpreter, without an import."""
    found = getattr(sys, "implementation", None)
    name = "cpython" if found is None else found.name
    flags = getattr(sys, "abiflags", "")
    return Interpreter(name, sys.version_info[:3], flags, sys.maxsize > 1 << 32, os.uname()[4], _libc())


def _libc():
    try:
        name, version = os.confstr("CS_GNU_LIBC_VERSION").split()
        return name, tuple(int(part) for part in version.split(".")[:2])
    except (AttributeError, OSError, ValueError):
        return "musl", ()


def choose(interpreter, names):
    """Return the package's folder among `names`, and `None`; or `None`, and the reason that there is none."""
    dotted = ".".join(str(part) for part in interpreter.version)
    if interpreter.implementation != "cpython":
        return None, "expected CPython, found %s" % interpreter.implementation
    if interpreter.version[:2] < OLDEST:
        return None, "expected Python %d.%d or later, found %s" % (OLDEST + (dotted,))
    if "t" in interpreter.flags:
        return None, "expected a Python with the global interpreter lock, found the free-threaded %s" % dotted
    if not interpreter.is_64_bit:
        return None, "expected a 64-bit Python, found a 32-bit one"
    packages = sorted(package for package in map(_Package.of, names) if package is not None)
    for package in packages:
        if package.fits(interpreter):
            return package.name, None
    libc, version = interpreter.libc
    found = "%s %s on %s" % (libc, ".".join(map(str, version)), interpreter.machine)
    offered = " or ".join(package.needs() for package in packages) or "a package, and there is none in the volume"
    return None, "expected %s, found %s" % (offered, found.replace("  ", " "))


class _Package(object):
    """A folder with a package, by its name."""

    LIBCS = {"manylinux": "glibc", "musllinux": "musl"}

    def __init__(self, name, libc, version, machine):
        self.name = name
        self.libc = libc
        self.version = version
        self.machine = machine

    @classmethod
    def of(cls, name):
        parts = name.split("-")
        if len(parts) != 5 or (parts[0], parts[3]) != ("tetris_store", "abi3"):
            return None
        platform = parts[4].split("_", 3)
        if len(platform) != 4 or platform[0] not in cls.LIBCS or not (platform[1] + platform[2]).isdigit():
            return None
        return cls(name, cls.LIBCS[platform[0]], (int(platform[1]), int(platform[2])), platform[3])

    def fits(self, interpreter):
        libc, version = interpreter.libc
        # The version of musl is not known; it is compatible from 1.2 on.
        is_new = libc == "musl" or version >= self.version
        return (libc, interpreter.machine) == (self.libc, self.machine) and is_new

    def needs(self):
        return "%s %d.%d or later on %s" % (self.libc, self.version[0], self.version[1], self.machine)

    def __lt__(self, other):
        return self.name < other.name


class Loader(object):
    """A library's own loader, which patches before the library runs."""

    def __init__(self, loader, activation):
        self._loader = loader
        self._activation = activation

    def create_module(self, spec):
        return self._loader.create_module(spec)

    def exec_module(self, module):
        # What looks for data beside the module asks for the loader that knows.
        module.__loader__ = self._loader
        if getattr(module, "__spec__", None) is not None:
            module.__spec__.loader = self._loader
        imported = self._activation.patch()
        self._loader.exec_module(module)
        if imported is not None:
            imported(module)

    def __getattr__(self, name):
        if name == "_loader":
            raise AttributeError(name)
        return getattr(self._loader, name)


class Activation(object):
    """The patch of this interpreter, by the package in a folder."""

    def __init__(self, injection, package):
        self._injection = injection
        self.package = package
        #: True after the attempt to patch. From then on the patch's own finder has all imports.
        self.is_done = False
        self._imported = None

    def patch(self):
        """Patch once; returns the function that patches a library that was imported, if there is one.

        The import system's own locks make sure that another thread finds a complete module of ours.
        """
        if not self.is_done:
            try:
                self._imported = __import__("tetris._injection").__dict__["_injection"].begin(self._injection.folder)
            except Exception as error:
                self._injection.tell("no effect: %s: %s" % (type(error).__name__, error))
            self.is_done = True
        return self._imported


_activation = None


def find_spec(injection, name, path, target):
    """Find a library as the other finders do, with a loader that patches."""
    global _activation
    if _activation is None:
        package, reason = choose(this_interpreter(), os.listdir(injection.folder))
        if package is None:
            injection.tell(reason)
            return None
        _activation = Activation(injection, injection.folder + "/" + package)
        # Last: a package that is installed goes before.
        sys.path.append(_activation.package)
    if name == "tetris" or _activation.is_done:
        return None
    # Those before this one were asked, and the patch's own may be among them.
    for finder in sys.meta_path[sys.meta_path.index(injection) + 1 :]:
        if not hasattr(finder, "find_spec"):
            continue
        spec = finder.find_spec(name, path, target)
        if spec is not None:
            if spec.loader is not None and hasattr(spec.loader, "exec_module"):
                spec.loader = Loader(spec.loader, _activation)
            return spec
    return None
