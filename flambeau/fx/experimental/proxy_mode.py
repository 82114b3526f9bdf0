"""What make_fx records with: which tensors are known, by which proxies, and the mode that is handed every operator.

Stands on fx's tracer and utils._python_dispatch; used by proxy_tensor.
"""

from __future__ import annotations

import contextlib
import functools
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import flambeau as torch
import flambeau.utils._pytree as pytree
from flambeau._subclasses.symbolic.run import run
from flambeau._subclasses.symbolic.state import env_of
from flambeau.base.symbolic.numbers import is_symbolic_number
from flambeau.core.modes.modes import local
from flambeau.core.tensor.storage import begin_epoch, root
from flambeau.fx import traceback as fx_traceback
from flambeau.fx._symbolic_trace import Tracer
from flambeau.fx.experimental.unbacked_bindings import bindings_of
from flambeau.fx.interpreter import Interpreter
from flambeau.fx.node import Argument
from flambeau.fx.passes.shape_prop import _extract_tensor_metadata
from flambeau.fx.proxy import Proxy
from flambeau.nn import Module, Parameter
from flambeau.utils._python_dispatch import TorchDispatchMode
from flambeau.utils.selective_checkpoint import CheckpointPolicy

__all__ = [
    "CONSTANT_NUMEL_LIMIT",
    "ProxyTorchDispatchMode",
    "PythonKeyTracer",
    "track_tensor",
    "track_tensor_tree",
    "without_modes",
]

aten = torch.ops.aten
CONSTANT_NUMEL_LIMIT = 1


class _Tracked:
    """What is known of a tensor: its proxy, and its value if that doesn't depend on the inputs."""

    __slots__ = ("constant", "memory", "proxy", "reference")

    def __init__(self, tensor: torch.Tensor, proxy: Proxy, constant: torch.Tensor | None) -> None:
        self.reference, self.proxy, self.constant = weakref.ref(tensor), proxy, constant
        self.memory = weakref.ref(tensor._storage)


class TensorTracker:
    """The tensors that a graph's nodes stand for: all that were made since this tracker was, and the inputs.

    `tracked(tensor)` raises NotImplementedError for one that an unrecorded function has made or written to meanwhile: in the
    graph it would be the constant that it happened to be.
    """

    gives_proxies = False  # programs have the tensors

    def __init__(self) -> None:
        self.tensor_tracker: dict[int, _Tracked] = {}
        self.memory_tracker: dict[tuple[int, int, int], _Tracked] = {}
        self._memory: dict[int, tuple[Any, int]] = {}  # of what is tracked: how often it was written to
        self._inputs: list[Any] = []  # storages
        self._epoch = begin_epoch()

    def track(self, tensor: torch.Tensor, known: _Tracked) -> None:
        """Remember what is known of a tensor."""
        self.tensor_tracker[id(tensor)] = self.memory_tracker[_place(tensor)] = known
        if known.proxy.node.op == "placeholder":
            self._inputs.append(tensor._storage)
        self.written(tensor)

    def written(self, tensor: torch.Tensor) -> None:
        """What was written to a tensor until now is recorded."""
        storage = tensor._storage
        self._memory[id(storage)] = weakref.ref(storage), storage.writes

    def tracked(self, tensor: Any) -> _Tracked | None:
        """What is known of a tensor, or of the last one with its very memory and layout; None for one from outside."""
        storage: Any = tensor._storage
        reference, writes = self._memory.get(id(storage), (None, 0))
        if reference is not None and reference() is storage and writes != storage.writes:
            raise NotImplementedError(_UNRECORDED.format(tuple(tensor.shape), "written to"))
        found = self.known(tensor)
        if found is None and (storage.epoch >= self._epoch or self._shows_input(storage)):
            raise NotImplementedError(_UNRECORDED.format(tuple(tensor.shape), "made"))
        return found

    def _shows_input(self, storage: Any) -> bool:
        whole = root(storage)
        return any(root(x) is whole for x in self._inputs)

    def known(self, tensor: Any) -> _Tracked | None:
        """What is known of a tensor, whatever it is."""
        found = self.tensor_tracker.get(id(tensor))
        if found is not None and found.reference() is tensor:
            return found
        outside = isinstance(tensor, Parameter) and tensor._storage.epoch < self._epoch
        found = None if outside else self.memory_tracker.get(_place(tensor))
        return found if found is not None and found.memory() is tensor._storage else None

    def lift(self, tensor: torch.Tensor) -> None:
        """Take a tensor that was made of numbers meanwhile for a constant."""
        if self.known(tensor) is None:
            tensor._storage.epoch = 0

    def unwrap_proxy(self, e: Any) -> Any:
        """The proxy of a tensor that is tracked; anything else as it is."""
        found = self.tracked(e) if isinstance(e, torch.Tensor) else None
        return e if found is None else found.proxy


_UNRECORDED = (
    "a tensor of shape {} was {} while make_fx recorded, by a function that flambeau doesn't record: its value would be a "
    "constant of the graph. Make it before and close over it, or write it by other operators"
)


def _place(tensor: torch.Tensor) -> tuple[int, int, int]:
    """What tells a tensor's values: saved operands and results with a place in the graph are tensors of their own."""
    return id(tensor._storage), tensor._offset, id(tensor._layout)


class PythonKeyTracer(TensorTracker, Tracer):
    """The tracer of make_fx: every module is gone into, and parameters from outside become attributes `_param_constant<n>`."""

    def __init__(self) -> None:
        Tracer.__init__(self, autowrap_modules=())
        TensorTracker.__init__(self)

    def call_module(self, m: Module, forward: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """forward(*args, **kwargs)."""
        return forward(*args, **kwargs)

    def getattr(self, attr: str, attr_val: Any, parameter_proxy_cache: dict[str, Any]) -> Any:
        """The attribute itself."""
        return attr_val

    def create_arg(self, a: Any) -> Argument:
        """A value as a node's argument."""
        if isinstance(a, Parameter):
            for name, parameter in self.root.named_parameters():
                if a is parameter:
                    return self.create_node("get_attr", name, (), {})
            name = self.get_fresh_qualname("_param_constant")
            setattr(self.root, name, a)
            return self.create_node("get_attr", name, (), {})
        return super().create_arg(a)


def track_tensor(tensor: torch.Tensor, proxy: Proxy, *, constant: torch.Tensor | None, tracer: TensorTracker) -> None:
    """Let a proxy stand for a tensor from now on."""
    tracer.track(tensor, _Tracked(tensor, proxy, constant))


def track_tensor_tree(inner_res: Any, proxy_res: Any, *, constant: Any, tracer: TensorTracker) -> Any:
    """Track the tensors of a result, which may be a tuple or list of them; returns it."""
    if isinstance(inner_res, torch.Tensor):
        track_tensor(inner_res, proxy_res, constant=constant, tracer=tracer)
        _set_meta(proxy_res, inner_res)
    elif isinstance(inner_res, (tuple, list)):
        if isinstance(proxy_res, Proxy):
            _set_meta(proxy_res, inner_res)
        for i, item in enumerate(inner_res):
            if isinstance(item, torch.Tensor):
                known = constant[i] if constant is not None else None
                track_tensor_tree(item, proxy_res[i], constant=known, tracer=tracer)
    elif isinstance(inner_res, dict):
        for key, item in inner_res.items():
            track_tensor_tree(item, proxy_res[key], constant=None, tracer=tracer)
    return inner_res


def _set_meta(proxy: Proxy, value: Any) -> None:
    meta = proxy.node.meta
    meta["val"] = pytree.tree_map(_without_memory, value)
    if isinstance(value, torch.Tensor):
        meta["tensor_meta"] = _extract_tensor_metadata(value)


def _without_memory(value: Any) -> Any:
    """A tensor that says what another is, and keeps nothing of it alive."""
    if not isinstance(value, torch.Tensor):
        return value
    from flambeau._subclasses.fake_tensor import FakeTensor
    from flambeau._subclasses.symbolic.state import kept, plain_sizes

    with without_modes(), plain_sizes():
        if not isinstance(value, FakeTensor):
            return _describing().from_tensor(value.detach())
        made = value.detach()
        if kept(value) is not None:
            made.__dict__["_symbolic"] = value.__dict__["_symbolic"]
        return made


@functools.cache
def _describing() -> Any:
    from flambeau._subclasses.fake_tensor import FakeTensorMode

    return FakeTensorMode(allow_fallback_kernels=True)


@contextlib.contextmanager
def without_modes() -> Iterator[None]:
    """Without the modes of this thread."""
    before, local.dispatch_modes = local.dispatch_modes, []
    try:
        yield
    finally:
        local.dispatch_modes = before


#: What asks a tensor for its sizes.
_READING: dict[Any, Callable[..., Any]] = {
    aten.sym_size.int: lambda x, dim: x.size(dim),
    aten.sym_stride.int: lambda x, dim: x.stride(dim),
    aten.sym_storage_offset.default: lambda x: x.storage_offset(),
    aten.sym_numel.default: lambda x: x.numel(),
}


class ProxyTorchDispatchMode(TorchDispatchMode):
    """Records every operator: `with ProxyTorchDispatchMode(tracer, "real"):`."""

    def __init__(
        self,
        tracer: PythonKeyTracer,
        tracing_mode: str,
        pre_dispatch: bool = False,
        _allow_fake_constant: bool = False,
        _error_on_data_dependent_ops: bool = True,
    ) -> None:
        super().__init__()
        self.tracer, self.tracing_mode = tracer, tracing_mode
        self.enable_tracing = True
        self.pre_dispatch = pre_dispatch
        self._error_on_data_dependent_ops = _error_on_data_dependent_ops
        self.decomposition_table: Mapping[Any, Callable[..., Any]] = {}
        self.random_state_was_set = False
        self.sizes: Any = None  # the SizeNodes of a trace whose sizes have symbols

    @classmethod
    def is_infra_mode(cls) -> bool:
        """True."""
        return True

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if not self.enable_tracing or func is torch.ops.prim.device.default:
            return func(*args, **kwargs)
        if self.random_state_was_set and torch.Tag.nondeterministic_seeded in func.tags:
            raise NotImplementedError(
                f"{func} after the state of a random stream was set, as checkpoints do before they compute again, is "
                f"not implemented in "
                "flambeau while make_fx records: the graph would draw other numbers. Set the state before, or draw outside"
            )
        rule = self.decomposition_table.get(func)
        if rule is not None:
            with self:
                made = rule(*args, **kwargs)
            if made is not NotImplemented:
                return made
        return self._record(func, args, kwargs)

    def run_to_recompute(self, module: Any, args: Sequence[Any]) -> Any:
        """What a GraphModule gives; nodes say that backward passes are rather to compute their values again than to save them."""
        for node in module.graph.nodes:
            if node.op not in ("placeholder", "output"):
                node.meta["recompute"] = CheckpointPolicy.PREFER_RECOMPUTE
        with fx_traceback.preserve_node_meta():
            return Interpreter(module).run(*args)

    def _reseeded(self) -> None:
        """What is drawn from here on would be other numbers in the graph."""
        self.random_state_was_set = True

    def _record(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if self.sizes is not None:
            return self._record_symbolic(func, args, kwargs)
        tracer = self.tracer
        if func is aten.lift_fresh.default:
            tracer.lift(args[0])
        tensors = [x for x in pytree.tree_leaves((args, kwargs)) if isinstance(x, torch.Tensor)]
        known = [tracer.tracked(x) for x in tensors]
        if func is aten._local_scalar_dense.default and any(t is not None for t in known):
            return self._number(func, known[0])
        if func is aten.lift_fresh.default:
            func = aten.lift_fresh_copy.default
        given, named = pytree.tree_map(tracer.unwrap_proxy, (args, kwargs))
        name = func.overloadpacket.__name__
        constant = self._constant(func, args, kwargs, known, tensors)
        proxy = tracer.create_proxy("call_function", func, given, named, name=tracer.graph._target_to_str(name))
        out = func(*args, **kwargs)
        if torch.Tag.dynamic_output_shape in func.tags and (env := env_of([out])) is not None:
            proxy.node.meta["unbacked_bindings"] = bindings_of(out, env.unbacked)
        for x in tensors:
            tracer.written(x)
        if name.endswith("_") and not name.endswith("__") and isinstance(args[0], torch.Tensor):
            track_tensor(args[0], proxy, constant=None, tracer=tracer)
        return track_tensor_tree(out, proxy, constant=constant, tracer=tracer)

    def _record_symbolic(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The same where sizes, and numbers that only a run tells, are nodes."""
        if func is aten.lift_fresh.default:
            self.tracer.lift(args[0])
            func = aten.lift_fresh_copy.default
        if func in _READING:
            return _READING[func](*args)
        given, named = pytree.tree_map(self.proxy_of, (args, kwargs))
        name = self.tracer.graph._target_to_str(func.overloadpacket.__name__)
        proxy = self.tracer.create_proxy("call_function", func, given, named, name=name)
        known = len(self.sizes.env.unbacked)
        made = run(func, args, kwargs, self.sizes.env)
        fresh = list(self.sizes.env.unbacked)[known:]
        if fresh:
            proxy.node.meta["unbacked_bindings"] = {**dict.fromkeys(fresh, ()), **bindings_of(made, fresh)}
        for x in pytree.tree_leaves((args, kwargs)):
            if isinstance(x, torch.Tensor):
                self.tracer.written(x)
        if name.endswith("_") and not name.endswith("__") and isinstance(args[0], torch.Tensor):
            track_tensor(args[0], proxy, constant=None, tracer=self.tracer)
        return self.track(made, proxy)

    def proxy_of(self, x: Any) -> Any:
        """The proxy of a tensor that is tracked, or of a symbolic number; anything else as it is."""
        if self.sizes is not None and is_symbolic_number(x):
            return self.sizes.proxy(x)
        return self.tracer.unwrap_proxy(x)

    def track(self, made: Any, proxy: Proxy) -> Any:
        """Let a proxy stand for a tensor whose sizes may have symbols, a symbolic number, or several of them in a list."""
        if is_symbolic_number(made):
            self.sizes.of_number(made, proxy)
            return made
        track_tensor_tree(made, proxy, constant=None, tracer=self.tracer)
        for x in pytree.tree_leaves(made):
            found = self.tracer.tracked(x) if isinstance(x, torch.Tensor) else None
            if found is not None:
                self.sizes.of_tensor(x, found.proxy)
        return made

    def _stand_for(self, made: Any, tensor: Any) -> None:
        """Let the proxy of a tensor stand for another one that has its values."""
        found = self.tracer.known(tensor)
        if found is None:
            self.tracer.lift(made)
        else:
            track_tensor(made, found.proxy, constant=found.constant, tracer=self.tracer)

    def _counted(self, tensor: Any) -> None:
        """A write was counted that is recorded."""
        if id(tensor._storage) in self.tracer._memory:
            self.tracer.written(tensor)

    def _reads(self, name: str, tensors: list[Any]) -> None:
        """RuntimeError where a program asks for the values of tensors that depend on the inputs."""
        known = [self.tracer.tracked(x) for x in tensors] if self.enable_tracing else []
        if any(t is not None and t.constant is None for t in known):
            asked = getattr(aten, name).default if name in ("equal", "allclose") else aten._local_scalar_dense.default
            self._number(asked, None)

    def _number(self, func: Any, known: _Tracked | None) -> Any:
        if known is not None and known.constant is not None:
            return func(known.constant)
        if not self._error_on_data_dependent_ops:
            raise NotImplementedError("make_fx without _error_on_data_dependent_ops is not implemented: numbers are constants")
        raise RuntimeError(
            f"It appears that you're trying to get value out of a tracing tensor with {func} - erroring out! It's likely that "
            "this is caused by data-dependent control flow or similar.  It may be possible to trace this with dynamic shapes; "
            "try setting tracing_mode='symbolic' in your make_fx call."
        )

    def _constant(self, func: Any, args: Any, kwargs: Any, known: list[Any], tensors: list[torch.Tensor]) -> Any:
        """The value of a call that depends on no input, where it is a number; None otherwise."""
        if func is aten.lift_fresh_copy.default and known[0] is None and tensors[0].numel() <= CONSTANT_NUMEL_LIMIT:
            return tensors[0].clone()
        if not known or any(t is None or t.constant is None for t in known) or torch.Tag.nondeterministic_seeded in func.tags:
            return None
        if func._schema.is_mutable:
            return None
        values = {id(x): t.constant for x, t in zip(tensors, known)}
        given, named = pytree.tree_map(lambda x: values.get(id(x), x), (args, kwargs))
        made = func(*given, **named)
        small = all(x.numel() <= CONSTANT_NUMEL_LIMIT for x in pytree.tree_leaves(made) if isinstance(x, torch.Tensor))
        return made if small and isinstance(made, (torch.Tensor, tuple, list)) else None
