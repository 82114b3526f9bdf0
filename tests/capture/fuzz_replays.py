"""Random changes around generated programs, whose captured form must never be stale: python tests/capture/fuzz_replays.py --help.

Prints each program that differs, with its seed, and at the end how many calls were replayed. `make fuzz-replays` runs it; the
suite has a small form in test_never_stale.py.
"""

from __future__ import annotations

import argparse
import collections
import sys
import tempfile
import warnings
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parent.parent.parent)]

from flambeau.base.flags import flags
from tests.capture.generated_programs import program
from tests.capture.mutated_programs import CASES
from tests.capture.test_never_stale import run


def main() -> int:
    """Run; 1 if something was stale."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--programs", type=int, default=200)
    parser.add_argument("--changes", type=int, default=50, help="of each program")
    parser.add_argument("--check", action="store_true", help="compare replays by FLAMBEAU_COMPILE=check, too")
    given = parser.parse_args()
    flags.compile = "check" if given.check else flags.compile
    warnings.simplefilter("ignore")
    hits = wrong = 0
    refused: collections.Counter[str] = collections.Counter()
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(given.first, given.first + given.programs):
            case = CASES[seed % len(CASES)] if seed % 20 == 19 else lambda seed=seed: program(seed, Path(folder))
            try:
                told = run(case, seed, given.changes)
            except AssertionError as error:
                wrong += 1
                print(f"seed {seed}: {str(error)[:1500]}", flush=True)
                continue
            hits += told.pop("hits")
            refused.update(told)
    print(f"{given.programs} programs of {given.changes} changes: {wrong} differ, {hits} calls were replayed")
    for reason, count in refused.most_common(20):
        print(f"  {count:6} {reason}")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
