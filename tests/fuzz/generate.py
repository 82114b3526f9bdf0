"""Writes random programs under PyTorch, with what they gave: python tests/fuzz/generate.py FIRST COUNT FILE.

Needs a Python that imports torch. Each program runs in a child process, because PyTorch too crashes at times.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from fuzz.replay import Program, write
from fuzz.writer import Writer

SECONDS = 60
"""After which a program is given up."""


def made(torch: object, seed: int) -> Program | None:
    """The program of a seed, or None where PyTorch crashed or took too long."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        import signal

        signal.alarm(SECONDS)
        os.close(reading)
        with open(writing, "w") as file:
            json.dump(Writer(torch, seed).program(), file)
        os._exit(0)
    os.close(writing)
    with open(reading) as file:
        text = file.read()
    _, status = os.waitpid(child, 0)
    if status:
        print(f"PyTorch ended with status {status} in program {seed}", flush=True)
        return None
    return Program(seed, *json.loads(text))


def main() -> None:
    """Write COUNT programs from seed FIRST on."""
    torch = importlib.import_module("torch")
    torch.set_num_threads(1)
    first, count = int(sys.argv[1]), int(sys.argv[2])
    write(Path(sys.argv[3]), [p for p in (made(torch, seed) for seed in range(first, first + count)) if p is not None])


if __name__ == "__main__":
    main()
