"""torch.distributed.rpc, distributed autograd and what stands on them: figures are PyTorch's of the same program."""

from __future__ import annotations

import gc
import time
from typing import Any

import pytest
from distributed.ranks import on_ranks

import flambeau as torch
import flambeau.distributed.autograd as dist_autograd
from flambeau import nn
from flambeau.distributed import rpc
from flambeau.distributed.nn import RemoteModule
from flambeau.distributed.optim import DistributedOptimizer


def add(a: Any, b: Any) -> Any:
    return a + b


def fails(x: int) -> None:
    raise ValueError(f"expected {x}")


def later(seconds: float) -> float:
    time.sleep(seconds)
    return seconds


@rpc.functions.async_execution
def through(to: str, a: Any, b: Any) -> Any:
    return rpc.rpc_async(to, add, args=(a, b)).then(lambda future: future.wait() + 100)


def one_more(rref: Any) -> Any:
    return rref.to_here() + 1


def handed_on(x: int, times: int, workers: list[str]) -> int:
    if times == 0:
        return x
    return int(rpc.rpc_sync(workers[times % len(workers)], handed_on, args=(2 * x + times, times - 1, workers)))


def kept() -> int:
    gc.collect()
    return len(rpc.current.values()._values)


class Net(nn.Module):
    def __init__(self, seed: int) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.linear = nn.Linear(4, 4)

    def forward(self, x: Any) -> Any:
        return torch.tanh(self.linear(x))

    def references(self) -> list[Any]:
        return [rpc.RRef(each) for each in self.parameters()]


def calls() -> None:
    assert rpc.rpc_sync("w1", add, args=(torch.ones(2), 3)).tolist() == [4, 4]
    assert repr(rpc.get_worker_info()) == "WorkerInfo(id=0, name=w0)" and rpc.get_worker_info("w2").id == 2
    assert rpc.rpc_async(1, max, args=(3, 4)).wait() == 4
    with pytest.raises(ValueError, match=r"ValueError: On WorkerInfo\(id=1, name=w1\):\nValueError\('expected 5'\)"):
        rpc.rpc_sync("w1", fails, args=(5,))
    with pytest.raises(RuntimeError, match=r"RPC ran for more than set timeout \(100 ms\) and will now be marked with an error"):
        rpc.rpc_sync("w1", later, args=(0.5,), timeout=0.1)
    with pytest.raises(RuntimeError, match="could not find destination nobody"):
        rpc.rpc_sync("nobody", add)
    assert rpc.rpc_sync("w1", through, args=("w2", torch.ones(1), 1)).item() == 102
    assert rpc.rpc_sync("w1", handed_on, args=(1, 40, ["w0", "w1", "w2"])) == 43980465111041
    theirs, own = rpc.remote("w1", add, args=(torch.ones(2), 5)), rpc.RRef(torch.zeros(2))
    assert theirs.to_here().tolist() == [6, 6] and not theirs.is_owner() and theirs.owner_name() == "w1"
    assert rpc.rpc_sync("w2", one_more, args=(theirs,)).tolist() == [7, 7]
    assert rpc.rpc_sync("w2", one_more, args=(own,)).tolist() == [1, 1] and own.is_owner() and not own.local_value().any()
    with pytest.raises(RuntimeError, match="Call it on owner WorkerInfo"):
        theirs.local_value()
    with pytest.raises(ValueError, match="expected 7"):
        rpc.remote("w2", fails, args=(7,)).to_here()
    assert rpc.rpc_sync("w1", kept) == 1
    del theirs
    gc.collect()
    end = time.monotonic() + 5
    while rpc.rpc_sync("w1", kept) and time.monotonic() < end:
        time.sleep(0.02)
    assert rpc.rpc_sync("w1", kept) == kept() == 0


LEARNED = [1.170957, 0.121348, 0.04431, 0.017145]


def learns() -> None:
    nets = [rpc.remote(f"w{each}", Net, args=(each,)) for each in (1, 2)]
    first, second = (net.rpc_sync() for net in nets)
    optimizer = DistributedOptimizer(torch.optim.SGD, first.references() + second.references(), lr=0.1)
    weight, found = torch.ones(4, requires_grad=True), []
    for step in range(4):
        with dist_autograd.context() as number:
            x = torch.full((2, 4), 0.1 * step) * weight
            a = first.forward(x)
            b = second.forward(x + a)
            for _ in range(6):  # ways that part and meet
                a = first.forward(b) + second.forward(b)
                b = a * 0.5
            loss = (a * b).sum()
            dist_autograd.backward(number, [loss])
            optimizer.step(number)
            found.append(loss.item())
            assert dist_autograd.get_gradients(number)[weight].shape == (4,) and weight.grad is None
    assert found == pytest.approx(LEARNED, abs=2e-5)
    with pytest.raises(RuntimeError, match="Could not find autograd context with id"):
        dist_autograd.get_gradients(number)
    module = RemoteModule("w1/cpu", Net, args=(1,))
    with dist_autograd.context() as number:
        out = module(torch.ones(1, 4))
        torch.testing.assert_close(out, Net(1)(torch.ones(1, 4)))
        dist_autograd.backward(number, [out.sum()])
        DistributedOptimizer(torch.optim.SGD, module.remote_parameters(), lr=1.0).step(number)
    assert not torch.allclose(module(torch.ones(1, 4)), out)
    with pytest.raises(ValueError, match="Method ``parameters`` not supported for RemoteModule"):
        module.parameters()


def worker(rank: int) -> None:
    with pytest.raises(RuntimeError, match="RPC has not been initialized"):
        rpc.get_worker_info()
    rpc.init_rpc(f"w{rank}", rank=rank, world_size=3)
    if rank == 0:
        calls()
        learns()
    rpc.shutdown()


def test_calls_references_and_gradients() -> None:
    on_ranks(3, worker, begin=False, seconds=60)


def test_functions_of_libraries_ask_for_init_rpc() -> None:
    @rpc.api._require_initialized
    def call() -> int:
        return 1

    assert call.__name__ == "call"
    with pytest.raises(RuntimeError, match=r"RPC has not been initialized. Call torch.distributed.rpc.init_rpc first."):
        call()
