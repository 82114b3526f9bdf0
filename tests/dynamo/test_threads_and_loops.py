"""Compiled functions whose tensors other threads use, whole training loops in one, and what backends may give."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

import flambeau as torch
from flambeau import nn


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_training_loop_with_batch_norm_clipping_and_schedule(backend: str) -> None:
    def losses(compile: bool) -> list[float]:
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 1))
        optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
        schedule = torch.optim.lr_scheduler.StepLR(optimizer, 2, 0.5)
        x, y = torch.randn(16, 4), torch.randn(16, 1)

        def train(x: Any, y: Any) -> list[Any]:
            found = []
            for _ in range(3):
                optimizer.zero_grad()
                loss = nn.functional.mse_loss(model(x), y)
                loss.backward()
                nn.utils.clip_grad_norm_(model.parameters(), 0.1)
                optimizer.step()
                schedule.step()
                found.append(loss.detach())
            return found

        run = torch.compile(train, backend=backend) if compile else train
        return [float(loss) for loss in run(x, y)]

    assert losses(True) == losses(False)


def test_clipping_is_in_the_graph() -> None:
    graphs = []

    def backend(gm: Any, inputs: Any) -> Any:
        graphs.append(gm.code)
        return gm.forward

    parameters = [nn.Parameter(torch.ones(3)), nn.Parameter(torch.ones(2))]
    for p in parameters:
        p.grad = torch.full_like(p, 2.0)
    total = torch.compile(lambda: nn.utils.clip_grad_norm_(parameters, 1.0), backend=backend)()
    assert len(graphs) == 1 and graphs[0].count("mul_") >= 2
    assert total.item() == pytest.approx(20**0.5)
    assert float(torch.cat([p.grad for p in parameters]).norm()) == pytest.approx(1.0, rel=1e-5)


def test_a_kernel_past_public_functions_sees_what_was_written_before() -> None:
    """An optimizer's own loop isn't recorded: what comes before is computed first."""
    from flambeau.core.operator.foreach import pointwise_updates

    def f(x: Any, y: Any) -> Any:
        x.mul_(3)
        scale = y * 2
        pointwise_updates(lambda a, b: (a * b,), [((x,), (scale,)), ((y,), (scale,))], {}, {})
        return x + y

    assert torch.compile(f, backend="eager")(torch.ones(2), torch.ones(2)).tolist() == [8.0, 8.0]


def test_another_thread_sees_writes_to_inputs_and_results() -> None:
    def written(x: Any) -> Any:
        x.add_(1)
        found: list[Any] = []
        thread = threading.Thread(target=lambda: found.append(x.clone()))
        thread.start()
        thread.join()
        return found[0] + x

    def made(x: Any) -> Any:
        y = x + 1
        found: list[Any] = []
        thread = threading.Thread(target=lambda: found.append(y.clone()))
        thread.start()
        thread.join()
        return found[0] + x

    assert torch.compile(written, backend="eager")(torch.ones(3)).tolist() == [4.0] * 3
    assert torch.compile(made, backend="eager")(torch.ones(3)).tolist() == [3.0] * 3


def test_another_thread_writes_behind_what_reads() -> None:
    with ThreadPoolExecutor(1) as pool:

        def f(x: Any) -> Any:
            y = x * 2
            pool.submit(lambda: x.zero_()).result()
            return y + x

        x = torch.ones(3)
        assert torch.compile(f, backend="eager")(x).tolist() == [2.0] * 3
        assert x.tolist() == [0.0] * 3


def test_threads_compile_at_the_same_time() -> None:
    """Examples of graphs are made in a mode that no other thread is in."""
    found: list[Any] = []

    def work(n: int) -> None:
        def backend(gm: Any, inputs: Any) -> Any:
            modes = {id(node.meta["example_value"].fake_mode) for node in gm.graph.nodes if "example_value" in node.meta}
            shapes = [tuple(node.meta["example_value"].shape) for node in gm.graph.nodes if "example_value" in node.meta]
            found.append((n, len(modes), set(shapes)))
            return gm.forward

        x = torch.ones(n)
        for i in range(10):
            assert torch.compile(lambda x: (x * i + 1) @ x, backend=backend)(x).item() == n * (i + 1)

    threads = [threading.Thread(target=work, args=(n,)) for n in (2, 3, 4, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 40
    assert all(modes == 1 and shapes == {(n,), ()} for n, modes, shapes in found)


def test_what_a_backend_gives_is_taken_by_its_places() -> None:
    def lists(gm: Any, inputs: Any) -> Any:
        return lambda *args: list(gm(*args))

    def lone(gm: Any, inputs: Any) -> Any:
        return lambda *args: gm(*args)[0]

    assert torch.compile(lambda x: x * 2 + 1, backend=lists)(torch.ones(3)).tolist() == [3.0] * 3
    assert torch.compile(lambda x: x * 2 + 1, backend=lone)(torch.ones(3)).tolist() == 3.0  # as PyTorch has it
