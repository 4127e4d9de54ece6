"""Programs of the engines in a replica; see :class:`tetris.bench.engines.replica.Program`."""
