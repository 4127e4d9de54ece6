"""The request for a session, and its outcome."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal

import onnxruntime

from tetris._onnx import cache, environment
from tetris._onnx import options as session_options
from tetris._onnx.errors import NoRoom, NoStore, Unsupported
from tetris._onnx.options import SessionOptions

if TYPE_CHECKING:
    from onnx import ModelProto

    from tetris import Agent
    from tetris._onnx.plan import Held
    from tetris._onnx.rewrite import Rewritten

#: What of a model is shared. ``docs/onnxruntime.md`` has the numbers.
#:
#: - ``"prepacked"``: the initializers, and the form that kernels pack them into. Results and speed of plain
#:   ONNX Runtime, bit for bit.
#: - ``"unpacked"``: the initializers alone; packing is off, so matrix products are slower. The least memory.
#: - ``"private_prepacked"``: the initializers; each process keeps its own packed form of those that are packed.
#: - ``"optimized"``: as ``"prepacked"``, for the graph as optimized for this processor, so that weights which
#:   optimizers make are shared too. Needs options of which every setting is known: none, or :class:`SessionOptions`.
Weights = Literal["prepacked", "unpacked", "private_prepacked", "optimized"]


class Request:
    """A model, options and providers, and what of the model is to be shared.

    Raises:
        Unsupported: The session cannot be one on a rewritten graph.
    """

    def __init__(
        self,
        model: str | bytes | os.PathLike,
        options: onnxruntime.SessionOptions | None,
        providers: Any,
        weights: Weights,
        disabled_optimizers: Any,
    ) -> None:
        self.model = os.fspath(model) if isinstance(model, os.PathLike) else model
        self.options = options
        self.providers = providers
        self.weights: Weights = weights
        self.disabled_optimizers = None if disabled_optimizers is None else sorted(disabled_optimizers)
        #: Why `weights` is no longer what was asked for.
        self.lowered: str | None = None
        #: Whether the caller did not bring that about, and should be warned.
        self.surprising = False
        self._check()

    def _check(self) -> None:
        """Raises Unsupported for what would not survive a model at another path, in another form."""
        if not isinstance(self.model, str | bytes):
            raise Unsupported(f"a model of type {type(self.model).__name__}")
        if isinstance(self.model, str) and self.model.endswith(".ort"):
            raise Unsupported("a model in ORT format")
        if session_options.entry(self.options, "session.load_model_format") == "ORT":
            raise Unsupported("a model in ORT format")
        if session_options.entry(self.options, "ep.context_enable") == "1":
            raise Unsupported("a context model is to be written beside the model")
        if self.options is not None and self.options.optimized_model_filepath:
            raise Unsupported("the optimized model is to be written to a file")

    def lower(self) -> None:
        """Settle for less where the session could not use what was asked for."""
        host_only = session_options.host_only(self.options, self.providers)
        no_packing = session_options.entry(self.options, session_options.DISABLE_PREPACKING) == "1"
        if self.weights == "optimized" and not self._options_known():
            self._lower(
                "prepacked", "optimized needs options that can be read: tetris.onnxruntime.SessionOptions", True
            )
        if self.packs and not host_only:
            # They copy the initializers to their device, or pack differently.
            self._lower("private_prepacked", "prepacked data is shared for the CPU provider alone", False)
        if self.weights == "prepacked" and no_packing:
            self._lower("unpacked", "the options have prepacking off", False)

    def _lower(self, weights: Weights, reason: str, surprising: bool) -> None:
        self.weights, self.lowered, self.surprising = weights, reason, surprising

    def _options_known(self) -> bool:
        return self.options is None or (isinstance(self.options, SessionOptions) and not self.options.opaque)

    @property
    def packs(self) -> bool:
        """True if ONNX Runtime packs while it makes the session, to compare."""
        return self.weights in ("prepacked", "optimized")

    def hold(self, agent: Agent) -> Held:
        """The objects of the session, referenced."""
        if agent.store is None:
            raise NoStore("no tensor store")
        folder = session_options.entry(self.options, session_options.EXTERNAL_FOLDER)
        if not folder:
            folder = "." if isinstance(self.model, bytes) else os.path.dirname(self.model) or "."
        source = cache.Source(self.model, folder)
        if self.packs:
            try:
                return cache.hold(agent, source, *self._transform(source))
            except (Unsupported, NoRoom) as error:
                # Also so where the model itself is to blame: then the next attempt reports it again.
                self._lower("private_prepacked", f"prepacked data cannot be shared: {error}", True)
        return cache.hold(agent, source, *self._transform(source))

    def _transform(self, source: cache.Source) -> tuple[str, Callable[[ModelProto, Callable], Rewritten]]:
        """The name of the transform, with all that its result depends on, and what it does."""
        place = environment.fingerprint()
        if self.weights == "optimized":
            known = self.options if isinstance(self.options, SessionOptions) else SessionOptions()
            key = session_options.key_of(known.graph_state(), self.disabled_optimizers)
            return f"onnx/optimized/{place}/{key}", self._make_optimized(source)
        if self.weights == "prepacked":
            settings = session_options.graph_settings(self.options)
            key = session_options.key_of(settings, self.disabled_optimizers)
            return f"onnx/prepacked/{place}/{key}", self._make_prepacked(source, settings)
        return "onnx/raw", self._make_raw(source)

    def _make_raw(self, source: cache.Source) -> Callable[[ModelProto, Callable], Rewritten]:
        def make(model: ModelProto, publish: Callable) -> Rewritten:
            from tetris._onnx.rewrite import rewrite

            return rewrite(model, source.folder, publish)

        return make

    def _make_prepacked(
        self, source: cache.Source, settings: dict[str, str]
    ) -> Callable[[ModelProto, Callable], Rewritten]:
        """The caller's graph, with the prepacked data of a run with the settings that can be read.

        ONNX Runtime uses such data only for the kernel, and for the packed content, that it was made for. So a
        setting that cannot be read costs sharing and nothing else.
        """

        def make(model: ModelProto, publish: Callable) -> Rewritten:
            from tetris._onnx import prepack
            from tetris._onnx.rewrite import rewrite

            options = session_options.with_graph_settings(settings)
            own = prepack.packed_weights(model, source.folder)
            with prepack.optimized(source.model, source.other_folder, options, self.disabled_optimizers) as made:
                return rewrite(model, source.folder, publish, {**own, **prepack.packed_weights(*made)})

        return make

    def _make_optimized(self, source: cache.Source) -> Callable[[ModelProto, Callable], Rewritten]:
        def make(model: ModelProto, publish: Callable) -> Rewritten:
            from tetris._onnx import prepack
            from tetris._onnx.rewrite import rewrite

            options = session_options.copy(self.options)
            own = prepack.packed_weights(model, source.folder)
            with prepack.optimized(source.model, source.other_folder, options, self.disabled_optimizers) as made:
                return rewrite(*made, publish, {**own, **prepack.packed_weights(*made)})

        return make

    def session_options(self) -> onnxruntime.SessionOptions | None:
        """Options for the session on the rewritten graph: the caller's own where nothing has to differ."""
        entries: dict[str, str] = {}
        if session_options.entry(self.options, session_options.EXTERNAL_FOLDER):
            entries[session_options.EXTERNAL_FOLDER] = ""  # beside the graph, which is where the objects are
        if (
            self.weights == "unpacked"
            and session_options.entry(self.options, session_options.DISABLE_PREPACKING) != "1"
        ):
            entries[session_options.DISABLE_PREPACKING] = "1"
        if not entries and self.weights != "optimized":
            return self.options
        if session_options.has_providers(self.options):
            raise Unsupported("options with providers of their own, which would have to be copied")
        options = session_options.copy(self.options, entries)
        if self.weights == "optimized":
            options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL  # they have run
        return options
