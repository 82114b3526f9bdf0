"""The engine of process groups: MPI, by the package mpi4py, started by whoever sets RANK, WORLD_SIZE and an address.

library          whether MPI is there; loading and initializing it
lazy_world       mpi4py as other libraries find it: uninitialized until it is really used
process_manager  what MPI asks of whoever started it, answered from a store
lifeline         connections by which a process learns that another is gone, and how far each has come
world            all of that for a group of processes: from a store to a communicator
ending           how a process leaves its world
reductions       MPI's reductions, compiled for every dtype
channel          collectives and messages as sequences of nonblocking calls on a communicator
local            the same for a world of one, which needs no MPI
progress         who drives them on: waiting, timeouts, the thread that does it meanwhile
"""
