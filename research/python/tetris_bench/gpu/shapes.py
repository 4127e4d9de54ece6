"""Shapes of models."""

from ..engines.models import Shape

#: About a billion parameters, and seven.
SHAPES = {"1B": Shape.of(20, 2048), "7B": Shape.of(34, 4096)}


def shape_of(text: str) -> Shape:
    """A shape by its name, or by layers and width: `4x1024`.

    Raises:
        ValueError: It is neither.
    """
    if text in SHAPES:
        return SHAPES[text]
    layers, _, width = text.partition("x")
    if not (layers.isdecimal() and width.isdecimal() and int(layers) > 0 and int(width) > 0 and int(width) % 128 == 0):
        raise ValueError(
            f"expected {', '.join(SHAPES)} or LAYERSxWIDTH with a width in multiples of 128, found {text!r}"
        )
    return Shape.of(int(layers), int(width))
