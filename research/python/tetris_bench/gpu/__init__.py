"""Benchmark of models on a GPU from Python: starts of inference, swaps, and many functions on one device."""
