"""What each engine does in a replica; see :class:`tetris.bench.engines.replica.Program`."""
