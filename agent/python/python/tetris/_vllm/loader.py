"""The loader behind `--load-format tetris`."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

import torch
from vllm.config import ModelConfig, VllmConfig
from vllm.config.load import LoadConfig
from vllm.model_executor.layers.quantization.base_config import QuantizeMethodBase
from vllm.model_executor.model_loader.base_loader import BaseModelLoader, _has_online_quant
from vllm.model_executor.model_loader.default_loader import DefaultModelLoader
from vllm.model_executor.model_loader.utils import process_weights_after_loading
from vllm.utils.torch_utils import set_default_torch_dtype

import tetris.torch
from tetris._agent import agent
from tetris._device.names import SIMULATED
from tetris._log import logger
from tetris._vllm import LOAD_FORMAT, key, state
from tetris._vllm.device import hollow_parameters, mirror_of, written
from tetris._vllm.memory import count_shared_pages_once, give_back
from tetris._vllm.packed import packing
from tetris._vllm.versions import create_model, is_attention_processed_after_loading

if TYPE_CHECKING:
    from tetris.torch import Layout


class TetrisModelLoader(BaseModelLoader):
    """Loads the weights that an engine runs on from the node's store.

    The first engine of the node loads as vLLM does, and publishes its final weights: fused, cast, repacked. All others
    map them. Whatever cannot be shared is loaded as vLLM does, and a warning has the reason.

    On a GPU, engines map them from the node's GPU mirror.

    `model_loader_extra_config` has `wait_seconds`, the longest wait for another engine that loads the same weights;
    `device`, which may be `"simulated"` for an engine on the CPU that is to run on a mirror without a GPU; and what
    vLLM's own loader takes.
    """

    def __init__(self, load_config: LoadConfig) -> None:
        super().__init__(load_config)
        extra = load_config.model_loader_extra_config
        if not isinstance(extra, dict):
            raise ValueError(f"model_loader_extra_config must be a dict, got {type(extra).__name__}")
        extra = dict(extra)
        self._wait: float | None = extra.pop("wait_seconds", None)
        if self._wait is not None and (not isinstance(self._wait, int | float) or self._wait < 0):
            raise ValueError(f"wait_seconds must be a number of seconds, got {self._wait!r}")
        self._device: str | None = extra.pop("device", None)
        if self._device not in (None, SIMULATED):
            raise ValueError(f"device must be {SIMULATED!r} or absent, got {self._device!r}")
        self._stock = DefaultModelLoader(
            dataclasses.replace(load_config, load_format="auto", model_loader_extra_config=extra)
        )

    def download_model(self, model_config: ModelConfig) -> None:
        """Download a model, as vLLM does."""
        self._stock.download_model(model_config)

    def load_weights(self, model: torch.nn.Module, model_config: ModelConfig) -> None:
        """Load weights into a model that is there: they are this process's own then."""
        # Nothing may write to the mirror's memory.
        tetris.torch.private_(model)
        self._stock.load_weights(model, model_config)

    def load_model(self, vllm_config: VllmConfig, model_config: ModelConfig, prefix: str = "") -> torch.nn.Module:
        """Return a model over weights that the node has once."""
        device = torch.device(self.load_config.device or vllm_config.device_config.device)
        reason = _reason_against(vllm_config, model_config, device)
        mirror = None
        if reason is None:
            mirror, reason = mirror_of(vllm_config, device, self._device)
        if reason is not None:
            logger.warning("vLLM's weights are not shared: %s", reason)
            return self._stock.load_model(vllm_config, model_config, prefix)
        begun = time.perf_counter()
        load = _Load(self._stock, vllm_config, model_config, prefix, device, mirror)
        try:
            layout = tetris.torch.layout(
                key.TRANSFORM,
                load.build,
                # Before the load, which changes the configuration.
                conditions=key.conditions(vllm_config, model_config, mirror),
                sources=key.sources(self._stock, model_config),
                version=key.VERSION,
                wait=self._wait,
            )
            model = load.attach(layout)
        except Exception as error:
            if error is load.error:
                raise
            logger.warning("vLLM's weights are not shared: %s: %s", type(error).__name__, error)
        else:
            taken = time.perf_counter() - begun
            logger.info("vLLM's weights are %s: %d tensors in %.2f s", load.place(layout), len(layout.tensors), taken)
            return model
        # Here, where the error is gone, and with it what it held of a model.
        return load.private()


class _Load:
    """One load of a model: by vLLM's own loader, or over weights of a layout."""

    def __init__(
        self,
        stock: DefaultModelLoader,
        vllm_config: VllmConfig,
        model_config: ModelConfig,
        prefix: str,
        device: torch.device,
        mirror: str | None,
    ) -> None:
        self._stock = stock
        self._vllm_config = vllm_config
        self._model_config = model_config
        self._prefix = prefix
        self._device = device
        #: The device of the GPU mirror's where the weights are to be; `None` for host memory.
        self._mirror = mirror
        #: The model that vLLM has loaded here, until others attach its weights.
        self.built: torch.nn.Module | None = None
        self._is_copied = False
        #: The reason that vLLM could not load it, which is no matter of the store.
        self.error: Exception | None = None
        self._registered = _Registered(vllm_config)
        # What vLLM compiles calls other functions than with its own loader, and is cached by the configuration.
        if isinstance(vllm_config.additional_config, dict):
            vllm_config.additional_config[LOAD_FORMAT] = f"{key.TRANSFORM} {key.VERSION}"

    def build(self) -> tuple[dict[str, torch.Tensor], dict[str, bytes]]:
        """Load as vLLM does; return the state that the model then has."""
        loader = _Recording(self._stock.load_config)
        try:
            with packing(), _files_read_privately():
                model = loader.load_model(self._vllm_config, self._model_config, self._prefix)
        except Exception as error:
            self.error = error
            raise
        self.built = model
        if _has_online_quant(model):
            raise state.UnfitError("they are quantized while they are loaded")
        if hasattr(model, "process_weights_after_loading"):
            raise state.UnfitError(f"{type(model).__name__} makes more of its weights than its layers do")
        return state.read(model, loader.before, self._device.type)

    def attach(self, layout: Layout) -> torch.nn.Module:
        """Return the model over the tensors of a layout."""
        if layout.origin == "private" and self.built is not None:
            return self.built
        model = self._attached(layout) if self.built is None else self._exchanged(self.built, layout)
        if self._device.type == "cpu":
            count_shared_pages_once()
        return model

    def place(self, layout: Layout) -> str:
        """Return where the weights of a layout are, for the log."""
        if self._mirror is None or layout.origin == "private":
            return layout.origin
        return f"{layout.origin}, and {'copied to' if self._is_copied else 'mapped on'} {self._mirror}"

    def _exchanged(self, model: torch.nn.Module, layout: Layout) -> torch.nn.Module:
        """Return the model that was built, over the tensors of a layout in place of the loaded ones."""
        # Here, where the model is as vLLM has made it if they do not fit.
        changes = state.Changes.of(model, layout.tensors, layout.attributes)
        self.built = None
        if self._mirror is not None:
            # The device need not have room for the weights twice.
            changes.let_go()
            give_back()
            changes = state.Changes.of(model, self._placed(layout), layout.attributes)
        changes.apply()
        give_back()
        return model

    def _placed(self, layout: Layout) -> dict[str, torch.Tensor]:
        """Return the tensors of a layout where the engine is to have them."""
        if self._mirror is None:
            return layout.tensors
        placed = layout.to(self._mirror, private=written(layout.tensors))
        self._is_copied = placed.copied_reason is not None
        return placed.tensors

    def private(self) -> torch.nn.Module:
        """Return the model that vLLM has loaded here; load it by vLLM's own loader if there is none."""
        if self.built is not None:
            return self.built
        self._registered.restore()
        # What is left of a model that the layout did not fit.
        give_back()
        if isinstance(self._vllm_config.additional_config, dict):
            self._vllm_config.additional_config.pop(LOAD_FORMAT, None)
        return self._stock.load_model(self._vllm_config, self._model_config, self._prefix)

    def _attached(self, layout: Layout) -> torch.nn.Module:
        with set_default_torch_dtype(self._model_config.dtype):
            # On the CPU its weights are untouched memory: they take no room.
            with self._device, nullcontext() if self._mirror is None else hollow_parameters():
                model = create_model(self._stock, self._vllm_config, self._model_config, self._prefix)
            state.write(model, self._placed(layout), layout.attributes)
            with _processed(model):
                process_weights_after_loading(model, self._model_config, self._device)
        return model.eval()


class _Registered:
    """The layers that an engine's configuration knows by name. A model adds its own, and none may be there twice."""

    def __init__(self, vllm_config: VllmConfig) -> None:
        compilation = vllm_config.compilation_config
        self._layers: dict[str, Any] = compilation.static_forward_context
        self._experts: list[str] = compilation.static_all_moe_layers
        self._before = dict(self._layers), list(self._experts)

    def restore(self) -> None:
        """Forget the layers of models that were made since then."""
        layers, experts = self._before
        self._layers.clear()
        self._layers.update(layers)
        self._experts[:] = experts


class _Recording(DefaultModelLoader):
    """vLLM's own loader, which remembers a model as it was before its weights came."""

    before: state.Before

    def load_weights(self, model: torch.nn.Module, model_config: ModelConfig) -> None:
        self.before = state.Before(model)
        super().load_weights(model, model_config)


@contextmanager
def _files_read_privately() -> Iterator[None]:
    """Have vLLM read files by safetensors itself, also where it is patched: the file's tensors are soon of no use."""
    from vllm.model_executor.model_loader import weight_utils

    patched = weight_utils.safe_open
    weight_utils.safe_open = getattr(patched, "_tetris_original", patched)
    try:
        yield
    finally:
        weight_utils.safe_open = patched


@contextmanager
def _processed(model: torch.nn.Module) -> Iterator[None]:
    """Have vLLM leave out what its layers make of their weights after loading: that is done."""
    owners: list[Any] = []
    for module in model.modules():
        method = getattr(module, "quant_method", None)
        if isinstance(method, QuantizeMethodBase):
            owners.append(method)
        if is_attention_processed_after_loading(module):
            owners.append(module)
    for owner in owners:
        owner.process_weights_after_loading = _nothing
    try:
        yield
    finally:
        for owner in owners:
            owner.__dict__.pop("process_weights_after_loading", None)


def _nothing(*_: Any) -> None:
    pass


def _reason_against(vllm_config: VllmConfig, model_config: ModelConfig, device: torch.device) -> str | None:
    """Return why the weights of an engine cannot be shared, `None` if they can."""
    found = agent()
    if found.store is None:
        return found.unavailable
    if device.type not in ("cpu", "cuda"):
        return f"they are on the device {device.type!r}, and this loader shares those on the CPU and on CUDA's GPUs"
    if model_config is not vllm_config.model_config:
        return "a draft model is loaded as vLLM does it"
    return None
