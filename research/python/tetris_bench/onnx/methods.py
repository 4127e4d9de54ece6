"""The ways to open a model."""

PLAIN = {
    "plain": "ONNX Runtime",
    "plain-trimmed": "the same, and then malloc_trim",
    "plain-unpacked": "ONNX Runtime with prepacking off",
    "file-unpacked": "the same on a copy of the model with external data, which it maps from one file for all",
    "file-prepacked": "ONNX Runtime on a copy that it saved optimized, with prepacked data, in one file for all",
}
SHARED = {
    "prepacked": "tetris.onnxruntime, weights='prepacked'",
    "private_prepacked": "weights='private_prepacked'",
    "unpacked": "weights='unpacked'",
    "optimized": "weights='optimized'",
}
METHODS = {**PLAIN, **SHARED}
UNPACKED = ("plain-unpacked", "file-unpacked", "unpacked")
