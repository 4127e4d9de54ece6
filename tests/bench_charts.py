"""Charts of docs/benchmarks/*.json as SVG, for light and dark pages. `tests/bench-report` writes them."""

from collections.abc import Callable
from dataclasses import dataclass
from xml.sax.saxutils import escape

WIDTH, LEFT, RIGHT, ROW = 760, 270, 90, 26
OURS, OTHER = "ours", "other"
# Both colors have a contrast of at least 3 to the background, by day and by night.
STYLE = (
    "text{font:13px system-ui,sans-serif;fill:#24292f}.title{font-weight:600}.ours{fill:#0969da}.other{fill:#7d8590}"
    "@media(prefers-color-scheme:dark){text{fill:#e6edf3}.ours{fill:#58a6ff}.other{fill:#8b949e}}"
)


@dataclass
class Bar:
    """A bar: what it is of, its length, what is written at its end, and whether it is of Tetris."""

    label: str
    value: float
    text: str
    ours: bool


@dataclass
class Panel:
    """Bars of one scale under a title."""

    title: str
    bars: list[Bar]


def svg(title: str, panels: list[Panel]) -> str:
    """The panels below each other."""
    lines: list[str] = []
    top = 16
    for panel in panels:
        most = max((bar.value for bar in panel.bars), default=0) or 1
        lines.append(f'<text class="title" x="0" y="{top + 8}">{escape(panel.title)}</text>')
        top += 22
        for bar in panel.bars:
            length = max(2, round((WIDTH - LEFT - RIGHT) * bar.value / most))
            lines.append(f'<text x="{LEFT - 10}" y="{top + 15}" text-anchor="end">{escape(bar.label)}</text>')
            lines.append(f'<rect class="{OURS if bar.ours else OTHER}" x="{LEFT}" y="{top + 2}" width="{length}" height="{ROW - 8}" rx="2"/>')
            lines.append(f'<text x="{LEFT + length + 8}" y="{top + 15}">{escape(bar.text)}</text>')
            top += ROW
        top += 18
    height = max(top - 8, 16)
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" role="img">'
    return "\n".join([head, f"<title>{escape(title)}</title>", f"<style>{STYLE}</style>", *lines, "</svg>"]) + "\n"


def density(result: dict, size: Callable[[float], str]) -> list[Panel]:
    """Memory of the largest groups of processes, by loading method."""
    said = {
        "private": "read into private memory",
        "own-file": "mapped, own download each",
        "page-cache": "mapped, all the same file",
        "tetris": "Tetris, all the same file",
        "tetris-own-file": "Tetris, own download each",
    }
    panels = []
    for workload, title in (("replicas", "{} replicas of one model: memory"), ("heads", "{} processes, four models with one backbone: memory")):
        found = next((entry for entry in result["workloads"] if entry["name"] == workload), None)
        if found is None:
            continue
        groups = {entry["method"]: entry["group"][-1] for entry in found["methods"] if entry["outcome"] == "measured"}
        bars = [
            Bar(label, groups[method]["group_bytes"], size(groups[method]["group_bytes"]), method.startswith("tetris"))
            for method, label in said.items()
            if method in groups
        ]
        count = max(group["instances"] for group in groups.values())
        panels.append(Panel(title.format(count), bars))
    return panels


def python(result: dict, time: Callable[[float], str]) -> list[Panel]:
    """Time to load a model with PyTorch and to touch every page of it."""
    said = {
        "pread": "safetensors, read by pread",
        "clone": "safetensors, every tensor cloned",
        "shared-memory": "torch, tensors in shared memory",
        "torch-mmap": "torch.load(mmap=True)",
        "safetensors-own-file": "safetensors, own download each",
        "safetensors": "safetensors, all the same file",
        "runai-streamer": "Run:ai model streamer",
        "vineyard": "vineyard",
        "tetris-own-file": "Tetris, own download each",
        "tetris": "Tetris, all the same file",
        "tetris-read-only": "Tetris, read-only tensors",
    }
    panels = []
    for model in result["models"][:1]:
        found = {entry["method"]: entry["medians"]["load_and_touch_ns"] for entry in model["methods"] if entry["outcome"] == "measured"}
        bars = [
            Bar(label, found[method], time(found[method]), method.startswith("tetris"))
            for method, label in said.items()
            if found.get(method) is not None
        ]
        panels.append(Panel(f"One {model['name']} model: load it and touch every page", bars))
    return panels


def engines(result: dict) -> list[Panel]:
    """Memory of replicas of engines, in copies of the weights that one runs on."""
    said = {
        "transformers": "transformers",
        "share-module": "a module of PyTorch, with share_module_",
        "layout": "fused weights of PyTorch, with layout",
        "vllm": "vLLM",
        "llama-cpp": "llama.cpp",
    }
    panels = []
    for engine in result["engines"]:
        if engine["outcome"] != "measured":
            continue
        bars = [
            Bar("through the store" if way == "tetris" else "by itself", found["medians"]["copies"], f"{found['medians']['copies']:.2f} copies", way == "tetris")
            for way, found in engine["ways"].items()
        ]
        panels.append(Panel(f"{said.get(engine['engine'], engine['engine'])}: memory of {result['replicas']} replicas", bars))
    return panels


def gateway(result: dict) -> list[Panel]:
    """Requests that missed their objective behind proxies."""
    bars = [
        Bar(proxy["proxy"], proxy["missed"] / proxy["requests"], f"{proxy['missed'] / proxy['requests']:.2%}", proxy["proxy"].startswith("tetris"))
        for proxy in result["proxies"]
    ]
    return [Panel("Instances of unequal size at 85 % of their capacity: requests that missed the objective", bars)]


def gpu(result: dict, size: Callable[[float], str]) -> list[Panel]:
    """Device memory of processes with one model, and rates of loads."""
    measures: dict[str, dict] = {}
    for measure in result["measures"]:
        # The first store is the one with large pages.
        measures.setdefault(measure["name"], measure)

    def figure(measure: str, name: str) -> float | None:
        found = measures.get(measure, {"outcome": None})
        return next((figure["value"] for figure in found["figures"] if figure["name"] == name), None) if found["outcome"] == "measured" else None

    def median(measure: str, name: str) -> float | None:
        found = measures.get(measure, {"outcome": None})
        return next((sample["median"] for sample in found["series"] if sample["name"] == name), None) if found["outcome"] == "measured" else None

    def bars(*rows: tuple[str, float | None, bool], text: Callable[[float], str]) -> list[Bar]:
        return [Bar(label, value, text(value), ours) for label, value, ours in rows if value is not None]

    def rate(value: float) -> str:
        return f"{value / 1e9:.1f} GB/s"

    contexts = figure("processes", "contexts alone") or 0
    shared, private = figure("processes", "with the model"), figure("processes", "with a copy in each process it would be")
    memory = bars(
        ("a copy in each process", private, False),
        ("Tetris, one copy for all", shared, True),
        text=size,
    )
    rates = bars(
        ("safetensors", median("anchors", "safetensors"), False),
        ("Run:ai model streamer", median("anchors", "Run:ai model streamer"), False),
        ("Tetris, first load", figure("load-file", "the mirror's rate"), True),
        ("torch, pinned memory of its own", median("anchors", "torch, copies from pinned memory"), False),
        ("Tetris, pages registered", median("transfers", "store, pages registered before"), True),
        ("the link: pinned memory, peak", figure("anchors", "pinned memory, peak"), False),
        text=rate,
    )
    count = round(figure("processes", "processes") or 0)
    return [
        Panel(f"{count} processes with one model of {size(result['model']['bytes'])}: device memory, {size(contexts)} of it for contexts", memory),
        Panel("From the host to the device", rates),
    ]


def starts(result: dict, time: Callable[[float], str]) -> list[Panel]:
    """Times to the first token."""
    said = {
        "run-ai": "Run:ai model streamer",
        "safetensors": "safetensors",
        "pinned": "torch, pinned memory of its own",
        "cold": "Tetris, nothing on the device",
        "prefix": "Tetris, prefix on the device",
        "warm": "weights on the device",
    }
    panels = []
    for start in result.get("starts", []):
        bars = [
            Bar(label, start["median_s"][way], time(1e9 * start["median_s"][way]), label.startswith("Tetris"))
            for way, label in said.items()
            if start["median_s"].get(way) is not None
        ]
        panels.append(Panel(f"{start['model']}, {start['tokens']} tokens: time to the first token", bars))
    return panels
