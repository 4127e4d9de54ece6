"""Numbers of CUDA devices, asked in another process.

Who initializes CUDA in a process takes it from the children that the process forks later. So a question about devices
is asked elsewhere, unless CUDA is initialized already.
"""

from __future__ import annotations

import functools
import os
import subprocess
import sys

from tetris._log import logger

#: Writes the identities of the devices, in their order, a line each.
_PROGRAM = """
import ctypes
driver = ctypes.CDLL("libcuda.so.1")
count, device, uuid = ctypes.c_int(), ctypes.c_int(), (ctypes.c_ubyte * 16)()
code = driver.cuInit(0) or driver.cuDeviceGetCount(ctypes.byref(count))
for number in range(0 if code else count.value):
    code = code or driver.cuDeviceGet(ctypes.byref(device), number)
    code = code or driver.cuDeviceGetUuid_v2(ctypes.byref(uuid), device)
    print(bytes(uuid).hex())
raise SystemExit(f"the driver answered {code}" if code else 0)
"""
#: Longest wait, in seconds: a driver that hangs is not waited for.
_LIMIT_S = 60


def cuda_numbers() -> dict[str, int]:
    """Return the numbers of the devices that this process sees, by identity as the mirror writes it.

    Empty without a driver, or if it cannot be asked in another process.
    """
    return _numbers(os.environ.get("CUDA_VISIBLE_DEVICES"), os.environ.get("CUDA_DEVICE_ORDER"))


@functools.lru_cache(maxsize=8)
def _numbers(_visible: str | None, _order: str | None) -> dict[str, int]:
    # The interpreter may be embedded in a server, which would start itself.
    if not os.path.basename(sys.executable or "").startswith("python"):
        logger.debug("the devices' numbers are not known: %r is no interpreter", sys.executable)
        return {}
    command = [sys.executable, "-I", "-S", "-c", _PROGRAM]
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=_LIMIT_S, text=True)
    except (OSError, subprocess.SubprocessError) as error:
        logger.debug("the devices' numbers are not known: %s", error)
        return {}
    if done.returncode != 0:
        logger.debug("the devices' numbers are not known: %s", done.stderr.strip())
        return {}
    return {_identity(line): number for number, line in enumerate(done.stdout.split())}


def _identity(digits: str) -> str:
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))
