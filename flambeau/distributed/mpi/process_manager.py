"""What MPI asks of a process manager, answered from a store: the text protocol PMI-1 at one end of a pair of sockets.

MPI_Init wants to know its rank and to exchange addresses with the others: put, barrier, get. Under mpiexec, mpiexec answers.
Here each process answers itself, on a thread, and takes the exchange to the store that the group has anyway. Only addresses
travel this way. Stands on a store; used by world.
"""

from __future__ import annotations

import os
import socket
import threading

from flambeau.distributed.errors import DistError
from flambeau.distributed.stores import Store

_VARIABLES = ("PMI_", "PMI2_", "PMIX_")  # beginnings of names by which process managers, Slurm's too, reach their processes
_ASKS_WITHIN = 5.0  # seconds
FAREWELL = b"cmd=finalize_ack rc=0\n"


class ProcessManager:
    """Answers for one process of `size`, from `with` on until the process ends; the environment names it inside of `with`.

    store: seen by all of them and by nobody else, and not used by another thread. name: of this world and no other on any of its
    machines; MPI names shared memory after it.
    """

    def __init__(self, store: Store, rank: int, size: int, name: str) -> None:
        self._store, self.rank, self.size, self._name = store, rank, size, name
        self._own, self._of_mpi = socket.socketpair()
        self._barriers = 0
        self._put: dict[str, str] = {}
        self._known: dict[str, str] = {}
        self.error: Exception | None = None
        self.asked = threading.Event()  # once MPI has asked for the first time

    def __enter__(self) -> ProcessManager:
        self._before = {name: os.environ.pop(name) for name in list(os.environ) if name.startswith(_VARIABLES)}
        self._own_variables = {"PMI_FD": str(self._of_mpi.fileno()), "PMI_RANK": str(self.rank), "PMI_SIZE": str(self.size)}
        self._of_mpi.set_inheritable(False)
        os.environ.update(self._own_variables)
        threading.Thread(target=self._serve, name="flambeau process manager", daemon=True).start()
        return self

    def __exit__(self, kind: object, *exception: object) -> None:
        """MPI keeps the socket, which it has read the number of; processes started from here must not."""
        if kind is not None:  # it must have read it all the same, or it begins a world of its own
            self.asked.wait(_ASKS_WITHIN)
        for name in self._own_variables:
            os.environ.pop(name, None)
        os.environ.update(self._before)

    def end(self) -> None:
        """Python's threads end before the handlers of exit(3), in one of which MPI says goodbye: answer that in advance, on
        another pair of sockets in the place of this one. A call of MPI that still waits for an answer goes on waiting.
        """
        own, other = socket.socketpair()
        own.sendall(FAREWELL)
        self._own.detach()  # all stay open as long as the process
        os.dup2(other.fileno(), self._of_mpi.detach(), inheritable=False)
        own.detach()

    def _serve(self) -> None:
        try:
            with self._own.makefile("r", encoding="latin-1") as lines:
                for line in lines:
                    self._own.sendall(self._answer(line.rstrip("\n")).encode("latin-1") + b"\n")
        except (OSError, DistError) as error:
            self.error = error  # MPI would abort if it were told: it waits, and whoever waits for it looks here

    def _answer(self, line: str) -> str:
        self.asked.set()
        words = dict(part.partition("=")[::2] for part in line.split())
        command = words.get("cmd", "")
        if command == "init":
            return "cmd=response_to_init rc=0 pmi_version=1 pmi_subversion=1"
        if command == "get_maxes":
            return "cmd=maxes kvsname_max=256 keylen_max=64 vallen_max=1024"
        if command == "get_appnum":
            return "cmd=appnum appnum=0"
        if command == "get_my_kvsname":
            return f"cmd=my_kvsname kvsname=flambeau_{self._name}"
        if command == "get_universe_size":
            return f"cmd=universe_size size={self.size}"
        if command == "put":
            self._put[words["key"]] = line.partition(" value=")[2]
            return "cmd=put_result rc=0 msg=success"
        if command == "get":
            value = self._known.get(words["key"])
            if value is None:
                return "cmd=get_result rc=-1 msg=key_not_found value=unknown"
            return f"cmd=get_result rc=0 msg=success value={value}"
        if command == "barrier_in":
            self._exchange()
            return "cmd=barrier_out rc=0"
        if command == "finalize":
            return FAREWELL.decode().rstrip()
        return f"cmd={command}_result rc=-1 msg=unsupported"

    def _exchange(self) -> None:
        """A barrier: all that was put before it is known behind it."""
        number = self._barriers
        self._barriers += 1
        if self.size > 1:
            own = "\n".join(f"{key} {value}" for key, value in self._put.items())
            self._store.set(f"{number}/{self.rank}", own)
            for text in self._store.multi_get([f"{number}/{rank}" for rank in range(self.size)]):
                self._known.update(line.split(" ", 1) for line in text.decode().splitlines())
        self._known.update(self._put)
        self._put.clear()
