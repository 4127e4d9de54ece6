"""Cost of ONNX Runtime's prepacking, and savings of each form of sharing.

Every method is measured in processes of its own, beside plain ONNX Runtime in the same run. Times of sessions are
taken in rounds, one process at a time, in an order that changes from round to round; those of runs in one process
that has a session of each method and takes turns; memory with all processes alive.

`__main__` is the command, `models` and `methods` are what is measured, `worker` runs in the processes, `measure`
starts them, `report` prints.
"""
