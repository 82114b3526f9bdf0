"""What must agree with itself, for random calls of the catalogue: no expectation is recorded here.

A call gives the same on operands that lie otherwise in memory, in float64 (up to rounding), through `out=`, in place, and under
vmap; its gradient is that of finite differences; and a call that is refused leaves its operands as they were.
"""

import re

import numpy as np
import pytest
from fuzz.calls import FAMILIES
from fuzz.writer import Filled, Writer

import flambeau as torch

SEEDS = range(4)
FORMS = 25  # calls per seed
IMPURE = re.compile(r"_\(|out=|\w+ [-+*/%&|^<]{1,2}= |rand|drop|rrelu|gumbel|inplace|unique|torch\.(zeros|ones)\(")
PURE = ("unary", "binary", "ternary", "reduce", "product", "layers", "losses")


def calls(seed: int) -> list[tuple[Writer, str, str]]:
    """Random calls without effects on tensors of float32: a writer with the variables, the line, and the subject's name."""
    found = []
    writer = Writer(torch, seed)
    for _ in range(3):
        shape = writer._shape()
        count = int(np.prod(shape, dtype=int))
        writer.count += 1
        elements = [round(writer.random.gauss(0, 1.5), 3) for _ in range(count)]
        writer.run.step(f"v{writer.count} = torch.tensor({elements}, dtype=torch.float32).reshape({shape})")
    while len(found) < FORMS:
        filled = Filled(writer, writer.random.choice(FAMILIES[writer.random.choice(PURE)][1]))
        if filled.subject is not None and not IMPURE.search(filled.text):
            found.append((writer, filled.text, filled.subject))
    return found


def outcome(writer: Writer, line: str, **changed: torch.Tensor):
    """What an expression gives with some variables exchanged: its tensors as a list, or None if it raises."""
    try:
        value = eval(line, {**writer.run.space, **changed})
    except Exception:  # which exceptions are right is what the recorded programs say
        return None
    return [x for x in (value if isinstance(value, (tuple, list)) else [value]) if isinstance(x, torch.Tensor)]


def agree(a, b, tolerance: float = 1e-4) -> bool:
    """Whether two lists of tensors have the same shapes and, up to rounding, values; indices of ties may differ."""
    if a is None or b is None:
        return a is b
    for x, y in zip(a, b, strict=True):
        if x.shape != y.shape:
            return False
        if x.is_floating_point() or x.is_complex():
            x, y = x.detach().to(torch.complex128).numpy(), y.detach().to(torch.complex128).numpy()
            known = np.isfinite(x) & np.isfinite(y)
            size = max(1.0, np.abs(x[known]).max(initial=0.0))
            if not np.array_equal(np.isnan(x), np.isnan(y)) or (np.abs(x[known] - y[known]) > tolerance * size).any():
                return False
    return True


@pytest.mark.parametrize("seed", SEEDS)
def test_layouts_make_no_difference(seed):
    for writer, line, _ in calls(seed):
        scattered = {}
        for name, t in writer.run.tensors():
            backwards = tuple(range(t.dim()))[::-1]
            room = torch.zeros([2 * n + 1 for n in reversed(t.shape)], dtype=t.dtype)
            scattered[name] = room[(slice(1, None, 2),) * t.dim()].permute(backwards).copy_(t)
        assert agree(outcome(writer, line), outcome(writer, line, **scattered)), line


@pytest.mark.parametrize("seed", SEEDS)
def test_refused_calls_leave_their_operands_alone(seed):
    for writer, line, _ in calls(seed):
        before = {name: t.detach().clone() for name, t in writer.run.tensors()}
        outcome(writer, line)
        for name, t in writer.run.tensors():
            assert t.shape == before[name].shape and torch.equal(t.nan_to_num(), before[name].nan_to_num()), line


@pytest.mark.parametrize("seed", SEEDS)
def test_vmap_gives_what_a_loop_gives(seed):
    for writer, line, subject in calls(seed):
        t = writer.run.space[subject]
        body = re.sub(rf"\b{subject}\b", "q", line)
        if not t.dim() or not t.shape[0]:
            continue

        def one(q, body=body, writer=writer):
            return eval(body, {**writer.run.space, "q": q})

        try:
            looped = [one(x) for x in t]
        except Exception:  # a call of smaller tensors than the line was written for
            continue
        if not all(isinstance(x, torch.Tensor) for x in looped) or any(x.shape != looped[0].shape for x in looped):
            continue
        try:
            mapped = torch.func.vmap(one)(t)
        except (RuntimeError, NotImplementedError, ValueError):  # what asks for values can't be mapped
            continue
        if not isinstance(mapped, torch.Tensor) or mapped.shape[1:] != looped[0].shape:
            continue
        assert agree([mapped], [torch.stack(looped)]), line


@pytest.mark.parametrize("seed", SEEDS)
def test_gradients_are_those_of_finite_differences(seed):
    rng = np.random.default_rng(seed)
    for writer, line, subject in calls(seed):
        if re.search("fake_quantize|floor_divide|//|histogram", line):  # the identity's gradient by design; none, as in PyTorch
            continue
        doubled = {name: t.double() for name, t in writer.run.tensors()}
        at = doubled[subject].clone().requires_grad_()
        made = outcome(writer, line, **{**doubled, subject: at})
        if not made or not made[0].requires_grad or not made[0].is_floating_point():
            continue
        weights = torch.from_numpy(rng.standard_normal(tuple(made[0].shape)))
        direction = torch.from_numpy(rng.standard_normal(tuple(at.shape)))
        (gradient,) = torch.autograd.grad(made[0], at, weights, allow_unused=True)
        found = 0.0 if gradient is None else float((gradient * direction).sum())

        def value(step, writer=writer, line=line, doubled=doubled, subject=subject, direction=direction, weights=weights):
            moved = {**doubled, subject: doubled[subject] + step * direction}
            return float((outcome(writer, line, **moved)[0] * weights).sum())

        coarse, fine = (value(h) - value(-h) for h in (1e-5, 1e-6))
        coarse, fine = coarse / 2e-5, fine / 2e-6
        smooth = abs(coarse - fine) <= 1e-4 * max(1.0, abs(fine))  # no kink or pole nearby
        if smooth and np.isfinite(found) and np.isfinite(fine):
            assert abs(found - fine) <= 1e-3 * max(1.0, abs(fine)), line
