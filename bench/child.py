"""One implementation under measurement, in its own process: JSON lines in, JSON lines out.

    child.py MODULE THREADS       then {"setup": name} or {"measure": seconds} per line
    child.py MODULE --import      the seconds that `import MODULE` takes
    child.py MODULE --size        the bytes of its distribution and of all it requires

Used by `run.py`.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import sys
import time
from typing import Any

from installed import installed_sizes


def magnitude(result: Any) -> float:
    """One number to compare results by."""
    return float(result.detach().abs().mean().item())


class Measurement:
    """The workload that is set up, and how long a step of it takes."""

    def __init__(self, torch: Any, name: str) -> None:
        from workloads import WORKLOADS

        torch.manual_seed(0)
        self.step = WORKLOADS[name](torch)
        self.check = [magnitude(self.step()) for _ in range(3)]
        self.estimate = min(self.timed(1) for _ in range(5))

    def timed(self, count: int) -> float:
        start = time.perf_counter()
        for _ in range(count):
            self.step()
        return (time.perf_counter() - start) / count

    def block(self, seconds: float) -> list[float]:
        """Times per step, each the mean of about a millisecond of steps or of one step."""
        count = max(1, int(1e-3 / max(self.estimate, 1e-9)))
        gc.collect()
        samples: list[float] = []
        end = time.perf_counter() + seconds
        while not samples or time.perf_counter() < end:
            samples.append(self.timed(count))
        return samples


def serve(module: str, threads: int) -> None:
    replies = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what a library prints goes to stderr
    torch = importlib.import_module(module)
    torch.set_num_threads(threads)
    measurement: Measurement | None = None
    print(json.dumps({"version": str(torch.__version__)}), file=replies, flush=True)
    for line in sys.stdin:
        request = json.loads(line)
        try:
            if "setup" in request:
                measurement = None  # frees the last workload's memory first
                measurement = Measurement(torch, request["setup"])
                reply: dict[str, Any] = {"check": measurement.check}
            else:
                assert measurement is not None
                reply = {"samples": measurement.block(request["measure"])}
        except Exception as error:  # what can't run is one empty cell of the table
            reply = {"error": f"{type(error).__name__}: {error}".split("\n")[0][:200]}
        print(json.dumps(reply), file=replies, flush=True)


def main() -> None:
    module, what = sys.argv[1:3]
    if what == "--size":
        print(sum(installed_sizes(module).values()))
    elif what == "--import":
        start = time.perf_counter()
        importlib.import_module(module)
        print(time.perf_counter() - start)
    else:
        serve(module, int(what))


if __name__ == "__main__":
    main()
