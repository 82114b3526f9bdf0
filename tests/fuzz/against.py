"""The long form of this folder's tests: fresh programs, written under PyTorch and repeated here.

    TORCH_PYTHON=/path/bin/python python tests/fuzz/against.py [--first SEED] [--count N] [--batch N] [--words] [--record FILE]

Prints every difference and a summary, and ends with 1 if one was found that isn't in words alone. --record writes the
programs that agree to a file, which is how `recorded.json.xz` is made. Stands on `generate` (run by the other Python) and
`replay`.
"""

from __future__ import annotations

import argparse
import collections
import os
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent.parent)]

from fuzz.replay import MILD, Program, read, replay, write

import flambeau


def main() -> int:
    """Run; the exit status."""
    parser = argparse.ArgumentParser(description="random programs, here and under PyTorch")
    parser.add_argument("--torch-python", default=os.environ.get("TORCH_PYTHON"), help="a Python that imports torch")
    parser.add_argument("--first", type=int, default=1, help="the first seed")
    parser.add_argument("--count", type=int, default=1000, help="how many programs")
    parser.add_argument("--batch", type=int, default=50, help="how many at a time")
    parser.add_argument("--words", action="store_true", help="show differences in the words of exceptions too")
    parser.add_argument("--record", type=Path, help="write the programs that agree to this file")
    given = parser.parse_args()
    if not given.torch_python:
        parser.error("name a Python that has PyTorch: TORCH_PYTHON=/path/bin/python make fuzz")
    flambeau.set_num_threads(1)
    kinds: collections.Counter[str] = collections.Counter()
    agreeing: list[Program] = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "programs.json.xz"
        for first in range(given.first, given.first + given.count, given.batch):
            count = min(given.batch, given.first + given.count - first)
            subprocess.run([given.torch_python, HERE / "generate.py", str(first), str(count), path], check=True)
            for program in read(path):
                print(f"program {program.seed}", end="\r", flush=True)
                found = replay(flambeau, program)
                kinds.update(difference.kind for difference in found)
                for difference in found:
                    if given.words or difference.kind not in MILD:
                        print(difference, flush=True)
                if all(difference.kind in MILD for difference in found):
                    agreeing.append(program)
    print(f"{given.count} programs, {len(agreeing)} agree; differences: {dict(kinds)}")
    if given.record:
        write(given.record, agreeing)
    return int(bool(set(kinds) - MILD))


if __name__ == "__main__":
    sys.exit(main())
