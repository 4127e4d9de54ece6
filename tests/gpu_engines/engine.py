"""One engine of vLLM in this process, driven by lines of JSON: commands on standard input, answers on standard output.

python3 engine.py [--simulated]      --simulated: on the CPU, where there is no GPU to say anything about
"""

from __future__ import annotations

import gc
import hashlib
import json
import logging
import os
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

#: Tokens of a prompt, which need no tokenizer.
PROMPT = 64


class Spans:
    """Seconds that calls took, by names. Calls within one of the same name count with it."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._open: set[str] = set()

    def time(self, owner: Any, attribute: str, name: str) -> None:
        """Time all calls of a function from now on."""
        stock = getattr(owner, attribute)

        def timed(*arguments: Any, **keywords: Any) -> Any:
            if name in self._open:
                return stock(*arguments, **keywords)
            self._open.add(name)
            synchronize()
            begin = time.perf_counter()
            try:
                return stock(*arguments, **keywords)
            finally:
                synchronize()
                self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - begin
                self._open.discard(name)

        setattr(owner, attribute, timed)


def synchronize() -> None:
    """Wait for the device, if this process uses one."""
    import torch

    if torch.cuda.is_initialized():
        torch.cuda.synchronize()


class Engine:
    """An engine, and what is measured of it."""

    def __init__(self, *, is_simulated: bool) -> None:
        self._is_simulated = is_simulated
        self._spans = Spans()
        self._sized: dict[str, int] = {}
        self._warnings: list[str] = []
        self._engine: Any = None
        handler = logging.Handler(logging.INFO)
        handler.emit = lambda record: self._warnings.append(record.getMessage())  # type: ignore[method-assign]
        logger = logging.getLogger("tetris")
        logger.setLevel(logging.INFO)
        logger.addHandler(handler)
        self._watch()

    def _watch(self) -> None:
        from vllm.model_executor.model_loader import base_loader

        spans = self._spans
        spans.time(base_loader.BaseModelLoader, "load_model", "load")
        spans.time(base_loader, "initialize_model", "create")
        if self._is_simulated:
            from vllm.v1.worker import cpu_worker

            worker = cpu_worker.CPUWorker
        else:
            from vllm.v1.worker import gpu_worker

            worker = gpu_worker.Worker  # type: ignore[assignment]
        sized = worker.determine_available_memory

        def determine_available_memory(this: Any) -> int:
            self._sized["cache_bytes"] = sized(this)
            self._sized["vllm_weight_bytes"] = int(getattr(this.model_runner, "model_memory_usage", 0))
            return self._sized["cache_bytes"]

        worker.determine_available_memory = determine_available_memory  # type: ignore[method-assign]

    def _watch_tetris(self) -> None:
        import tetris.torch
        from tetris._vllm import device, key, loader, versions

        spans = self._spans
        spans.time(loader.TetrisModelLoader, "load_model", "load")
        spans.time(versions, "initialize_model", "create")
        for owner, attribute, name in (
            (loader, "mirror_of", "ask for the mirror"),
            (key, "sources", "ids of files"),
            (key, "conditions", "conditions"),
            (tetris.torch, "layout", "layout"),
            (loader._Load, "build", "build"),
            (loader._Load, "attach", "attach"),
            (loader._Load, "_placed", "map"),
            (loader.state.Changes, "apply", "put in"),
            (loader, "process_weights_after_loading", "process"),
            (device, "written", "tell apart what is written"),
        ):
            spans.time(owner, attribute, name)

    def load(self, folder: str, options: dict[str, Any]) -> dict[str, Any]:
        """Load a model, and generate once, for the tokens that others have to have, too."""
        from vllm import LLM

        if options.get("load_format") == "tetris":
            self._watch_tetris()
        begin = time.perf_counter()
        self._engine = LLM(model=folder, skip_tokenizer_init=True, max_model_len=1024, **options)
        seconds = time.perf_counter() - begin
        spans = {name: round(value, 4) for name, value in self._spans.seconds.items()}
        return {
            "start_s": seconds,
            "weights_s": spans["load"] - spans["create"],
            "spans_s": spans,
            **self._sized,
            "said": self._warnings,
            **self.generate(4, 32),
        }

    def generate(self, prompts: int, new: int) -> dict[str, Any]:
        """Generate greedily; return tokens per second, and a digest of the tokens."""
        from vllm import SamplingParams

        asked = [
            {"prompt_token_ids": [3 + (index * (7 + 2 * number)) % 31000 for index in range(PROMPT)]}
            for number in range(prompts)
        ]
        greedy = SamplingParams(temperature=0.0, max_tokens=new, ignore_eos=True, detokenize=False)
        synchronize()
        begin = time.perf_counter()
        outputs = self._engine.generate(asked, greedy, use_tqdm=False)
        synchronize()
        seconds = time.perf_counter() - begin
        tokens = [list(output.outputs[0].token_ids) for output in outputs]
        return {
            "tokens": hashlib.sha256(repr(tokens).encode()).hexdigest()[:16],
            "kinds_of_tokens": len({token for each in tokens for token in each}),
            "tokens_per_s": prompts * new / seconds,
        }

    def sleep(self, level: int) -> dict[str, Any]:
        """Have vLLM sleep; return how long that takes, and the memory before and after."""
        before, begin = self.memory(), time.perf_counter()
        self._engine.sleep(level=level)
        synchronize()
        return {"sleep_s": time.perf_counter() - begin, "before": before, "after": self.memory()}

    def wake(self, reload: bool) -> dict[str, Any]:
        """Have vLLM wake, and load the weights again where it has none."""
        begin = time.perf_counter()
        self._engine.wake_up()
        if reload:
            self._engine.collective_rpc("reload_weights")
        synchronize()
        return {"wake_s": time.perf_counter() - begin, "memory": self.memory(), **self.generate(4, 32)}

    def memory(self) -> dict[str, int]:
        """Return the memory in use: of the device by everybody, and of the host by this process."""
        import torch

        gc.collect()
        status = Path("/proc/self/status").read_text().splitlines()
        found = {
            line.split(":")[0]: int(line.split()[1]) * 1024
            for line in status
            if line.startswith(("VmRSS", "RssAnon", "RssShmem", "VmLck", "VmPin"))
        }
        rollup = Path("/proc/self/smaps_rollup").read_text().splitlines()
        found["Pss"] = next(int(line.split()[1]) * 1024 for line in rollup if line.startswith("Pss:"))
        if not self._is_simulated:
            torch.cuda.empty_cache()
            free, total = torch.cuda.mem_get_info()
            found |= {"device_used": total - free, "device_total": total}
        return found

    def weight_bytes(self) -> dict[str, int]:
        """Return the bytes of the parameters, of each once."""

        def of(worker: Any) -> int:
            storages = {}
            for parameter in worker.model_runner.get_model().parameters():
                storage = parameter.untyped_storage()
                storages[parameter.data_ptr()] = min(storage.nbytes(), parameter.nbytes) if parameter.numel() else 0
            return sum(storages.values())

        return {"bytes": max(self._engine.collective_rpc(of))}


def main() -> None:
    """Serve commands until standard input ends."""
    is_simulated = "--simulated" in sys.argv[1:]
    os.environ |= {
        "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
        "VLLM_NO_USAGE_STATS": "1",
        "VLLM_LOGGING_LEVEL": os.environ.get("VLLM_LOGGING_LEVEL", "WARNING"),
        # Packages that the pack leaves out.
        "VLLM_USE_FLASHINFER_SAMPLER": "0",
        "HF_HUB_OFFLINE": "1",
    }
    if is_simulated:
        os.environ |= {"VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_CPU_OMP_THREADS_BIND": "nobind"}
    # vLLM logs to standard output.
    said = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)

    def reply(answer: dict[str, Any]) -> None:
        said.write(json.dumps(answer) + "\n")
        said.flush()

    begin = time.perf_counter()
    import vllm  # noqa: F401

    engine = Engine(is_simulated=is_simulated)
    reply({"imported_s": time.perf_counter() - begin})
    commands: dict[str, Callable[..., dict[str, Any]]] = {
        name: getattr(engine, name) for name in ("load", "generate", "sleep", "wake", "memory", "weight_bytes")
    }
    for line in sys.stdin:
        command = json.loads(line)
        try:
            reply(commands[command.pop("do")](**command))
        except Exception:
            reply({"error": traceback.format_exc()})
    # Nothing of what is left has to be taken down in order.
    os._exit(0)


if __name__ == "__main__":
    main()
