"""Session options: what can be read of them, and copies that leave the caller's own alone."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import onnxruntime

from tetris._onnx.environment import HOST_PROVIDERS

EXTERNAL_FOLDER = "session.model_external_initializers_file_folder_path"
DISABLE_PREPACKING = "session.disable_prepacking"

#: Attributes that can be read and set, as a copy needs them.
_ATTRIBUTES = (
    "enable_cpu_mem_arena",
    "enable_mem_pattern",
    "enable_mem_reuse",
    "enable_profiling",
    "execution_mode",
    "execution_order",
    "graph_optimization_level",
    "inter_op_num_threads",
    "intra_op_num_threads",
    "log_severity_level",
    "log_verbosity_level",
    "logid",
    "optimized_model_filepath",
    "profile_file_prefix",
    "use_deterministic_compute",
    "use_per_session_threads",
)

#: Those of them that shape the graph. The others are about threads, memory and logs.
_GRAPH_ATTRIBUTES = ("execution_mode", "execution_order", "graph_optimization_level", "use_deterministic_compute")

#: Entries that change which kernels a graph ends up with, and with them what is prepacked. Entries cannot be listed,
#: only asked for by name. One that is missing here costs sharing, never correctness: see `prepack`.
_GRAPH_ENTRIES = (
    "mlas.disable_kleidiai",
    "mlas.enable_gemm_fastmath_arm64_bfloat16",
    "mlas.kleidiai.conv_igemm_max_work",
    "mlas.nchwc_depthwise_sliding",
    "mlas.nchwc_pointwise_conv_max_input_channel_batch",
    "mlas.qnbit.force_fp32",
    "mlas.use_lut_gemm",
    "optimization.constant_folding_max_output_size_in_bytes",
    "optimization.disable_specified_optimizers",
    "optimization.enable_cast_chain_elimination",
    "optimization.enable_gelu_approximation",
    "optimization.minimal_build_optimizations",
    "session.disable_aot_function_inlining",
    "session.disable_double_qdq_remover",
    "session.disable_prepacking",
    "session.disable_qdq_constant_folding",
    "session.disable_quant_qdq",
    "session.enable_dq_matmulnbits_fusion",
    "session.enable_quant_qdq_cleanup",
    "session.graph_optimizations_loop_level",
    "session.qdq_matmulnbits_accuracy_level",
    "session.qdq_matmulnbits_block_size",
    "session.qdqisint8allowed",
    "session.x64quantprecision",
)


class SessionOptions(onnxruntime.SessionOptions):
    """:class:`onnxruntime.SessionOptions` that remember what was set.

    ONNX Runtime's own class cannot be asked for all of its settings. ``weights="optimized"`` keeps a graph that
    these settings shaped, so it must know them all. Use this class as you would use ONNX Runtime's.
    """

    def __init__(self) -> None:
        super().__init__()
        self._entries: dict[str, str] = {}
        self._free_dimensions: list[tuple[str, str, int]] = []
        self._opaque: list[str] = []

    def add_session_config_entry(self, key: str, value: str) -> None:
        """Set a configuration entry. Raises as ONNX Runtime does for keys and values that are too long."""
        super().add_session_config_entry(key, value)
        self._entries[key] = value

    def add_free_dimension_override_by_name(self, name: str, value: int) -> None:
        """Fix the symbolic dimension of this name."""
        super().add_free_dimension_override_by_name(name, value)
        self._free_dimensions.append(("name", name, int(value)))

    def add_free_dimension_override_by_denotation(self, denotation: str, value: int) -> None:
        """Fix the symbolic dimensions of this denotation."""
        super().add_free_dimension_override_by_denotation(denotation, value)
        self._free_dimensions.append(("denotation", denotation, int(value)))

    @property
    def opaque(self) -> list[str]:
        """Names of the methods that were used and that no copy and no key can account for."""
        return list(self._opaque)

    def graph_state(self) -> str:
        """Everything that was set and that may shape the graph, as canonical JSON."""
        attributes = {name: str(getattr(self, name)) for name in _GRAPH_ATTRIBUTES if hasattr(self, name)}
        return json.dumps([attributes, self._entries, self._free_dimensions], sort_keys=True)

    def plain_copy(self, entries: Mapping[str, str]) -> onnxruntime.SessionOptions:
        """A new :class:`onnxruntime.SessionOptions` with the same settings, except for those in :attr:`opaque`, and for
        these entries."""
        copy = onnxruntime.SessionOptions()
        for name in _ATTRIBUTES:
            if hasattr(self, name) and getattr(copy, name) != getattr(self, name):
                setattr(copy, name, getattr(self, name))
        # ONNX Runtime warns of an entry that is set twice.
        for key, value in {**self._entries, **entries}.items():
            copy.add_session_config_entry(key, value)
        for kind, name, size in self._free_dimensions:
            getattr(copy, f"add_free_dimension_override_by_{kind}")(name, size)
        return copy


def _opaque_method(name: str) -> Any:
    """A method that does what ONNX Runtime's does and notes that it was used."""
    inherited = getattr(onnxruntime.SessionOptions, name)

    def method(self: SessionOptions, *args: Any, **kwargs: Any) -> Any:
        self._opaque.append(name)
        return inherited(self, *args, **kwargs)

    method.__name__ = name
    method.__doc__ = inherited.__doc__
    return method


for _name in (
    "add_external_initializers",
    "add_external_initializers_from_files_in_memory",
    "add_initializer",
    "add_provider",
    "add_provider_for_devices",
    "register_custom_ops_library",
    "set_ep_context_data_read_func",
    "set_provider_selection_policy",
    "set_provider_selection_policy_delegate",
):
    if hasattr(onnxruntime.SessionOptions, _name):
        setattr(SessionOptions, _name, _opaque_method(_name))


def entry(options: onnxruntime.SessionOptions | None, key: str) -> str:
    """The value of a configuration entry; the empty string where there is none."""
    if options is None:
        return ""
    try:
        return options.get_session_config_entry(key)
    except RuntimeError:
        return ""


def copy(
    options: onnxruntime.SessionOptions | None, entries: Mapping[str, str] = MappingProxyType({})
) -> onnxruntime.SessionOptions:
    """Options with the same settings but for `entries`, which may be changed without the caller's noticing.

    ONNX Runtime has no separate copy. A session has one of the options it was made from, so an empty session is
    made, which is never initialized. Custom operators and providers that were added to the options are not in it.
    """
    if isinstance(options, SessionOptions) and not options.opaque:
        return options.plain_copy(entries)
    from onnxruntime.capi import _pybind_state

    copied = onnxruntime.SessionOptions()
    if options is not None:
        copied = _pybind_state.InferenceSession(options, _EMPTY_MODEL, False, False).session_options
    for key, value in entries.items():
        copied.add_session_config_entry(key, value)
    return copied


#: ir_version 8, opset 13, a graph of the name "e" with neither nodes nor inputs: the least that is a model.
_EMPTY_MODEL = bytes([0x08, 8, 0x3A, 3, 0x12, 1, 0x65, 0x42, 4, 0x0A, 0, 0x10, 13])


def graph_settings(options: onnxruntime.SessionOptions | None) -> dict[str, str]:
    """The settings that decide which kernels, and so which prepacked weights, a graph ends up with.

    Returns the optimization level under ``"level"``, and the entries that are set under their own names.
    """
    known = onnxruntime.SessionOptions() if options is None else options
    settings = {"level": known.graph_optimization_level.name}
    settings.update({key: value for key in _GRAPH_ENTRIES if (value := entry(options, key))})
    return settings


def with_graph_settings(settings: dict[str, str]) -> onnxruntime.SessionOptions:
    """New options with what :func:`graph_settings` returned, and defaults otherwise."""
    options = onnxruntime.SessionOptions()
    for key, value in settings.items():
        if key == "level":
            options.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, value)
        else:
            options.add_session_config_entry(key, value)
    return options


def key_of(*parts: Any) -> str:
    """16 hex digits over parts that JSON can hold, for the name of a transform."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True, default=str).encode()).hexdigest()[:16]


def has_providers(options: onnxruntime.SessionOptions | None) -> bool:
    """Returns true if providers were added to the options, which no copy has."""
    return options is not None and hasattr(options, "has_providers") and options.has_providers()


def host_only(options: onnxruntime.SessionOptions | None, providers: Any) -> bool:
    """Returns true if every provider of the session keeps its weights in host memory, as prepacking does."""
    if has_providers(options):
        return False
    if providers is None:
        names = onnxruntime.get_available_providers()
    else:
        names = [provider if isinstance(provider, str) else provider[0] for provider in providers]
    return HOST_PROVIDERS.issuperset(names)
