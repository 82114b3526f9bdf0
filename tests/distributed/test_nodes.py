"""Two machines, pretended by namespaces of the network: training across them, one that comes later, and one that is cut off."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from distributed.pretend_nodes import pretend_nodes
from distributed.ranks import HANG, needs_mpi, shared_memory
from distributed.test_launcher import processes_of, until_there

import flambeau as torch

STEP = """
import os, sys, time
from datetime import timedelta
from pathlib import Path
import flambeau as torch
import flambeau.distributed as dist

dist.init_process_group("gloo", timeout=timedelta(seconds=60))
rank, size = dist.get_rank(), dist.get_world_size()
node, attempt = os.uname().nodename, int(os.environ["TORCHELASTIC_RESTART_COUNT"])
torch.manual_seed(0)
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(300, 200))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model(torch.randn(8, 300)[rank::size]).square().mean().backward()
optimizer.step()
dist.all_reduce(ranks := torch.tensor([float(rank)]))
sys.stdout.write(f"{attempt} {node} {rank} of {size}: {ranks.item():.0f}\\n")
made = Path(sys.argv[1], f"{attempt}-{rank}")
torch.save(model.module.state_dict(), made.with_suffix(".part"))
made.with_suffix(".part").rename(made)
while attempt < 2:
    dist.all_reduce(ranks)
    time.sleep(0.01)
"""


def of_one_process() -> dict[str, torch.Tensor]:
    torch.manual_seed(0)
    model = torch.nn.Linear(300, 200)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model(torch.randn(8, 300)).square().mean().backward()
    optimizer.step()
    return model.state_dict()


@needs_mpi
def test_a_machine_joins_and_is_cut_off(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(STEP)
    before = shared_memory()
    with pretend_nodes() as nodes:
        command = [sys.executable, "-m", "flambeau.distributed.run", "--nnodes=1:2", "--nproc-per-node=2", "--max-restarts=1",
                   "--rdzv-backend=c10d", f"--rdzv-endpoint={nodes.addresses[0]}:29400", "--rdzv-conf=last_call_timeout=0.5",
                   str(program), str(tmp_path)]  # fmt: skip
        root = Path(__file__).resolve().parents[2]
        first = nodes.start(0, *command, cwd=root)
        until_there(tmp_path / "0-0", tmp_path / "0-1")
        second = nodes.start(1, *command, cwd=root)
        until_there(*(tmp_path / f"1-{rank}" for rank in range(4)))
        nodes.cut()
        lost_out, lost_errors = second.communicate(timeout=HANG)
        out, errors = first.communicate(timeout=HANG)

    assert first.returncode == 0, errors
    told = [line.split() for line in (out + lost_out).splitlines()]  # attempt, node, its rank, of, size:, sum of ranks
    assert sorted((attempt, rank, size, total) for attempt, _, rank, _, size, total in told) == [
        ("0", "0", "2:", "1"),
        ("0", "1", "2:", "1"),
        *[("1", str(rank), "4:", "6") for rank in range(4)],
        ("2", "0", "2:", "1"),
        ("2", "1", "2:", "1"),
    ]
    places = {int(rank): node for attempt, node, rank, *_ in told if attempt == "1"}  # in the order of their coming
    assert places[0] == places[1] != places[2] == places[3]
    expected = of_one_process()
    for attempt, size in enumerate((2, 4, 2)):
        states = [torch.load(tmp_path / f"{attempt}-{rank}") for rank in range(size)]
        for name, values in expected.items():
            torch.testing.assert_close(states[0][name], values, rtol=1e-6, atol=1e-6)
            assert all(torch.equal(state[name], states[0][name]) for state in states)
    assert second.returncode == 1 and "the node that keeps the store is lost" in lost_errors
    begun_first, begun_later = (errors, lost_errors) if places[0] == "node0" else (lost_errors, errors)
    assert re.search("ranks? [23] (and 3 are|is) gone", begun_first) and "rank 0 is gone" in begun_later
    assert not processes_of(tmp_path) and shared_memory() <= before
