"""ONNX graph of a text encoder. Its weights stay in the safetensors files of its folder, as external data.

Attention is ONNX Runtime's fused operator, and linear layers take their weights as PyTorch stores them. So no weight
is converted, and a process needs no PyTorch.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tetris_instance.engines.encoder import Pooling, Task, activation_of
from tetris_instance.engines.encoder_files import EncoderFiles, UnsupportedEncoderError

if TYPE_CHECKING:
    from onnx import ModelProto

#: Version of the graphs that this module makes. A change of them needs a new one.
VERSION = 1
#: Operators: those of ONNX, with LayerNormalization (17) and Gelu (20), and MultiHeadAttention of ONNX Runtime.
_OPSET, _IR_VERSION, _EXTENSIONS = 20, 9, "com.microsoft"
_EPSILON = 1e-12
_LOWEST = -3.4028234663852886e38
_PREFIXES = ("", "bert.", "roberta.", "distilbert.")


@dataclass(frozen=True)
class _Names:
    """Names of a family's layers, after the model's prefix."""

    layer: str
    query: str
    key: str
    value: str
    attended: str
    attention_norm: str
    up: str
    down: str
    norm: str


_BERT = _Names(
    "encoder.layer", "attention.self.query", "attention.self.key", "attention.self.value", "attention.output.dense",
    "attention.output.LayerNorm", "intermediate.dense", "output.dense", "output.LayerNorm",
)  # fmt: skip
_DISTILBERT = _Names(
    "transformer.layer", "attention.q_lin", "attention.k_lin", "attention.v_lin", "attention.out_lin",
    "sa_layer_norm", "ffn.lin1", "ffn.lin2", "output_layer_norm",
)  # fmt: skip
#: Names by `model_type`, and whether positions count from the one after that of padding.
_FAMILIES = {
    "bert": (_BERT, False),
    "camembert": (_BERT, True),
    "distilbert": (_DISTILBERT, False),
    "roberta": (_BERT, True),
    "xlm-roberta": (_BERT, True),
}
#: Layers of a classifier by `model_type`, and the activation between them.
_CLASSIFIERS = {
    "bert": ("pooler.dense", "Tanh", "classifier"),
    "camembert": ("classifier.dense", "Tanh", "classifier.out_proj"),
    "distilbert": ("pre_classifier", "Relu", "classifier"),
    "roberta": ("classifier.dense", "Tanh", "classifier.out_proj"),
    "xlm-roberta": ("classifier.dense", "Tanh", "classifier.out_proj"),
}
#: Operators of `hidden_act`, with their attributes.
_ACTIVATIONS: dict[str, tuple[str, dict[str, Any]]] = {
    "gelu": ("Gelu", {}),
    "gelu_new": ("Gelu", {"approximate": "tanh"}),
    "gelu_pytorch_tanh": ("Gelu", {"approximate": "tanh"}),
    "relu": ("Relu", {}),
}


@dataclass(frozen=True)
class Shape:
    """Sizes of an encoder."""

    width: int
    heads: int
    layers: int
    vocabulary: int
    #: Maximum number of tokens per row.
    positions: int
    #: Token of padding.
    pad: int
    #: Number of a classifier's labels.
    labels: int


def shape_of(files: EncoderFiles) -> Shape:
    """Return the sizes of an encoder.

    Raises:
        UnsupportedEncoderError: The model is of no family that this module knows, or differs from it.
    """
    config, path = files.config, files.folder / "config.json"
    kind = config.get("model_type")
    if not isinstance(kind, str) or kind not in _FAMILIES:
        raise UnsupportedEncoderError(f"{path}: model_type is {kind!r}; expected one of {', '.join(sorted(_FAMILIES))}")
    for name, expected in (("is_decoder", False), ("position_embedding_type", "absolute")):
        if config.get(name, expected) != expected:
            raise UnsupportedEncoderError(f"{path}: {name} is {config[name]!r}; expected {expected!r}")
    activation = config.get("hidden_act", config.get("activation", "gelu"))
    if not isinstance(activation, str) or activation not in _ACTIVATIONS:
        raise UnsupportedEncoderError(
            f"{path}: the activation is {activation!r}; expected one of {', '.join(sorted(_ACTIVATIONS))}"
        )
    other = sorted({weight.dtype for weight in files.weights.values()} & {"BF16", "F16", "F64", "F8_E4M3", "F8_E5M2"})
    if other:
        raise UnsupportedEncoderError(f"{files.folder}: weights of {', '.join(other)}; expected F32")
    counts_from_padding = _FAMILIES[kind][1]
    pad = config.get("pad_token_id", 1 if counts_from_padding else 0) or 0
    if not isinstance(pad, int) or not 0 <= pad < 1 << 31:
        raise UnsupportedEncoderError(f"{path}: pad_token_id is {pad!r}; expected an integer")
    positions = files.integer("max_position_embeddings") - (pad + 1 if counts_from_padding else 0)
    width, heads = files.integer("hidden_size", "dim"), files.integer("num_attention_heads", "n_heads")
    layers = files.integer("num_hidden_layers", "n_layers")
    if positions < 1 or width % heads or layers > len(files.weights):
        raise UnsupportedEncoderError(
            f"{path}: {positions} positions, width {width}, {heads} heads, {layers} layers for {len(files.weights)} "
            "tensors; expected a position, heads of equal width, and tensors of each layer"
        )
    epsilon = config.get("layer_norm_eps", _EPSILON)
    if not isinstance(epsilon, float) or not 0 < epsilon < 1:
        raise UnsupportedEncoderError(f"{path}: layer_norm_eps is {epsilon!r}; expected a number of 0 to 1")
    labels = config.get("id2label", {"0": "", "1": ""})
    if not isinstance(labels, dict) or not labels:
        raise UnsupportedEncoderError(f"{path}: id2label is {labels!r}; expected an object with labels")
    return Shape(width, heads, layers, files.integer("vocab_size"), positions, pad, len(labels))


def build(files: EncoderFiles, shape: Shape, task: Task, pooling: Pooling, normalize: bool) -> ModelProto:
    """Make the graph: inputs `input_ids` and `attention_mask`, and the outputs of the task.

    Raises:
        UnsupportedEncoderError: A weight is missing, or is not as the configuration has it.
    """
    from onnx import TensorProto, helper

    builder = _Builder(files, shape)
    hidden = builder.encode()
    width: list[Any] = ["batch", "sequence", shape.width]
    outputs: dict[str, list[Any]] = {"last_hidden_state": width}
    if task == "embedding":
        builder.pool(hidden, pooling, normalize, "embedding")
        outputs = {"embedding": ["batch", shape.width]}
    elif task == "classification":
        builder.classify(hidden, "logits", "scores")
        outputs = {name: ["batch", shape.labels] for name in ("logits", "scores")}
    else:
        builder.node("Identity", [hidden], output="last_hidden_state")
    inputs = {"input_ids": width[:2], "attention_mask": width[:2]}
    graph = helper.make_graph(
        builder.nodes,
        "encoder",
        [helper.make_tensor_value_info(name, TensorProto.INT64, sizes) for name, sizes in inputs.items()],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, sizes) for name, sizes in outputs.items()],
        list(builder.initializers.values()),
    )
    opsets = [helper.make_opsetid("", _OPSET), helper.make_opsetid(_EXTENSIONS, 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=_IR_VERSION)


class _Builder:
    """Nodes and initializers of a graph. Hidden states have a row per token: [batch * sequence, width]."""

    def __init__(self, files: EncoderFiles, shape: Shape) -> None:
        self.nodes: list[Any] = []
        self.initializers: dict[str, Any] = {}
        self._files = files
        self._shape = shape
        self._names, self._counts_from_padding = _FAMILIES[files.config["model_type"]]
        words = "embeddings.word_embeddings.weight"
        prefix = next((prefix for prefix in _PREFIXES if prefix + words in files.weights), None)
        if prefix is None:
            raise UnsupportedEncoderError(f"{files.folder}: no tensor `{words}`; expected the weights of an encoder")
        self._prefix = prefix
        self._activation = _ACTIVATIONS[files.config.get("hidden_act", files.config.get("activation", "gelu"))]
        self._epsilon: float = files.config.get("layer_norm_eps", _EPSILON)

    def node(self, operator: str, inputs: list[str], output: str | None = None, domain: str = "", **fields: Any) -> str:
        """Add a node, and return the name of its output."""
        from onnx import helper

        output = output or f"{operator}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(operator, inputs, [output], domain=domain, **fields))
        return output

    def _cast(self, value: str, datatype: str) -> str:
        from onnx import TensorProto

        return self.node("Cast", [value], to=TensorProto.DataType.Value(datatype))

    def encode(self) -> str:
        """Add the encoder, and return its last hidden state: [batch, sequence, width]."""
        flat = self._constant("flat", [-1, self._shape.width])
        self._rows = self.node(
            "Concat", [self.node("Shape", ["input_ids"]), self._constant("width", [self._shape.width])], axis=0
        )
        # ONNX Runtime's masks are of 32 bits.
        mask = self._cast("attention_mask", "INT32")
        hidden = self.node("Reshape", [self._embeddings(), flat])
        for layer in range(self._shape.layers):
            hidden = self._layer(f"{self._names.layer}.{layer}.", hidden, mask, flat)
        return self.node("Reshape", [hidden, self._rows])

    def pool(self, hidden: str, pooling: Pooling, normalize: bool, output: str) -> None:
        """Add the embedding of each row."""
        axis = self._constant("axis_1", [1])
        if pooling == "cls":
            pooled = self.node("Gather", [hidden, self._constant("first", 0)], axis=1)
        else:
            weights = self._cast("attention_mask", "FLOAT")
            shown = self.node("Mul", [hidden, self.node("Unsqueeze", [weights, self._constant("axis_last", [-1])])])
            total = self.node("ReduceSum", [shown, axis], keepdims=0)
            pooled = self.node("Div", [total, self.node("ReduceSum", [weights, axis], keepdims=1)])
        if normalize:
            pooled = self.node("LpNormalization", [pooled], axis=1, p=2)
        self.node("Identity", [pooled], output=output)

    def classify(self, hidden: str, logits: str, scores: str) -> None:
        """Add the classifier of the first token."""
        shape, config = self._shape, self._files.config
        dense, activation, out = _CLASSIFIERS[config["model_type"]]
        first = self.node("Gather", [hidden, self._constant("first", 0)], axis=1)
        # The pooler of BERT has the model's prefix, a head has none.
        prefix = self._prefix if f"{self._prefix}{dense}.weight" in self._files.weights else ""
        raised = self.node(activation, [self._linear(dense, first, shape.width, shape.width, prefix)])
        self.node("Identity", [self._linear(out, raised, shape.width, shape.labels, "")], output=logits)
        operator = activation_of(config.get("problem_type"), shape.labels).capitalize()
        fields: dict[str, Any] = {"axis": -1} if operator == "Softmax" else {}
        self.node(operator, [logits], output=scores, **fields)

    def _embeddings(self) -> str:
        shape = self._shape
        words = self._weight("embeddings.word_embeddings.weight", shape.vocabulary, shape.width)
        learned = shape.positions + (shape.pad + 1 if self._counts_from_padding else 0)
        positions = self._weight("embeddings.position_embeddings.weight", learned, shape.width)
        places = self.node("Gather", [positions, self._positions()])
        total = self.node("Add", [self.node("Gather", [words, "input_ids"]), places])
        types = f"{self._prefix}embeddings.token_type_embeddings.weight"
        if types in self._files.weights:
            kinds = self._files.integer("type_vocab_size")
            rows = self._weight("embeddings.token_type_embeddings.weight", kinds, shape.width)
            total = self.node("Add", [total, self.node("Gather", [rows, self._constant("type", 0)])])
        return self._normalized("embeddings.LayerNorm", total)

    def _positions(self) -> str:
        """Add the position of each token: [sequence], or [batch, sequence] where tokens of padding have none."""
        if not self._counts_from_padding:
            length = self.node("Gather", [self.node("Shape", ["input_ids"]), self._constant("last", 1)])
            return self.node("Range", [self._constant("zero", 0), length, self._constant("one", 1)])
        pad = self._constant("pad", self._shape.pad)
        token = self._cast(self.node("Not", [self.node("Equal", ["input_ids", pad])]), "INT64")
        counted = self.node("Mul", [self.node("CumSum", [token, self._constant("axis", 1)]), token])
        return self.node("Add", [counted, pad])

    def _layer(self, prefix: str, hidden: str, mask: str, flat: str) -> str:
        names, width = self._names, self._shape.width
        attended = self.node(
            "MultiHeadAttention",
            [
                *(
                    self.node("Reshape", [self._linear(prefix + name, hidden, width, width), self._rows])
                    for name in (names.query, names.key, names.value)
                ),
                "",
                mask,
            ],
            domain=_EXTENSIONS,
            num_heads=self._shape.heads,
            mask_filter_value=_LOWEST,
        )
        attended = self._linear(prefix + names.attended, self.node("Reshape", [attended, flat]), width, width)
        hidden = self._normalized(prefix + names.attention_norm, self.node("Add", [attended, hidden]))
        inner = self._files.integer("intermediate_size", "hidden_dim")
        operator, fields = self._activation
        raised = self.node(operator, [self._linear(prefix + names.up, hidden, width, inner)], **fields)
        lowered = self._linear(prefix + names.down, raised, inner, width)
        return self._normalized(prefix + names.norm, self.node("Add", [lowered, hidden]))

    def _linear(self, name: str, value: str, inputs: int, outputs: int, prefix: str | None = None) -> str:
        weight = self._weight(f"{name}.weight", outputs, inputs, prefix=prefix)
        return self.node("Gemm", [value, weight, self._weight(f"{name}.bias", outputs, prefix=prefix)], transB=1)

    def _normalized(self, name: str, value: str) -> str:
        width = self._shape.width
        # Checkpoints of TensorFlow have names of their time.
        old = f"{self._prefix}{name}.gamma" in self._files.weights
        scale, bias = (
            self._weight(f"{name}.{part}", width) for part in (("gamma", "beta") if old else ("weight", "bias"))
        )
        return self.node("LayerNormalization", [value, scale, bias], epsilon=self._epsilon)

    def _constant(self, name: str, value: int | list[int]) -> str:
        from onnx import TensorProto, helper

        values, dims = (value, [len(value)]) if isinstance(value, list) else ([value], [])
        self.initializers.setdefault(name, helper.make_tensor(name, TensorProto.INT64, dims, values))
        return name

    def _weight(self, name: str, *shape: int, prefix: str | None = None) -> str:
        from onnx import TensorProto

        name = (self._prefix if prefix is None else prefix) + name
        if name in self.initializers:
            return name
        weight = self._files.weights.get(name)
        if weight is None or (weight.dtype, weight.shape, weight.nbytes) != ("F32", shape, 4 * math.prod(shape)):
            found = "missing" if weight is None else f"{weight.dtype} {list(weight.shape)}, {weight.nbytes} bytes"
            raise UnsupportedEncoderError(
                f"{self._files.folder}: the tensor `{name}` is {found}; expected F32 {list(shape)}"
            )
        tensor = TensorProto(name=name, data_type=TensorProto.FLOAT, dims=shape, data_location=TensorProto.EXTERNAL)
        for key, value in (("location", weight.file), ("offset", weight.offset), ("length", weight.nbytes)):
            tensor.external_data.add(key=key, value=str(value))
        self.initializers[name] = tensor
        return name
