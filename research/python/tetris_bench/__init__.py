"""Cost of loading a model in N processes, by loading method: ``python -m tetris_bench --help``.

Every measurement is a fresh process, methods take turns in random order, and outputs must agree.

    __main__ -> run -> files, place      model files, own copies, a tmpfs for the store
                    -> timing, memory_of, side_by_side -> workers (processes), helpers (who shares)
                    -> bars, report      ratios beside the values they should reach; table, JSON
    text                                 how tables and running text fill a terminal
    worker   -> loaders, touch, inference, models      what a process does
    command_line                         options and help of this benchmark and of those in the folders beside it
"""
