"""A worker with PyTorch that follows the protocol of protocol.rs. The first argument is the loader.

Its memory is that of a real inference process: with interpreter, PyTorch and its libraries.
"""

import json
import os
import sys
import time

import torch

LOADER = sys.argv[1]
if LOADER in ("torch", "torch-derived"):
    from tetris.torch import derived, load_file
else:
    from safetensors.torch import load_file

PAGE = 4096  # bytes
# Like the other workers, which make their passes on one core.
torch.set_num_threads(1)


# Below this many bytes each process casts by itself, as Tetris has it for transformers.
MIN_DERIVED = 64 << 10


def cast(tensor):
    """Casts float32 weights to bfloat16: in private memory, or once per node."""
    if tensor.dtype != torch.float32:
        return tensor
    if LOADER == "torch-cast" or tensor.nbytes // 2 < MIN_DERIVED:
        return tensor.to(torch.bfloat16)
    return derived(tensor, "to torch.bfloat16", lambda source: source.to(torch.bfloat16))


def weights(file):
    """Loads a file, and casts its weights if the loader does."""
    loaded = load_file(file)
    if LOADER in ("torch", "torch-safetensors"):
        return loaded
    # One at a time, so that no process holds both forms of a whole model.
    return {name: cast(loaded.pop(name)) for name in list(loaded)}


def touch(tensors):
    """Reads one byte of every page; creates the views before the measurement."""
    views = [tensor.reshape(-1).view(torch.uint8)[::PAGE] for tensor in tensors if tensor.numel()]
    begin = time.perf_counter_ns()
    for view in views:
        view.sum()
    return time.perf_counter_ns() - begin


class Model:
    def __init__(self, files):
        self.files = [weights(file) for file in files]
        self.vectors = {}
        self.checksum = ""

    def tensors(self):
        return [tensor for file in self.files for tensor in file.values()]

    def run(self):
        """Multiplies every tensor with a vector: the first dimension counts rows, the others are columns."""
        for tensor in self.tensors():
            if tensor.is_floating_point() and tensor.numel():
                matrix = tensor.reshape(tensor.shape[0] if tensor.dim() > 1 else 1, -1)
                matrix @ self.vector(matrix.shape[1], matrix.dtype)
            else:
                tensor.sum()

    def vector(self, columns, dtype):
        if (columns, dtype) not in self.vectors:
            self.vectors[columns, dtype] = torch.linspace(-1.0, 1.0, columns).to(dtype)
        return self.vectors[columns, dtype]

    def sum_bits(self):
        """Sums the bits of all weights by position: exact, while products depend on the alignment of weights."""
        total, place = 0, 0
        for file in self.files:
            for _, tensor in sorted(file.items()):
                place += 2
                flat = tensor.reshape(-1).view(torch.uint8)
                whole = flat.numel() // 8 * 8
                words, rest = flat[:whole], flat[whole:]
                if flat.storage_offset() % 8:
                    words = words.clone()
                total += (place + 1) * (int(words.view(torch.int64).sum()) + int(rest.sum()))
        self.checksum = f"{total % 2**64:016x}"


def load(files, store):
    if store:
        os.environ["TETRIS_STORE"] = store
    begin = time.perf_counter_ns()
    model = Model(files)
    attach_ns = time.perf_counter_ns() - begin
    touch_ns = touch(model.tensors())
    model.run()
    first_result_ns = time.perf_counter_ns() - begin
    model.sum_bits()
    tensors = model.tensors()
    return model, {
        "reply": "loaded",
        "attach_ns": attach_ns,
        "touch_ns": touch_ns,
        "first_result_ns": first_result_ns,
        "checksum": model.checksum,
        "tensors": len(tensors),
        "tensor_bytes": sum(tensor.nbytes for tensor in tensors),
        "store": {"identities": [], "shared_bytes": 0, "published_bytes": 0, "private_bytes": 0},
    }


def passes(model, count):
    times = []
    for _ in range(count):
        begin = time.perf_counter_ns()
        model.run()
        times.append(time.perf_counter_ns() - begin)
    return {"reply": "passed", "pass_ns": times, "checksum": model.checksum}


def main():
    # Libraries may print; their output must not mix with the replies.
    replies = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)

    def reply(content):
        replies.write(json.dumps(content) + "\n")
        replies.flush()

    # The first call of an operator includes its lookup, which is not part of a page fault.
    touch([torch.zeros(8192)])
    model = None
    reply({"reply": "ready"})
    for line in sys.stdin:
        request = json.loads(line)
        try:
            if request["request"] == "join":
                with open(request["procs"], "w") as procs:
                    procs.write(str(os.getpid()))
                reply({"reply": "done"})
            elif request["request"] == "load":
                model = None
                model, loaded = load(request["files"], request["store"])
                reply(loaded)
            else:
                reply(passes(model, request["count"]))
        except Exception as error:
            reply({"reply": "failed", "reason": f"{type(error).__name__}: {error}"})


main()
