"""vLLM over the GPU mirror beside vLLM as it is: tokens, device memory, times, sizes of caches, sleep and wake.

    python3 measure.py [--bin DIR] [--out DIR] [--work DIR] [--limit-s 480] [--only STEP,...] [--simulated]

It needs the programs `tetris` and `tetris-node`: those of the pack, or those of --bin. Each figure is in
OUT/engines.json as soon as it is taken. A step that fails says why, and the others go on. With --simulated it runs on
the CPU, with a small model and a mirror without a GPU (the example `simulated` of tetris-gpu-server in --bin), to try
the program.
"""

from __future__ import annotations

import argparse
import json
import os
import select
import shutil
import subprocess
import sys
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from statistics import median
from typing import IO, Any

HERE = Path(__file__).parent
#: The packages of a pack, which this program is then beside.
SITE = HERE / "site"
GIB = 1 << 30


class Failed(Exception):
    """A step that cannot go on, with the reason."""


class Results:
    """Figures and outcomes so far, in a file that is whole at any time."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._begin = time.monotonic()
        self.known: dict[str, Any] = {"schema": "tetris-gpu-engines/1", "steps": [], "figures": {}}

    def keep(self, name: str, value: Any) -> None:
        """Keep a figure, and print it."""
        self.known["figures"][name] = value
        self._write()
        text = json.dumps(value)
        print(f"{name}: {text if len(text) < 700 else text[:700] + ' ...'}", flush=True)

    def step(self, name: str, outcome: str, reason: str | None = None) -> None:
        """Keep the outcome of a step."""
        at = round(time.monotonic() - self._begin, 1)
        self.known["steps"].append({"step": name, "outcome": outcome, "reason": reason, "at_s": at})
        self._write()
        print(f"== {at:7.1f} s  {name}: {outcome}{': ' + reason if reason else ''}", flush=True)

    def _write(self) -> None:
        new = self._file.with_suffix(".new")
        new.write_text(json.dumps(self.known, indent=1))
        new.replace(self._file)


class Lines:
    """Lines of a process's output, each waited for no longer than the run lasts."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self._kept = b""

    def next(self, seconds: float) -> str | None:
        """Return the next line; an empty one at the end, `None` after so many seconds."""
        deadline = time.monotonic() + seconds
        while b"\n" not in self._kept:
            ready, _, _ = select.select([self._stream], [], [], max(0.0, deadline - time.monotonic()))
            if not ready:
                return None
            content = os.read(self._stream.fileno(), 1 << 16)
            if not content:
                return ""
            self._kept += content
        line, _, self._kept = self._kept.partition(b"\n")
        return line.decode()

    def close(self) -> None:
        """Close the stream."""
        self._stream.close()


class Child:
    """An engine in a process, which imports vLLM as soon as it is made."""

    def __init__(self, run: Run, name: str) -> None:
        self._run = run
        self.name = name
        self._log = (run.out / f"engine-{name}.txt").open("w")
        command = [sys.executable, os.fspath(HERE / "engine.py"), *(["--simulated"] if run.is_simulated else [])]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._log, env=run.environment
        )
        assert self._process.stdout is not None
        self._lines = Lines(self._process.stdout)
        self._is_imported = False

    def ask(self, what: str, **arguments: Any) -> dict[str, Any]:
        """Have it do something; return what it answers."""
        if not self._is_imported:
            self._is_imported = True
            self._line()
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps({"do": what, **arguments}).encode() + b"\n")
            self._process.stdin.flush()
        except OSError as error:
            raise Failed(f"engine {self.name} is gone: {error}; see engine-{self.name}.txt") from error
        answer = self._line()
        if "error" in answer:
            self._log.write(answer["error"])
            self._log.flush()
            raise Failed(f"engine {self.name}, {what}: {answer['error'].strip().splitlines()[-1]}")
        return answer

    def _line(self) -> dict[str, Any]:
        line = self._lines.next(self._run.left())
        if line is None:
            raise Failed(f"engine {self.name} has not answered, and no time is left")
        if not line:
            raise Failed(f"engine {self.name} ended with status {self._process.wait()}; see engine-{self.name}.txt")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def end(self) -> None:
        """End it, and with it all that it holds."""
        self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._lines, self._log):
            assert stream is not None
            with suppress(OSError):
                stream.close()


class Run:
    """One run of all measurements."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.is_simulated: bool = options.simulated
        self._bin: Path = options.bin.resolve()
        self.out: Path = options.out.resolve()
        self.out.mkdir(parents=True, exist_ok=True)
        self._work: Path = options.work.resolve()
        self._deadline = time.monotonic() + options.limit_s
        self.results = Results(self.out / "engines.json")
        self._processes: list[subprocess.Popen[Any]] = []
        self.children: list[Child] = []
        self.environment = {**os.environ, "TETRIS_STORE": os.fspath(self._work / "store"), "PYTHONUNBUFFERED": "1"}
        if SITE.is_dir():
            self.environment["PYTHONPATH"] = os.pathsep.join(filter(None, (str(SITE), os.environ.get("PYTHONPATH"))))
        self._models = self._work / "models"
        self._made: dict[str, str] = {}
        self._maker: Lines | None = None
        self._is_mounted = False

    def left(self) -> float:
        """Return the seconds that are left."""
        return max(0.0, self._deadline - time.monotonic())

    # What the measurements need

    def begin(self, names: list[str]) -> None:
        """Mount memory, start the mirror, and have the models made."""
        shutil.rmtree(self._work, ignore_errors=True)
        self._work.mkdir(parents=True)
        mount = ["mount", "-t", "tmpfs", "-o", "size=90%,mode=0755,huge=within_size", "tetris", os.fspath(self._work)]
        done = subprocess.run(mount, capture_output=True, text=True)
        self._is_mounted = done.returncode == 0
        self.results.step("mount", "passed" if self._is_mounted else "skipped", done.stderr.strip() or None)
        maker = subprocess.Popen(
            [sys.executable, HERE / "models.py", self._models, *names], stdout=subprocess.PIPE, env=self.environment
        )
        self._processes.append(maker)
        assert maker.stdout is not None
        self._maker = Lines(maker.stdout)
        store = self._work / "store"
        self._command("init", "--no-mount", os.fspath(store))
        log = (self.out / "daemon.txt").open("w")
        if self.is_simulated:
            command = [self._bin / "simulated", store, store / "gpu", str(2 * GIB)]
        else:
            config = self._work / "node.toml"
            config.write_text(
                f'[[stores]]\nname = "default"\npath = "{store}"\n\n[gpu_mirror]\ndevice_bytes = "24GiB"\n'
                'pinned_bytes = "48GiB"\n'
            )
            command = [self._bin / "tetris-node", "run", "--config", config]
        daemon = subprocess.Popen(command, stdout=log, stderr=log)
        self._processes.append(daemon)
        while True:
            done = self._command("--store", os.fspath(store), "gpu-status", check=False)
            if done.returncode == 0 or daemon.poll() is not None or self.left() == 0:
                break
            time.sleep(0.2)
        if done.returncode != 0:
            raise Failed(f"no mirror: {(done.stdout + done.stderr).strip()[-300:]}; see daemon.txt")
        self.results.keep("mirror", done.stdout)

    def _command(self, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        done = subprocess.run([self._bin / "tetris", *arguments], capture_output=True, text=True, timeout=60)
        if check and done.returncode != 0:
            raise Failed(f"tetris {arguments[0]}: {done.stderr.strip()[-300:]}")
        return done

    def model(self, name: str) -> str:
        """Return the folder of a model, once it is made."""
        assert self._maker is not None
        while name not in self._made:
            line = self._maker.next(self.left())
            if not line:
                raise Failed(f"the model {name} was not made")
            made, seconds = line.split()
            self._made[made] = seconds
            self.results.keep(f"{made}: made in s", float(seconds))
        return os.fspath(self._models / name)

    def child(self, name: str) -> Child:
        """Start an engine's process."""
        child = Child(self, name)
        self.children.append(child)
        return child

    def end(self) -> None:
        """End all processes, and free the memory."""
        for child in self.children:
            child.end()
        for process in self._processes:
            process.kill()
            process.wait()
        if self._is_mounted:
            subprocess.run(["umount", "-l", self._work], check=False)

    # Options of engines

    def options(self, *, shares: bool, **more: Any) -> dict[str, Any]:
        """Return options of an engine."""
        options: dict[str, Any] = {"enforce_eager": True, "load_format": "tetris" if shares else "auto", **more}
        if not self.is_simulated:
            options |= {"attention_config": {"backend": "TRITON_ATTN"}}
        elif shares:
            options |= {"model_loader_extra_config": {"device": "simulated"}}
        return options

    def used(self, child: Child) -> int:
        """Return the bytes of the device that are in use by everybody."""
        return int(child.ask("memory").get("device_used", 0))


def ratio(one: float, other: float) -> float | None:
    """Return a ratio, `None` if there is none."""
    return round(one / other, 4) if other else None


class Four:
    """Two engines of vLLM as it is and two over the mirror, of one model."""

    def __init__(self, run: Run, name: str, **options: Any) -> None:
        self._run = run
        self._name = name
        self._options = options
        self.stock, self.other_stock, self.first, self.second = (
            run.child(f"{name}-{kind}") for kind in ("stock", "stock-2", "first", "second")
        )

    def keep(self, what: str, value: Any) -> None:
        """Keep a figure of this model."""
        self._run.results.keep(f"{self._name}: {what}", value)

    def measure(self) -> None:
        """Load all, and keep what that shows."""
        run, folder = self._run, self._run.model(self._name)
        fixed = {"kv_cache_memory_bytes": 1 * GIB} | self._options if not run.is_simulated else self._options
        stock_options, shared_options = run.options(shares=False, **fixed), run.options(shares=True, **fixed)
        before = run.used(self.stock)
        stock = self.stock.ask("load", folder=folder, options=stock_options)
        self.keep("stock", stock)
        weights = self.stock.ask("weight_bytes")["bytes"]
        self.keep("bytes of weights", weights)
        one_stock = run.used(self.stock) - before
        second_stock = self.other_stock.ask("load", folder=folder, options=stock_options)
        two_stock = run.used(self.stock) - before
        self.keep("stock, second", second_stock)
        self.keep("device memory of one and two engines, stock", [one_stock, two_stock])
        self.other_stock.end()
        begin = run.used(self.stock)
        first = self.first.ask("load", folder=folder, options=shared_options)
        self.keep("first over the mirror", first)
        one = run.used(self.stock) - begin
        second = self.second.ask("load", folder=folder, options=shared_options)
        self.keep("second over the mirror", second)
        two = run.used(self.stock) - begin
        self.keep("device memory of one and two engines, mirror", [one, two])
        if not run.is_simulated:
            empty = two_stock - 2 * weights
            self.keep("copies on the device for two engines, beyond two empty ones", ratio(two - empty, weights))
        tokens = [each["tokens"] for each in (stock, second_stock, first, second)]
        self.keep("tokens as stock's", {"equal": len(set(tokens)) == 1, "tokens": tokens})
        self.keep(
            "weights of the second engine",
            {
                "stock_s": second_stock["weights_s"],
                "mirror_s": second["weights_s"],
                "ratio": ratio(second["weights_s"], second_stock["weights_s"]),
            },
        )

    def speeds(self, rounds: int, prompts: int, new: int) -> None:
        """Have engines generate in turns."""
        found: dict[str, list[float]] = {"stock": [], "mirror": []}
        for child in (self.stock, self.second):
            child.ask("generate", prompts=prompts, new=new)
        for _ in range(rounds):
            for kind, child in (("stock", self.stock), ("mirror", self.second)):
                found[kind].append(round(child.ask("generate", prompts=prompts, new=new)["tokens_per_s"], 1))
        self.keep("tokens/s", {**found, "ratio": ratio(median(found["mirror"]), median(found["stock"]))})

    def end(self) -> None:
        """End the engines."""
        for child in (self.stock, self.other_stock, self.first, self.second):
            child.end()


def compare(name: str, rounds: int, prompts: int, new: int, **options: Any) -> Callable[[Run], None]:
    """Return a step that compares engines of a model."""

    def step(run: Run) -> None:
        engines = Four(run, name, **options)
        try:
            engines.measure()
            engines.speeds(rounds, prompts, new)
        finally:
            engines.end()

    return step


def caches(run: Run) -> None:
    """Sizes of caches by a share of the device, where the weights are there already, and where they fill the device."""
    folder = run.model("1b")
    share = {"gpu_memory_utilization": 0.2}
    kinds = {"stock": False, "first": True, "second": True}
    children = {kind: run.child(f"caches-{kind}") for kind in kinds}
    last = run.child("caches-whole")
    sizes: dict[str, Any] = {}
    try:
        for kind, shares in kinds.items():
            before = run.used(children[kind])
            loaded = children[kind].ask("load", folder=folder, options=run.options(shares=shares, **share))
            sizes[kind] = {
                "cache_bytes": loaded.get("cache_bytes"),
                "device_bytes": run.used(children[kind]) - before,
            }
            run.results.keep("caches at 0.2", sizes)
    finally:
        for child in children.values():
            child.end()
    try:
        if not run.is_simulated:
            options = run.options(shares=True, gpu_memory_utilization=0.92)
            loaded = last.ask("load", folder=folder, options=options)
            run.results.keep("cache at 0.92, weights there", {"cache_bytes": loaded.get("cache_bytes")})
    finally:
        last.end()


def graphs(run: Run) -> None:
    """Tokens per second with CUDA graphs."""
    options = {
        "enforce_eager": False,
        "compilation_config": {
            "mode": 0,
            "cudagraph_mode": "FULL_DECODE_ONLY",
            "cudagraph_capture_sizes": [1, 4, 16, 64],
        },
    }
    folder = run.model("1b")
    children = {"stock": run.child("graphs-stock"), "mirror": run.child("graphs-mirror")}
    found: dict[str, list[float]] = {"stock": [], "mirror": []}
    tokens = {}
    try:
        for kind, child in children.items():
            given = run.options(shares=kind == "mirror", kv_cache_memory_bytes=GIB, **options)
            tokens[kind] = child.ask("load", folder=folder, options=given)["tokens"]
            child.ask("generate", prompts=64, new=128)
        for _ in range(5):
            for kind, child in children.items():
                found[kind].append(round(child.ask("generate", prompts=64, new=128)["tokens_per_s"], 1))
    finally:
        for child in children.values():
            child.end()
    run.results.keep(
        "1b: tokens/s with graphs",
        {**found, "ratio": ratio(median(found["mirror"]), median(found["stock"])), "tokens": tokens},
    )


def sleeps(run: Run) -> None:
    """Sleep and wake of vLLM as it is, levels 1 and 2, with 7 billion parameters."""
    folder = run.model("7b")
    child = run.child("sleep-stock")
    try:
        options = run.options(shares=False, enable_sleep_mode=True, kv_cache_memory_bytes=GIB)
        loaded = child.ask("load", folder=folder, options=options)
        for level in (1, 2):
            asleep = child.ask("sleep", level=level)
            awake = child.ask("wake", reload=level == 2)
            awake["tokens_as_before"] = awake["tokens"] == loaded["tokens"]
            run.results.keep(f"7b: stock, sleep level {level}", {**asleep, **awake})
    finally:
        child.end()


#: Steps by name, with the models that they need.
STEPS: dict[str, tuple[list[str], Callable[[Run], None]]] = {
    "1b": (["1b"], compare("1b", 5, 64, 128)),
    "7b": (["7b"], compare("7b", 5, 64, 128)),
    "awq": (["awq"], compare("awq", 3, 64, 64, dtype="float16")),
    "caches": (["1b"], caches),
    "graphs": (["1b"], graphs),
    "sleeps": (["7b"], sleeps),
}
#: Steps over the simulated device.
SIMULATED = {"tiny": (["tiny"], compare("tiny", 2, 4, 8))}


def main() -> int:
    """Run the steps; return 1 if one has failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=Path, default=HERE / "bin")
    parser.add_argument("--out", type=Path, default=Path("gpu-engines-results"))
    parser.add_argument("--work", type=Path, default=Path("/tmp/tetris-gpu-engines"))
    parser.add_argument("--limit-s", type=float, default=480)
    parser.add_argument("--only", default=None)
    parser.add_argument("--simulated", action="store_true")
    options = parser.parse_args()
    all_steps = SIMULATED if options.simulated else STEPS
    chosen = list(all_steps) if options.only is None else options.only.split(",")
    if unknown := sorted(set(chosen) - set(all_steps)):
        parser.error(f"no step {unknown[0]}: expected some of {', '.join(all_steps)}")
    run = Run(options)
    failed = False
    try:
        try:
            run.begin(list(dict.fromkeys(model for step in chosen for model in all_steps[step][0])))
        except (Failed, OSError, subprocess.SubprocessError) as error:
            run.results.step("begin", "failed", str(error))
            return 1
        for name in chosen:
            if run.left() < 10:
                run.results.step(name, "skipped", "no time is left")
                failed = True
                continue
            try:
                all_steps[name][1](run)
            except Failed as error:
                run.results.step(name, "failed", str(error))
                failed = True
            except Exception:
                run.results.step(name, "failed", traceback.format_exc())
                failed = True
            else:
                run.results.step(name, "passed")
    finally:
        run.end()
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
