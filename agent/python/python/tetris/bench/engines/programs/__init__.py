"""Work of each engine in a replica; see :class:`tetris.bench.engines.replica.Program`."""
