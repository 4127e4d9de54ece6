"""Parts of :mod:`tetris.onnxruntime`.

environment   what prepacked data depends on: ONNX Runtime's build and the processor
options       session options: which of them can be read, copied, or are out of sight
tensors       the tensors of a model, and their bytes
rewrite       a model whose tensors are external data in the store's objects
prepack       what ONNX Runtime makes of a model: the optimized graph and the prepacked weights
plan          what a session needs from the store, as one small record
memory        what the allocator keeps
cache         the plan of a model: found, or made once per node
"""
