"""A process with one session. Prints what it found as a line of JSON, and lives until its input ends.

    onnx_process.py MODEL INPUTS.npz WEIGHTS

WEIGHTS is one of tetris.onnxruntime.Weights, or "plain" for onnxruntime.InferenceSession.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys

import numpy as np
import onnxruntime


def resident_kib(field: str) -> int:
    """A field of /proc/self/status in KiB."""
    with open("/proc/self/status", encoding="ascii") as status:
        return int(re.search(rf"^{field}:\s+(\d+) kB", status.read(), re.MULTILINE)[1])


def main() -> None:
    """Open the session, run it once, report."""
    model, inputs, weights = sys.argv[1:]
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    with np.load(inputs) as arrays:
        feeds = dict(arrays)
    import tetris.onnxruntime

    tetris.agent()
    before = resident_kib("VmHWM")
    if weights == "plain":
        session = onnxruntime.InferenceSession(model, options)
        sharing = None
    else:
        if weights == "optimized":
            options = tetris.onnxruntime.SessionOptions()
            options.intra_op_num_threads = 1
        session = tetris.onnxruntime.InferenceSession(model, options, weights=weights)
        sharing = session.sharing.weights
    made_hwm = resident_kib("VmHWM")
    digest = hashlib.sha256()
    for _ in range(2):
        for output in session.run(None, feeds):
            digest.update(np.ascontiguousarray(output).tobytes())
    found = {
        "outputs": digest.hexdigest(),
        "weights": sharing,
        "onnx": "onnx" in sys.modules,
        "anon_kib": resident_kib("RssAnon"),
        "hwm_before_kib": before,
        "hwm_made_kib": made_hwm,
    }
    print(json.dumps(found), flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
