"""The key of the weights that an engine runs on: all that they depend on."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from tetris._agent import agent
from tetris._device.names import SIMULATED

if TYPE_CHECKING:
    from vllm.config import ModelConfig, VllmConfig
    from vllm.model_executor.model_loader import DefaultModelLoader

#: The name of what is made of a model's files. The version rises with every change of its form.
TRANSFORM = "vllm weights"
VERSION = 1

#: Fields of the model's configuration that say where it is, or serve it, and change no weight.
_NOT_OF_WEIGHTS = frozenset(
    (
        *("model", "model_weights", "revision", "code_revision", "served_model_name", "hf_token", "config_format"),
        *("hf_config_path", "allowed_local_media_path", "allowed_media_domains"),
        *("tokenizer", "tokenizer_mode", "tokenizer_revision", "skip_tokenizer_init"),
        *("seed", "logprobs_mode", "max_logprobs", "logits_processors", "return_sampling_mask", "io_processor_plugin"),
        *("generation_config", "override_generation_config", "enforce_eager", "enable_sleep_mode"),
        *("disable_cascade_attn", "enable_return_routed_experts"),
        # Objects without a stable text; that of the first is added.
        *("hf_config", "hf_text_config", "hf_image_processor_config", "model_arch_config"),
    )
)
#: Variables of vLLM that choose no weights. All others that vLLM compiles by are in the key.
_NOT_OF_KERNELS = frozenset({"VLLM_CPU_OMP_THREADS_BIND", "VLLM_CPU_NUM_OF_RESERVED_CPU", "VLLM_PLUGINS"})
#: Choose kernels, or how oneDNN packs for them, and vLLM does not count them among those that it compiles by.
_OF_KERNELS = ("VLLM_CPU_MOE_PREPACK", "ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA", "ATEN_CPU_CAPABILITY")


def sources(stock: DefaultModelLoader, model_config: ModelConfig) -> dict[str, str]:
    """Return ids of the files that vLLM would read, by name. Files that are not there yet are downloaded."""
    folder, files, *_ = stock._prepare_weights(
        model_config.model,
        None,
        model_config.revision,
        fall_back_to_pt=True,
        allow_patterns_overrides=None,
    )
    return {os.path.relpath(file, folder): agent().file_id(file) for file in files}


def conditions(vllm_config: VllmConfig, model_config: ModelConfig, mirror: str | None = None) -> dict[str, str]:
    """Return all that the weights depend on beside the files and torch.

    Args:
        vllm_config: The engine's configuration.
        model_config: The model's.
        mirror: The device of the GPU mirror's that the weights are for; `None` for host memory.
    """
    import vllm
    from vllm import envs

    environment = {name: repr(value) for name, value in envs.compile_factors().items() if name not in _NOT_OF_KERNELS}
    environment |= {name: os.environ[name] for name in _OF_KERNELS if name in os.environ}
    device = (
        {} if mirror is None else {"device": _kind(mirror), "attention": _digest(_fields(vllm_config.attention_config))}
    )
    return {
        **device,
        "vllm": vllm.__version__,
        "processor": f"{torch.backends.cpu.get_cpu_capability()} {_digest(_processor_flags())}",
        "model": _digest(_model(model_config)),
        "kernels": _digest([_fields(vllm_config.kernel_config), vllm_config.cache_config.cache_dtype]),
        "lora": repr(vllm_config.lora_config),
        "environment": _digest(environment),
        "place": _place(),
    }


def _model(model_config: ModelConfig) -> dict[str, Any]:
    description = json.loads(model_config.hf_config.to_json_string(use_diff=False))
    # The folder of the model.
    description.pop("_name_or_path", None)
    return {**_fields(model_config, _NOT_OF_WEIGHTS), "hf_config": description}


def _fields(config: Any, without: frozenset[str] = frozenset()) -> dict[str, Any]:
    names = [field.name for field in dataclasses.fields(config) if field.name not in without]
    return {name: repr(getattr(config, name, None)) for name in names}


def _place() -> str:
    """Return this process's place among those that hold a part of the model each."""
    from vllm.distributed import parallel_state

    groups = {"tp": "get_tp_group", "pp": "get_pp_group", "dp": "get_dp_group", "ep": "get_ep_group"}
    places = []
    for name, getter in groups.items():
        try:
            group = getattr(parallel_state, getter)()
        except (AssertionError, AttributeError):
            # A model without experts has no such group.
            continue
        places.append(f"{name} {group.rank_in_group} of {group.world_size}")
    return ", ".join(places)


def _kind(mirror: str) -> str:
    """Return the kind of a device, by which vLLM chooses kernels."""
    if mirror == SIMULATED:
        return SIMULATED
    number = torch.device(mirror)
    major, minor = torch.cuda.get_device_capability(number)
    return f"{torch.cuda.get_device_name(number)}, capability {major}.{minor}, CUDA {torch.version.cuda}"


def _processor_flags() -> str:
    """Return the features of the processor, by which oneDNN and vLLM choose."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    return next((line for line in lines if line.startswith(("flags", "Features"))), "")


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()
