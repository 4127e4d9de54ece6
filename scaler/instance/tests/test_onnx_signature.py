"""Signatures of graphs, and the rules for batching their requests."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest

from tetris_instance.engines.onnx_signature import signature_of
from tetris_instance.errors import ConfigurationError
from tetris_instance.tensors import Signature, TensorSpec


class Arg(NamedTuple):
    """A tensor as ONNX Runtime describes it."""

    name: str
    type: str
    shape: list[Any]


def tokens(*names: str, shape: tuple[Any, ...] = ("n", "s")) -> list[Arg]:
    return [Arg(name, "tensor(int64)", list(shape)) for name in names]


def floats(name: str, *shape: Any) -> Arg:
    return Arg(name, "tensor(float)", list(shape))


ENCODER = tokens("input_ids", "attention_mask")


def test_names_types_and_sizes_are_those_of_the_graph() -> None:
    found = signature_of([floats("x", None, 3, "h")], [Arg("y", "tensor(string)", [2])])
    assert found == Signature((TensorSpec("x", "FP32", (-1, 3, -1)),), (TensorSpec("y", "BYTES", (2,)),), batches=False)


@pytest.mark.parametrize(
    ("inputs", "outputs", "batches"),
    [
        ([floats("x", "n", 3)], [floats("y", "n", 2)], True),
        ([floats("x", None, 3)], [floats("y", "n", 2)], True),
        ([floats("x", None, 3)], [floats("y", None)], True),
        ([floats("x", 1, 3)], [floats("y", "n", 2)], False),
        ([floats("x", "n", 3)], [floats("y", 1, 2)], False),
        ([floats("x", "n", 3), floats("z", 3)], [floats("y", "n", 2)], False),
        ([floats("x", "n", 3)], [floats("y")], False),
        # It has another name, so it may be anything.
        ([floats("x", "s", 3)], [floats("y", "t", 2)], False),
    ],
)
def test_rows_are_put_together_only_where_axis_0_is_that_of_rows(
    inputs: list[Arg], outputs: list[Arg], batches: bool
) -> None:
    assert signature_of(inputs, outputs).batches == batches


@pytest.mark.parametrize(
    ("inputs", "outputs", "cut"),
    [
        (ENCODER, [floats("y", "n", 8)], set()),
        (ENCODER, [floats("hidden", "n", "s", 8), floats("pooled", "n", 8)], {"hidden"}),
        ([*ENCODER, *tokens("token_type_ids")], [floats("hidden", "n", "s", 8)], {"hidden"}),
    ],
)
def test_an_encoder_is_padded_and_what_has_the_length_is_cut(
    inputs: list[Arg], outputs: list[Arg], cut: set[str]
) -> None:
    found = signature_of(inputs, outputs)
    assert found.padding == {tensor.name: 0 for tensor in inputs}
    assert found.sequence_outputs == cut


@pytest.mark.parametrize(
    ("inputs", "outputs"),
    [
        (tokens("input_ids"), [floats("y", "n", 8)]),  # no mask
        ([*ENCODER, floats("x", "n", "s")], [floats("y", "n", 8)]),  # an input of unknown meaning
        (tokens("input_ids", "attention_mask", shape=("n", 16)), [floats("y", "n", 8)]),  # one length only
        (tokens("input_ids", "attention_mask", shape=("n", None)), [floats("y", "n", 8)]),  # a length without a name
        ([*tokens("input_ids"), *tokens("attention_mask", shape=("n", "t"))], [floats("y", "n", 8)]),
        (ENCODER, [floats("y", "n", "t", 8)]),  # what is t?
        (ENCODER, [floats("y", "n", None)]),
        (ENCODER, [floats("y", "n", 4, "s")]),  # attention maps
        (ENCODER, [floats("y", "s", "s")]),
    ],
)
def test_what_may_depend_on_the_padding_is_not_padded(inputs: list[Arg], outputs: list[Arg]) -> None:
    assert signature_of(inputs, outputs).padding == {}


@pytest.mark.parametrize("kind", ["tensor(bfloat16)", "seq(tensor(float))", "map(int64,tensor(float))"])
def test_what_the_protocol_has_no_datatype_for_is_an_error(kind: str) -> None:
    with pytest.raises(ConfigurationError, match="the output `y` is a"):
        signature_of([floats("x", "n")], [Arg("y", kind, [])])
