"""Kill random processes of a training at random moments, and see that nothing is lost.

    python tools/kill_ranks.py --kills 100 [--ranks 2] [--epochs 60] [--within 4] [--seed 0]

Runs examples/ddp.py under `flambeau launch --max-restarts`, and sends SIGKILL to one of its ranks, whichever and whenever, again
and again; only kills that hit a living process count. Training must go on from the last checkpoint each time, make every epoch,
and end with the very numbers of a training that nobody disturbed; no process and no shared memory may be left. When a training
ends before enough kills, another begins. Exits with 1, and says what was wrong, at the first difference.
"""

from __future__ import annotations

import argparse
import atexit
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Any

import flambeau as torch

EXAMPLE = Path(__file__).resolve().parent.parent / "examples" / "ddp.py"
SHARED = Path("/dev/shm")


def training(folder: Path, ranks: int, epochs: int, restarts: int) -> subprocess.Popen[str]:
    """A launch of the example, in a process group of its own."""
    command = [
        sys.executable,
        "-m",
        "flambeau",
        "launch",
        "--standalone",
        f"--nproc-per-node={ranks}",
        f"--max-restarts={restarts}",
        str(EXAMPLE),
        f"--epochs={epochs}",
        f"--checkpoint={folder / 'ddp.pt'}",
    ]
    with open(folder / "errors", "w") as errors:
        run = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True)
    atexit.register(run.kill)  # a launcher's processes die with it
    return run


def living(folder: Path) -> dict[int, tuple[str, str]]:
    """Processes of a training: rank ("" for the launcher) and attempt of each by process id."""
    found = {}
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if str(folder) not in (process / "cmdline").read_text():
                continue
            if (process / "stat").read_text().rpartition(")")[2].split()[0] == "Z":
                continue
            variables = dict(each.partition("=")[::2] for each in (process / "environ").read_text().split("\0"))
            found[int(process.name)] = variables.get("RANK", ""), variables.get("TORCHELASTIC_RESTART_COUNT", "")
    return found


def kill_one(folder: Path, chosen: random.Random) -> str:
    """Kill one of the ranks that live; which, or "" if none did."""
    ranks = {process: rank for process, (rank, _) in living(folder).items() if rank}
    if not ranks:
        return ""
    process = chosen.choice(sorted(ranks))
    try:
        os.kill(process, signal.SIGKILL)
    except ProcessLookupError:
        return ""
    return ranks[process]


def same(first: Any, second: Any) -> bool:
    """Whether two states are equal, bit for bit."""
    if isinstance(first, torch.Tensor):
        return torch.equal(first, second)
    if isinstance(first, dict):
        return first.keys() == second.keys() and all(same(value, second[key]) for key, value in first.items())
    if isinstance(first, (list, tuple)):
        return len(first) == len(second) and all(map(same, first, second))
    return bool(first == second)


def epochs_of(lines: list[str]) -> list[int]:
    """The epochs that a training's output tells of, in order."""
    return [int(number) for line in lines for number in re.findall(r"epoch (\d+)/", line)]


def check(folder: Path, output: list[str], epochs: int, kills: int, expected: dict[str, Any]) -> None:
    """Raise AssertionError unless a disturbed training came to its end as an undisturbed one does."""
    seen = epochs_of(output)
    assert sorted(set(seen)) == list(range(1, epochs + 1)), f"epochs are missing: {seen}"
    steps = [after - before for before, after in pairwise(seen)]
    assert set(steps) <= {0, 1}, f"training went back behind its last checkpoint: {seen}"
    assert steps.count(0) <= kills, f"more epochs were repeated than processes killed: {seen}"
    assert same(torch.load(folder / "ddp.pt", weights_only=True), expected), "the result differs from the undisturbed training's"
    assert not living(folder), f"processes are left: {living(folder)}"


def disturbed(
    folder: Path, options: argparse.Namespace, chosen: random.Random, wanted: int, expected: dict[str, Any]
) -> dict[str, int]:
    """One training with up to `wanted` kills; how many hit each rank."""
    run = training(folder, options.ranks, options.epochs, wanted + 1)
    output: list[str] = []
    reader = threading.Thread(target=lambda: output.extend(run.stdout or ()))
    reader.start()
    hit: dict[str, int] = {}
    try:
        while run.poll() is None:
            with suppress(subprocess.TimeoutExpired):
                run.wait(chosen.uniform(0, options.within) if sum(hit.values()) < wanted else options.patience)
                break
            if sum(hit.values()) >= wanted:
                raise AssertionError(f"training doesn't end within {options.patience} s after the last kill")
            rank = kill_one(folder, chosen)
            if rank:
                hit[rank] = hit.get(rank, 0) + 1
                attempts = {attempt for rank, attempt in living(folder).values() if rank}
                assert len(attempts) <= 1, f"processes of several attempts at once: {living(folder)}"
        reader.join()
        assert run.returncode == 0, f"the launcher returned {run.returncode}"
        check(folder, output, options.epochs, sum(hit.values()), expected)
    except AssertionError as error:
        errors = (folder / "errors").read_text()
        raise SystemExit(f"{error}\n--- its output\n{''.join(output)}\n--- its errors\n{errors}") from None
    return hit


def without_owner(files: set[Path]) -> set[Path]:
    """Those of these shared files that no process has; others than this training's may be at work."""
    for process in Path("/proc").glob("[0-9]*/maps") if files else ():
        with suppress(OSError):
            mapped = process.read_text()
            files = {path for path in files if str(path) not in mapped}
    return {path for path in files if path.exists()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--epochs", type=int, default=60, help="of each training")
    parser.add_argument("--within", type=float, default=4.0, help="seconds between two kills, at most")
    parser.add_argument("--patience", type=float, default=120.0, help="seconds that a training may take that is left alone")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # which ends the training as well
    chosen, hits, begin = random.Random(options.seed), {}, time.monotonic()
    before = set(SHARED.iterdir())
    with tempfile.TemporaryDirectory(prefix="kill_ranks_") as name:
        undisturbed = Path(name, "undisturbed")
        undisturbed.mkdir()
        run = training(undisturbed, options.ranks, options.epochs, 0)
        run.communicate(timeout=10 * options.patience)
        expected = torch.load(undisturbed / "ddp.pt", weights_only=True)
        trainings = 0
        while (made := sum(hits.values())) < options.kills:
            folder = Path(name, f"training{trainings}")
            folder.mkdir()
            for rank, count in disturbed(folder, options, chosen, options.kills - made, expected).items():
                hits[rank] = hits.get(rank, 0) + count
            trainings += 1
            print(f"{trainings} trainings, {sum(hits.values())} kills, {time.monotonic() - begin:.0f} s", flush=True)
    left = without_owner({path for path in set(SHARED.iterdir()) - before if path.name.startswith(("mpich", "ucx"))})
    if left:
        raise SystemExit(f"shared memory is left: {', '.join(map(str, left))}")
    print(
        f"{sum(hits.values())} kills ("
        + ", ".join(f"rank {rank}: {count}" for rank, count in sorted(hits.items()))
        + f") in {trainings} trainings of {options.epochs} epochs with {options.ranks} ranks: every epoch made, the same "
        "result bit for bit, nothing left behind"
    )


if __name__ == "__main__":
    main()
