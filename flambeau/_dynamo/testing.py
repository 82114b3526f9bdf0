"""torch._dynamo.testing: backends that count and keep graphs, and what tests of compiled functions compare with.

Stands on backends and utils; for programs' own tests.
"""

from __future__ import annotations

import contextlib
import functools
import re
import sys
import unittest
from collections.abc import Callable, Sequence
from typing import Any

import flambeau as torch
from flambeau._dynamo import config
from flambeau._dynamo.backends.debugging import aot_eager
from flambeau._dynamo.backends.registry import lookup_backend
from flambeau._dynamo.eval_frame import optimize_assert
from flambeau._dynamo.utils import same

__all__ = [
    "AotEagerAndRecordGraphs", "CompileCounter", "CompileCounterWithBackend", "EagerAndRecordGraphs",
    "check_dynamic_shape_capture", "clone_me", "collect_results", "dummy_fx_compile", "empty_line_normalizer",
    "expectedFailureCodegenDynamic", "expectedFailureDynamic", "expectedFailureDynamicWrapper", "extract_graph", "format_speedup",
    "make_test_cls_with_patches", "normalize_gm", "optimize_assert", "rand_strided", "reduce_to_scalar_loss",
    "remove_optimized_module_prefix", "remove_trailing_space", "requires_bwd_pass", "reset_rng_state", "same", "skipIfNotPy311",
    "skipIfNotPy312", "skipIfOnlyNotPy312", "skipIfPy312", "standard_test", "strip_comment", "unsupported", "xfailIfPy312",
]  # fmt: skip


def _operators(gm: Any) -> int:
    return sum("call" in node.op for node in gm.graph.nodes)


class CompileCounter:
    """A backend that runs graphs as they are. frame_count: how many it was given; op_count: the operators in them."""

    def __init__(self) -> None:
        self.clear()

    def __call__(self, gm: Any, example_inputs: list[Any]) -> Callable[..., Any]:
        self.frame_count += 1
        self.op_count += _operators(gm)
        return gm.forward  # type: ignore[no-any-return]

    def clear(self) -> None:
        """Count from zero."""
        self.frame_count = self.op_count = 0


class CompileCounterWithBackend:
    """The same before another backend, by name; it keeps the graphs."""

    def __init__(self, backend: str) -> None:
        self.backend = backend
        self.clear()

    def __call__(self, gm: Any, example_inputs: list[Any]) -> Any:
        self.frame_count += 1
        self.op_count += _operators(gm)
        self.graphs.append(gm)
        return lookup_backend(self.backend)(gm, example_inputs)

    def clear(self) -> None:
        """Count from zero, without graphs."""
        self.frame_count = self.op_count = 0
        self.graphs: list[Any] = []


class EagerAndRecordGraphs:
    """A backend that keeps graphs and their inputs, and runs them as they are."""

    def __init__(self) -> None:
        self.graphs: list[Any] = []
        self.example_inputs: list[Any] = []

    def __call__(self, gm: Any, example_inputs: list[Any]) -> Any:
        self.graphs.append(gm)
        self.example_inputs.append(example_inputs)
        return gm.forward


class AotEagerAndRecordGraphs:
    """A backend that keeps graphs, and those of aten's operators that become of them, forward and backward."""

    def __init__(self) -> None:
        self.graphs: list[Any] = []
        self.fw_graphs: list[Any] = []
        self.bw_graphs: list[Any] = []

    def __call__(self, gm: Any, example_inputs: list[Any]) -> Any:
        self.graphs.append(gm)
        kwargs = {**aot_eager.kwargs, "fw_compiler": self._keeping(self.fw_graphs), "bw_compiler": self._keeping(self.bw_graphs)}
        return type(aot_eager)(**kwargs)(gm, example_inputs)

    @staticmethod
    def _keeping(graphs: list[Any]) -> Callable[..., Any]:
        def compiler(gm: Any, example_inputs: Any) -> Any:
            graphs.append(gm)
            return aot_eager.kwargs["fw_compiler"](gm, example_inputs)

        return compiler


def dummy_fx_compile(gm: Any, example_inputs: list[Any]) -> Any:
    """The graph as it is."""
    return gm.forward


# ---------------------------------------------------------------- tests


def unsupported(a: Any, b: Any) -> Any:
    """b; no graph has it."""
    torch._dynamo.graph_break()
    return b


def check_dynamic_shape_capture() -> bool:
    """Whether sizes are symbols from the first call on."""
    return not config.assume_static_by_default


def standard_test(
    self: Any,
    fn: Callable[..., Any],
    nargs: int,
    expected_ops: int | None = None,
    expected_ops_dynamic: int | None = None,
    expected_frame_count: int = 1,
) -> None:
    """Assert of a test case that `fn` of so many matrices is one graph with as many operators, and gives the same compiled, with
    these arguments and with others.
    """
    if check_dynamic_shape_capture() and expected_ops_dynamic is not None:
        expected_ops = expected_ops_dynamic
    given = [[torch.randn(10, 10) for _ in range(nargs)] for _ in range(2)]
    wanted = [fn(*args) for args in given]
    reset_rng_state()
    torch._dynamo.reset()
    counts = CompileCounter()
    compiled = optimize_assert(counts)(fn)
    for args, correct in zip([*given, *given], [*wanted, *wanted]):
        self.assertTrue(same(compiled(*args), correct))
    self.assertEqual(counts.frame_count, expected_frame_count)
    if expected_ops is not None:
        self.assertEqual(counts.op_count, expected_ops)


def extract_graph(fn: Callable[..., Any], *args: Any, **kwargs: Any) -> tuple[Any, list[Any], list[Any]]:
    """(the result of a call, its graphs, the forward graphs of aten's operators that become of them)."""
    backend = AotEagerAndRecordGraphs()
    result = torch.compile(backend=backend)(fn)(*args, **kwargs)
    return result, backend.graphs, backend.fw_graphs


def _with_patches(fn: Callable[..., Any], patches: Sequence[Any]) -> Callable[..., Any]:
    @functools.wraps(fn)
    def patched(*args: Any, **kwargs: Any) -> Any:
        with contextlib.ExitStack() as stack:
            for module, name, value in patches:
                stack.enter_context(module.patch(**{name: value}))
            return fn(*args, **kwargs)

    return patched


def make_test_cls_with_patches(
    cls: type,
    cls_prefix: str,
    fn_suffix: str,
    *patches: Any,
    xfail_prop: str | None = None,
    decorator: Callable[..., Any] = lambda fn: fn,
) -> type:
    """A class of the tests of another, which are run with other settings: (module of settings, name, value) each.

    Those that bear the attribute `xfail_prop` are expected to fail.
    """
    members: dict[str, Any] = {}
    for name in dir(cls):
        found = getattr(cls, name)
        if not name.startswith("test_"):
            if name not in dir(cls.__base__ or object):
                members[name] = vars(cls).get(name, found)
            continue
        made = f"{name}{fn_suffix}"
        members[name] = None  # the one of the class itself isn't run again
        if not callable(found):
            continue
        test = _with_patches(found, patches)
        test.__name__ = made
        if xfail_prop is not None and hasattr(found, xfail_prop):
            test = unittest.expectedFailure(test)
        members[made] = decorator(test)
    return type(f"{cls_prefix}{cls.__name__}", cls.__bases__, {k: v for k, v in members.items() if v is not None})


def _skip_where(condition: bool, reason: str) -> Callable[[Any], Any]:
    return unittest.skip(reason) if condition else lambda fn: fn


skipIfNotPy311 = _skip_where(sys.version_info < (3, 11), "Requires Python 3.11+")
skipIfNotPy312 = _skip_where(sys.version_info < (3, 12), "Requires Python 3.12+")
skipIfOnlyNotPy312 = _skip_where(sys.version_info[:2] != (3, 12), "Requires Python 3.12")
skipIfPy312 = _skip_where(sys.version_info >= (3, 12), "Not supported in Python 3.12+")


def xfailIfPy312(fn: Any) -> Any:
    """Decorator of a test that is expected to fail from Python 3.12 on."""
    return unittest.expectedFailure(fn) if sys.version_info >= (3, 12) else fn


def _marked(name: str) -> Callable[[Any], Any]:
    def mark(fn: Any) -> Any:
        setattr(fn, name, True)
        return fn

    return mark


expectedFailureDynamic = _marked("_expected_failure_dynamic")
expectedFailureCodegenDynamic = _marked("_expected_failure_codegen_dynamic")
expectedFailureDynamicWrapper = _marked("_expected_failure_dynamic_wrapper")


# ---------------------------------------------------------------- values


def clone_me(x: Any) -> Any:
    """A copy without history that requires grad as the tensor does."""
    return None if x is None else x.detach().clone().requires_grad_(x.requires_grad)


def rand_strided(
    size: Sequence[int], stride: Sequence[int], dtype: Any = None, device: Any = "cpu", extra_size: int = 0
) -> torch.Tensor:
    """Random numbers of a shape and strides; zeros and ones, say, where the dtype has no normal numbers."""
    needed = sum((n - 1) * s for n, s in zip(size, stride)) + 1 + extra_size if all(size) else extra_size
    dtype = dtype or torch.get_default_dtype()
    if dtype.is_floating_point or dtype.is_complex:
        buffer = torch.randn(needed, dtype=dtype, device=device)
    else:
        buffer = torch.zeros(needed, dtype=dtype, device=device)
    return torch.as_strided(buffer, tuple(size), tuple(stride))


def reset_rng_state(use_xla: bool = False) -> None:
    """Start the random streams of torch, Python and NumPy at 1337."""
    import random

    import numpy as np

    torch.manual_seed(1337)
    random.seed(1337)
    np.random.seed(1337)


def requires_bwd_pass(out: Any) -> bool:
    """Whether a result requires grad. NotImplementedError for what no result is."""
    if isinstance(out, torch.Tensor):
        return bool(out.requires_grad)
    if isinstance(out, (list, tuple)):
        return any(map(requires_bwd_pass, out))
    if out is None or isinstance(out, (int, str)):
        return False
    raise NotImplementedError("Don't know how to reduce", type(out))


def reduce_to_scalar_loss(out: Any) -> Any:
    """One number that depends on every result. NotImplementedError for what no result is."""
    if isinstance(out, torch.Tensor):
        return out.sum() / out.numel()
    if isinstance(out, (list, tuple)):
        return sum(map(reduce_to_scalar_loss, out)) / len(out)
    if isinstance(out, dict):
        return sum(map(reduce_to_scalar_loss, out.values())) / len(out)
    raise NotImplementedError("Don't know how to reduce", type(out))


def collect_results(model: Any, prediction: Any, loss: Any, example_inputs: Any) -> list[Any]:
    """The prediction, the loss, the gradients and parameters of a model, and the gradients of its inputs."""
    gradients = {f"{name}.grad": clone_me(p.grad) for name, p in model.named_parameters()}
    parameters = {name: clone_me(p) for name, p in model.named_parameters()}
    inputs = list(example_inputs)
    while inputs and isinstance(inputs[0], (list, tuple)):
        inputs = [x for given in inputs for x in (given if isinstance(given, (list, tuple)) else [given])]
    of_inputs = [clone_me(x.grad) if isinstance(x, torch.Tensor) else x for x in inputs]
    return [prediction, loss, gradients, parameters, {name: clone_me(b) for name, b in model.named_buffers()}, *of_inputs]


# ---------------------------------------------------------------- text


def remove_optimized_module_prefix(name: str) -> str:
    """A parameter's name without `_orig_mod.`."""
    return re.sub(r"^_orig_mod[.]", "", name)


def strip_comment(code: str) -> str:
    """Code without what stands behind #."""
    return re.sub(r"(?m)^ *#.*\n?", "", str(code))


def remove_trailing_space(code: str) -> str:
    """Lines without blanks at their ends."""
    return "\n".join([line.rstrip() for line in code.split("\n")])


def empty_line_normalizer(code: str) -> str:
    """Code without empty lines."""
    return re.sub(r"[\r\n]+", "\n", code)


def normalize_gm(gm_str: str) -> str:
    """A printed graph without comments and blanks at the ends of lines."""
    return remove_trailing_space(strip_comment(gm_str))


def format_speedup(speedup: float, pvalue: float, is_correct: bool = True, pvalue_threshold: float = 0.1) -> str:
    """ "1.500x p=0.01", or that the results differ, or the difference is chance."""
    if not is_correct:
        return "ERROR"
    return f"{speedup:.3f}x SAME" if pvalue > pvalue_threshold else f"{speedup:.3f}x p={pvalue:.2f}"
