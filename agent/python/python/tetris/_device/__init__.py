"""Files, modules and tensors in device memory, from the GPU mirror."""
