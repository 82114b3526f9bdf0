"""The one engine of process groups: their operations over MPI, sorted by subject. Stands on mpi; groups makes groups of it."""
