"""Engines, each beside itself without the store: `python -m tetris_bench.engines`.

Every engine runs in processes of its own. A round starts a group of replicas one after the other, for each way in
turn and in random order: times of the weights, memory and outputs are those of the groups. Speed is that of two
replicas that are alive together and take turns.

`__main__` is the command, `registry` says which engines there are, `models` and `gguf_models` write what they load,
`replica` runs in the processes with one of `programs`, `measure` starts them, `figures` judges, `report` prints.
"""
