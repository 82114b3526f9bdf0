"""Programs that do to a compiled function what a graph can't have: each gives what it gives without torch.compile, twice."""

from __future__ import annotations

import copy
import gc
import pickle
import warnings
import weakref

import numpy as np
import pytest

import flambeau as torch
from flambeau import nn
from flambeau._dynamo.testing import CompileCounter
from flambeau.overrides import TorchFunctionMode
from flambeau.utils._python_dispatch import TorchDispatchMode
from flambeau.utils.checkpoint import checkpoint as c


def state(x):
    if isinstance(x, torch.Tensor):
        return (
            tuple(x.shape),
            x.stride(),
            x.dtype,
            x.requires_grad,
            x.is_leaf,
            x._is_view(),
            type(x.grad_fn).__name__ if x.grad_fn is not None else None,
            x.tolist(),
            type(x).__name__,
            None if x.grad is None else x.grad.tolist(),
        )
    if isinstance(x, (list, tuple)):
        return [state(y) for y in x]
    if isinstance(x, dict):
        return {k: state(v) for k, v in x.items()}
    return x


PROGRAMS = []


def program(*args):
    def add(function):
        PROGRAMS.append((function, args))
        return function

    return add


def R(*s):
    return lambda: torch.arange(float(torch.Size(s).numel())).reshape(s) / 7 - 0.5


def L(*s):
    return lambda: (torch.arange(float(torch.Size(s).numel())).reshape(s) / 7 - 0.5).requires_grad_()


@program(R(4))
def data_attr(x):
    y = x * 2
    z = y.data
    z.add_(1)
    return y, z


@program(R(4))
def set_data(x):
    p = nn.Parameter(torch.zeros(4))
    y = x * 2
    p.data = y
    y += 1
    return p, y


@program(R(4))
def param_of_fake(x):
    p = nn.Parameter(x * 2)
    return p, (p * 3)


@program(L(4))
def backward_inside(w):
    y = (w * w).sum()
    y.backward()
    return w.grad * 2, w


@program(L(4))
def grad_inside(w):
    y = (w * w).sum()
    (g,) = torch.autograd.grad(y, w, create_graph=True)
    return g * g


@program(R(4))
def seeds(x):
    a = torch.rand(2)
    torch.manual_seed(3)
    b = torch.rand(2)
    s = torch.get_rng_state()
    c = torch.randn(2)
    torch.set_rng_state(s)
    d = torch.randn(2)
    return a, b, c, d, x + 1


@program(R(4))
def forked(x):
    a = torch.rand(2)
    with torch.random.fork_rng():
        b = torch.rand(3)
    return a, b, torch.rand(2)


@program(R(4))
def generator(x):
    g = torch.Generator().manual_seed(4)
    a = torch.rand(2, generator=g)
    b = torch.rand(2, generator=g)
    return a, b, torch.rand(1)


@program(R(4, 4))
def inplace_view(x):
    y = x.t()
    y.mul_(2)
    x[0] = 5
    z = x[1]
    z += 1
    return y, z, x


@program(R(4, 4))
def metadata_inplace(x):
    y = x * 1
    y.t_()
    a = y.shape
    y.unsqueeze_(0)
    x.unsqueeze_(1)
    return y, a, x.shape, x


@program(R(4))
def resize(x):
    y = x.clone()
    y.resize_(2, 2)
    return y, y.shape


@program(R(4))
def requires(x):
    y = x * 2
    y.requires_grad_()
    z = (y * y).sum()
    z.backward()
    return y.grad, y


@program(L(4))
def hooks(w):
    y = w * 2
    got = []
    y.register_hook(lambda g: got.append(g.tolist()) or g * 2)
    y.sum().backward()
    return got, w.grad


@program(L(4))
def retain(w):
    y = w * 2
    y.retain_grad()
    (y * y).sum().backward()
    return y.grad, w.grad


class Sq(torch.autograd.Function):
    calls = 0

    @staticmethod
    def forward(ctx, x):
        Sq.calls += 1
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * 3 * x


@program(L(4))
def function(w):
    n = Sq.calls
    y = Sq.apply(w * 2) + 1
    y.sum().backward()
    return y, w.grad, Sq.calls - n


@program(R(4, 3))
def vmapped(x):
    return torch.vmap(lambda r: (r * 2).sum())(x + 1)


@program(R(4))
def funcgrad(x):
    y = x * 2
    return torch.func.grad(lambda a: (a * y).sin().sum())(x), torch.func.jacrev(lambda a: a * y)(x)


@program(R(4))
def jvp(x):
    return torch.func.jvp(lambda a: a.sin(), (x * 2,), (x,))


@program(R(4))
def cond(x):
    return torch.cond(x.sum() > 0, lambda a: a + 1, lambda a: a - 1, (x,))


@program(L(4))
def checkpoint(w):
    return c(lambda a: (a * a).sin(), w * 2, use_reentrant=False)


@program(R(4))
def numpy(x):
    y = x * 2
    a = y.numpy()
    a[0] = 9
    return y + 1, float(a.sum())


@program(R(4))
def fromnumpy(x):
    a = np.ones(4, dtype=np.float32)
    return torch.from_numpy(a) * x, torch.tensor(a) + 1, torch.as_tensor(a) * 2


@program(R(4))
def printing(x):
    y = x * 2
    return repr(y), str(y.sum()), f"{y.max()}"


@program(R(4))
def masks(x):
    y = x * 2
    return y[y > 0], y.nonzero(), y.unique()


@program(R(4))
def inference(x):
    with torch.inference_mode():
        y = x * 2
    return y.is_inference(), y.tolist(), x + 1


@program(R(3, 3))
def autocast(x):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = x @ x
    return y, x @ x


@program(R(4))
def default_dtype(x):
    a = torch.zeros(2)
    torch.set_default_dtype(torch.float64)
    b = torch.zeros(2)
    torch.set_default_dtype(torch.float32)
    return a, b, torch.ones(1)


@program(R(4))
def deep(x):
    y = x * 2
    z = copy.deepcopy(y)
    z += 1
    return y, z


@program(R(4))
def same_identity(x):
    y = x.contiguous()
    return y is x, x.to(torch.float32) is x, y


@program(R(4), R(4))
def out_arg(x, o):
    torch.add(x, 1, out=o)
    return o * 2


@program(R(4))
def kinds(x):
    y = x + 1
    return type(y) is torch.Tensor, isinstance(y, torch.Tensor), y.device.type, str(y.dtype), y.is_contiguous(), len(y)


@program(L(3))
def optim(w):
    o = torch.optim.SGD([w], lr=0.1, momentum=0.9)
    for _ in range(3):
        o.zero_grad()
        l = ((w * 2) ** 2).sum()
        l.backward()
        before = w * 1
        o.step()
    return before, w


@program(L(3))
def adam(w):
    o = torch.optim.Adam([w], lr=0.1)
    for _ in range(3):
        o.zero_grad()
        l = ((w * 2) ** 2).sum()
        l.backward()
        before = w * 1
        o.step()
    return before, w, l


@program(R(4))
def raising(x):
    x.add_(1)
    try:
        x.reshape(3)
    except RuntimeError as e:
        m = str(e)
    return x * 2, m


@program(R(4))
def exc_after_write(x):
    try:
        x.mul_(3)
        raise ValueError
    except ValueError:
        pass
    return x


@program(L(4))
def detach_(w):
    y = w * 2
    y.detach_()
    return y, y.requires_grad


@program(R(4))
def complexes(x):
    z = torch.complex(x, x + 1)
    return z.real * 2, z.imag, z.conj(), torch.view_as_real(z), z.conj().imag


@program(R(2, 4))
def props(x):
    y = x + 1
    return y.T, y.mT, y.H if y.ndim == 2 else y, y.real, y.is_leaf, y.grad, y.nbytes, y.itemsize, y.ndim


@program(R(4))
def setattrs(x):
    y = x * 2
    y.tag = "a"
    z = y + 1
    print(end="")
    y.sum().item()
    return y.tag, y, z


@program(R(4))
def foreach(x):
    a, b = x * 2, x * 3
    torch._foreach_add_([a, b], 1.0)
    c = torch._foreach_mul([a, b], 2.0)
    return a, b, c


@program(R(5, 4))
def sorting(x):
    v, i = x.sort(dim=0, descending=True)
    return v, i, x.topk(2).values, x.kthvalue(2, 0)[0], x.median(0).values


@program(R(4))
def sub(x):
    class S(torch.Tensor):
        pass

    s = x.as_subclass(S)
    y = x * 2
    return type(s + 1).__name__, (s + 1).tolist(), (y.as_subclass(S) * 2).tolist()


@program(R(4))
def saved_hooks(x):
    w = torch.ones(4, requires_grad=True)
    n = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: (n.append(1), t)[1], lambda t: t):
        y = w * x * w
    y.sum().backward()
    return len(n), w.grad


@program(L(4))
def leaf_out(w):
    y = torch.zeros(3, requires_grad=True)
    return y, w * 2


@program(R(3))
def alias_out(x):
    a = x * 2
    return a, a.view(3, 1), a[:2], a


@program(L(4))
def inplace_on_outs(w):
    a = w * 2
    b = a[:2]
    a.sum().item()
    b.mul_(3)
    a.add_(1)
    (a * a).sum().backward()
    return a, b, w.grad


@program(L(4))
def version(w):
    y = w.exp()
    z = y * 1
    y.sum().item()
    return y._version, z


@program(R(4))
def anomaly(x):
    with torch.set_grad_enabled(True):
        w = torch.ones(4, requires_grad=True)
        y = w * x
    return y.sum(), torch.is_grad_enabled()


@program(R(4))
def storage(x):
    y = x * 2
    return y.untyped_storage().nbytes(), y.data_ptr() != 0, y.storage_offset()


@program(R(3, 3))
def linalg(x):
    y = x + torch.eye(3) * 5
    return torch.linalg.inv(y), torch.linalg.svdvals(y), torch.linalg.eigh(y @ y.T).eigenvalues, y.det()


@program(R(4))
def swap(x):
    y = x * 2
    z = x * 3
    torch.utils.swap_tensors(y, z)
    return y, z


@program(R(4))
def iterate(x):
    return [float(v) for v in x * 2], sum(x), max(x), 3 in x, list(x * 2)


@program(R(4))
def fmode(x):
    class Mo(TorchFunctionMode):
        def __torch_function__(self, f, ty, a=(), k=None):
            return f(*a, **(k or {})) * 2 if getattr(f, "__name__", "") == "sin" else f(*a, **(k or {}))

    y = x * 2
    with Mo():
        y = y.sin()
    return y


@program(R(4))
def dmode(x):
    n = []

    class Mo(TorchDispatchMode):
        def __torch_dispatch__(self, f, ty, a=(), k=None):
            n.append(str(f))
            return f(*a, **(k or {}))

    y = x * 2
    with Mo():
        z = y.sin() + 1
    return z, n


@program(R(4))
def pickled(x):
    y = x * 2
    return pickle.loads(pickle.dumps(y))


@program(R(4))
def version_of_an_input(x):
    before = x._version
    x.add_(1)
    return x._version - before


@program(R(4))
def base_of_a_view(x):
    view = x[:2]
    return view._base is x, view


@program(L(4))
def hook_of_a_node(x):
    seen = []
    y = x * 2
    y.grad_fn.register_hook(lambda *_: seen.append(1))
    (y * 3).sum().backward()
    return len(seen)


@program(L(4))
def gradient_that_is_assigned(x):
    x.grad = x.detach() * 2
    x.grad.add_(1)
    return x.grad.clone()


@program(R(4))
def attribute_requires_grad(x):
    y = x * 2
    y.requires_grad = True
    return torch.autograd.grad((y * y).sum(), y)[0]


@program(L(4))
def edge_of_the_graph(x):
    y = x * 2
    edge = torch.autograd.graph.get_gradient_edge(y)
    return torch.autograd.grad((y * 3).sum(), edge)[0]


@program(R(4))
def layout_of_an_input(x):
    y = x + 1
    x.resize_(2)
    x.unsqueeze_(0)
    return x * 2, y


@program(R(4))
def array_over_an_input(x):
    array = x.numpy()
    x.add_(1)
    total = float(array.sum())
    y = x * 2
    array[1] = 5
    return total, y, x * 1


@program(lambda: torch.from_numpy(np.ones(4, np.float32)))
def writes_to_an_array(x):
    array = x.numpy()
    x[1:].mul_(2)
    return float(array.sum())


@program(R(4))
def default_device(x):
    y = x + 1
    with torch.device("meta"):
        torch.ones(4) + 1
    return y + 1, torch.ones(2)


@pytest.mark.parametrize(("function", "make"), PROGRAMS, ids=[f.__name__ for f, _ in PROGRAMS])
def test_gives_what_it_gives_uncompiled(function, make) -> None:
    warnings.simplefilter("ignore")
    torch.manual_seed(1)
    args = [m() for m in make]
    wanted = state(function(*args)), state(args)
    compiled = torch.compile(function, backend=CompileCounter())
    for _ in range(2):
        torch.manual_seed(1)
        args = [m() for m in make]
        assert (state(compiled(*args)), state(args)) == wanted


def test_calls_after_the_engine_are_under_the_grad_mode_of_their_own() -> None:
    def rows(x):
        y = x**2
        return [torch.autograd.grad(y[i], x, retain_graph=True)[0] for i in range(2)]

    x = torch.tensor([1.0, 2.0], requires_grad=True)
    assert torch.stack(torch.compile(rows, backend="aot_eager")(x)).tolist() == [[2.0, 0.0], [0.0, 4.0]]


def test_the_default_device_is_left_as_it_is() -> None:
    torch.compile(default_device, backend="eager")(torch.ones(4))
    assert torch.get_default_device().type == "cpu"


def test_complex_numbers_keep_the_signs_of_zeros() -> None:
    compiled = torch.compile(lambda x, k: x * k, backend="eager")
    x = torch.ones(1, dtype=torch.complex64)
    for k in (complex(0.0, 0.0), complex(0.0, -0.0), -2j, complex(float("inf"), 1.0)):
        assert repr(compiled(x, k).tolist()) == repr((x * k).tolist())


def test_numbers_that_are_none_are_one_graph() -> None:
    backend = CompileCounter()
    compiled = torch.compile(lambda x, k: x * k, backend=backend)
    for _ in range(3):
        compiled(torch.ones(1), float("nan"))
    assert backend.frame_count == 1


def test_a_call_keeps_nothing_alive() -> None:
    x = torch.ones(3)
    gone = weakref.ref(x)
    torch.compile(lambda x: x + 1, backend="eager")(x)
    del x
    gc.collect()
    assert gone() is None
