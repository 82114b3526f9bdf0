"""torch.distributed.elastic: processes of a training that fail and are begun again, nodes that come and go.

node_agent       one node's part of a launch
agent            agents that programs make themselves
rendezvous       how those find each other
metrics          numbers that those publish
nodes            how nodes find each other and agree on an attempt
workers          a node's processes
multiprocessing  processes of functions and commands; errors: how a process tells its launcher what failed
"""
