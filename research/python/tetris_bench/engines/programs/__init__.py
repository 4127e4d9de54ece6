"""Work of each engine in a replica; see :class:`tetris_bench.engines.replica.Program`."""
