"""torch.distributed.elastic: processes of a training that fail and are begun again, nodes that come and go.

    agent            one node's part of a launch
    nodes            how nodes find each other and agree on an attempt
    workers          a node's processes
    multiprocessing  errors: how a process tells its launcher what failed
"""
