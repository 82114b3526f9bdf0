"""Blocks of autocast and inference mode in graphs, and operators of a program: what graphs_recorded.json can't say of them."""

from __future__ import annotations

import warnings
from typing import Any

import pytest

import flambeau as torch
from flambeau import nn


def counted(function: Any, *args: Any, **kwargs: Any) -> tuple[Any, int]:
    counter = torch._dynamo.testing.CompileCounter()
    return torch.compile(function, backend=counter, **kwargs)(*args), counter.frame_count


def test_autocast_around_and_inside_and_an_error_in_it() -> None:
    x = torch.randn(4, 4)

    def inside(x: Any) -> Any:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = x @ x
            with torch.autocast("cpu", enabled=False):
                z = x @ x
            w = x @ x
        return y, z, w, x @ x

    made, count = counted(inside, x)
    assert count == 1 and [t.dtype for t in made] == [torch.bfloat16, torch.float32, torch.bfloat16, torch.float32]
    assert all(torch.equal(a, b) for a, b in zip(made, inside(x)))
    assert not torch.is_autocast_enabled("cpu")
    with torch.autocast("cpu", dtype=torch.bfloat16):
        around, count = counted(lambda x: (x @ x) + 1, x)
        assert count == 1 and around.dtype is torch.bfloat16 and torch.is_autocast_enabled("cpu")

    def fails(x: Any) -> Any:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            x @ x
            raise KeyError("inside")

    with pytest.raises(KeyError):
        counted(fails, x)
    assert not torch.is_autocast_enabled("cpu")


def test_autocast_with_a_break_inside() -> None:
    def f(x: Any) -> Any:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = x @ x
            torch._dynamo.graph_break()
            return y @ x

    made, count = counted(f, torch.eye(3))
    assert count == 2 and made.dtype is torch.bfloat16 and torch.equal(made, f(torch.eye(3)))


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_training_under_autocast(backend: str) -> None:
    def gradients(compile: bool) -> list[Any]:
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
        x = torch.randn(3, 4)

        def loss(x: Any) -> Any:
            with torch.autocast("cpu", dtype=torch.bfloat16):
                y = model(x)
            return y.float().pow(2).mean()

        (torch.compile(loss, backend=backend) if compile else loss)(x).backward()
        return [p.grad for p in model.parameters()]

    for a, b in zip(gradients(True), gradients(False), strict=True):
        torch.testing.assert_close(a, b)


def test_graphs_that_run_call_by_call_have_blocks_too() -> None:
    def f(x: Any, n: int) -> Any:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = x @ x
        with torch.inference_mode():
            z = x * [1, 2, 3, 4][n]
        return y, z, x + 1

    compiled = torch.compile(f, backend="eager")
    with torch._dynamo.config.patch(recompile_limit=1), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for n in range(4):
            y, z, w = compiled(torch.eye(2, requires_grad=True), n)
            assert y.dtype is torch.bfloat16 and y.requires_grad and z.is_inference() and z[0, 0] == n + 1 and w.requires_grad
    assert torch.is_grad_enabled() and not torch.is_inference_mode_enabled()


def test_inference_mode_is_in_the_graph() -> None:
    def f(x: Any) -> Any:
        with torch.inference_mode():
            y = x * 2
        return y, x * 3

    (y, z), count = counted(f, torch.ones(2, requires_grad=True))
    assert count == 1 and y.is_inference() and not y.requires_grad and z.requires_grad


def test_operators_that_graphs_have_and_that_they_have_not() -> None:
    ran = []

    @torch.library.custom_op("dynamo_blocks::plain", mutates_args=())
    def plain(x: torch.Tensor) -> torch.Tensor:
        ran.append(1)
        return x + 1

    @torch.library.custom_op("dynamo_blocks::writes", mutates_args=("x",))
    def writes(x: torch.Tensor) -> None:
        x.add_(1)

    made, count = counted(lambda x: plain(x * 2) * 3, torch.ones(2))  # no fake implementation: computed by itself
    assert made.tolist() == [9, 9] and count == 2 and len(ran) == 1
    plain.register_fake(torch.empty_like)
    made, count = counted(lambda x: plain(x * 2) * 3, torch.ones(2))
    assert made.tolist() == [9, 9] and count == 1 and len(ran) == 2

    def written(x: Any) -> Any:
        y = x * 2
        writes(y)
        return y * 3

    made, count = counted(written, torch.ones(2))
    assert made.tolist() == [9, 9] and count == 2


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_blocks_that_end_those_around_the_graph(backend: str) -> None:
    """Graphs behind a break and under a block around the function, with blocks of their own."""

    def broken(x: Any) -> Any:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = x @ x
            torch._dynamo.graph_break()
            y = y @ x
        return y, x @ x

    def inside(x: Any) -> Any:
        with torch.autocast("cpu", enabled=False):
            y = x @ x
        with torch.autocast("cpu", dtype=torch.float16):
            return y, x @ x

    x = torch.randn(4, 4)
    for f, around in ((broken, False), (broken, True), (inside, True)):
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=around):
            made, wanted = torch.compile(f, backend=backend)(x), f(x)
        for a, b in zip(made, wanted, strict=True):
            assert a.dtype is b.dtype and torch.equal(a, b)


def test_a_graph_that_fails_leaves_no_block_open() -> None:
    def failing(gm: Any, inputs: list[Any]) -> Any:
        def run(*given: Any) -> Any:
            torch.amp.autocast_mode._enter_autocast("cpu", torch.bfloat16, True, None)
            raise KeyError("inside")

        return run

    with pytest.raises(KeyError):
        torch.compile(lambda x: x + 1, backend=failing)(torch.ones(2))
    assert not torch.is_autocast_enabled("cpu")
    weight, x = torch.ones(2, 2, requires_grad=True), torch.ones(2, 2)
    found = []
    for _ in range(2):
        with torch.autocast("cpu", dtype=torch.bfloat16):  # whose casts last until the outermost block ends
            found.append((x @ weight).sum().item())
        with torch.no_grad():
            weight.mul_(2)
    assert found == [8, 16]


def test_grad_mode_behind_inference_mode_that_ends_inside_autocast() -> None:
    w = torch.ones(2, 2, requires_grad=True)

    def f(x: Any) -> Any:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            with torch.inference_mode():
                a = x @ x
                with torch.inference_mode(False):
                    b = x @ w
                c = a @ x
        return b, c, x @ w

    with torch.no_grad():
        for made, wanted in zip(torch.compile(f, backend="eager")(torch.ones(2, 2)), f(torch.ones(2, 2)), strict=True):
            assert torch.equal(made, wanted) and made.requires_grad is wanted.requires_grad


def test_writes_to_a_part_of_an_expanded_tensor() -> None:
    def f(x: Any) -> Any:
        y = x.expand(3, *x.shape)
        y[0, 0].add_(5)
        y[1, 2] = 7
        return y

    def g(x: Any) -> Any:
        y = x.unsqueeze(1).expand(-1, 3)
        y[:, 1].mul_(2)
        return y + 1

    for dtype in (torch.int64, torch.float32, torch.bool, torch.complex64):
        for function in (f, g) if dtype is not torch.bool else (lambda x: x.expand(2, 6)[0].logical_not_(),):
            x = torch.arange(6).to(dtype)
            if dtype is torch.float32:
                x[2], x[0] = float("nan"), float("inf")
            mine, other = x.clone(), x.clone()
            made, wanted = torch.compile(function, backend="aot_eager")(mine), function(other)
            assert torch.equal(made.nan_to_num(), wanted.nan_to_num()) if dtype.is_floating_point else torch.equal(made, wanted)
            assert torch.equal(mine.isnan(), other.isnan()) and torch.equal(mine[~mine.isnan()], other[~other.isnan()])
