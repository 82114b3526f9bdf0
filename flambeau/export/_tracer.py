"""The tracer of torch.export: runs a module on fake tensors, and records the operators of aten that it calls.

The graph is PyTorch's training IR: operators as they are called, before any is taken apart, writes left in place. Stands on
make_fx's tracer (fx.experimental.proxy_mode), on fake tensors, and on `_operators`, the rules of public calls; used by `_export`.
"""

from __future__ import annotations

import functools
import re
import traceback
from collections.abc import Callable
from types import FunctionType
from typing import Any

import flambeau as torch
import flambeau.nn.functional as F
import flambeau.utils._pytree as pytree
from flambeau._subclasses.fake_tensor import DataDependentOutputException, FakeTensor, FakeTensorMode
from flambeau._subclasses.symbolic.real_tensors import attach
from flambeau._subclasses.symbolic.run import run
from flambeau.base import device as devices
from flambeau.base.symbolic.numbers import is_symbolic_number
from flambeau.core.modes import modes
from flambeau.core.operator.methods import METHODS as SAME
from flambeau.core.tensor.fakes import is_fake, known_value
from flambeau.dispatcher import builtin_schemas, calling, dispatch_modes, public_names
from flambeau.dispatcher.overloads import OpOverload
from flambeau.export._control_flow import ControlFlow
from flambeau.export._functional import RULES
from flambeau.export._operators import BODY, FUNCTIONS, METHODS
from flambeau.export._regions import Regions
from flambeau.fx.experimental.proxy_mode import PythonKeyTracer, track_tensor, track_tensor_tree
from flambeau.fx.experimental.size_nodes import SizeNodes
from flambeau.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode
from flambeau.fx.experimental.unbacked_bindings import bindings_of
from flambeau.fx.graph import Graph
from flambeau.fx.proxy import Proxy
from flambeau.nn import Module

__all__ = ["ADVICE", "ExportMode"]

ADVICE = (
    "\n\nThe error above occurred when calling torch.export.export. If you would like to view some more information about this "
    "error, and get a list of all other errors that may occur in your export call, you can replace your `export()` call with "
    "`draft_export()`."
)
_aten = torch.ops.aten


@functools.cache
def _names_of(function: FunctionType) -> tuple[str, ...]:
    """The public names of a function: those in torch.nn.functional as they are, those of Tensor's methods behind a dot."""
    found = [name for name, f in vars(F).items() if f is function and not name.startswith("_")]
    found += ["." + name for name, f in vars(torch.Tensor).items() if f is function]
    return (*found, function.__name__)


@functools.cache
def _rule_of(function: FunctionType) -> Callable[..., Any] | None:
    for room, rules in ((F, RULES), (torch.Tensor, METHODS), (torch, FUNCTIONS)):
        for name, rule in rules.items():
            if (getattr(torch, name, None) if room is torch else vars(room).get(name)) is function:  # some load when asked for
                return rule
    return _rule_of(SAME[function]) if function in SAME else None


@functools.cache
def _operator_of(function: FunctionType) -> str:
    """The name of the operator that PyTorch calls for a public function; "" for one whose body is to be read."""
    own = dispatch_modes.graph_operator(function)
    if own is not None:
        return own
    names = _names_of(function)
    if not BODY.isdisjoint(names[:-1]):
        return ""
    for name in [name.lstrip(".") for name in names]:
        known = public_names.NAMES.get(name, name)
        if builtin_schemas.overloads_of(f"aten::{known}"):
            return known
    return dispatch_modes.name_of(function)


def _belongs_into_graphs(overload: OpOverload) -> bool:
    """Whether an operator makes or writes tensors; others say what a tensor is."""
    return overload._schema.is_mutable or any("Tensor" in str(r.type) for r in overload._schema.returns)


class _Without:
    """Context: what is called belongs to the modes outside of the innermost one."""

    def __enter__(self) -> None:
        self.mode = modes.local.dispatch_modes.pop()

    def __exit__(self, *exception: object) -> None:
        modes.local.dispatch_modes.append(self.mode)


class _Tracer(PythonKeyTracer):
    """make_fx's, whose nodes know where the program calls."""

    def __init__(self, mode: ExportMode) -> None:
        super().__init__()
        self.mode = mode

    def tracked(self, tensor: Any) -> Any:
        """What is known of a tensor; `ExportMode._proxy` says what others are."""
        return self.known(tensor)

    def create_node(self, kind: str, *args: Any, **kwargs: Any) -> Any:
        """A node."""
        node = super().create_node(kind, *args, **kwargs)
        if kind == "call_function":
            node.meta.update(self.mode.origin())
        return node


class ExportMode(dispatch_modes.DispatchMode):
    """Records what a module calls while it is on, inside a fake tensor mode.

    graph: to be filled; `input(name, value)` makes its placeholders, `node_of(value)` gives the node of a result. constants: by
    placeholder, the tensors that the module had besides parameters and buffers, and their names.
    """

    def __init__(self, module: Module, fake_mode: FakeTensorMode) -> None:
        self.module, self.fake_mode = module, fake_mode
        self.new_graph()
        self.sizes = SizeNodes(self.tracer, fake_mode.shape_env, eager=True)
        self._control_flow = ControlFlow(self)
        self.submodules: dict[str, Module] = {}  # the graphs of functions that operators call
        #: Asked for tensors of the graph around this one.
        self.enclosing: Callable[[torch.Tensor], tuple[Proxy, torch.Tensor]] | None = None
        self.constants: dict[str, tuple[str, torch.Tensor]] = {}
        self.buffers: dict[str, torch.Tensor] = {}
        self.first_input: Any = None
        self.module_stack: list[tuple[str, tuple[str, str]]] = []
        self.read_only: dict[int, torch.Tensor] = {}  # by the address of their storages
        self._kept: list[Any] = []  # tracked by address, so they must live

    def new_graph(self) -> None:
        """Record into a graph of its own from now on."""
        self.tracer = _Tracer(self)
        self.tracer.graph = self.graph = Graph()
        self.regions = Regions(self.tracer)

    # ---- inputs and results

    def input(self, name: str, value: Any) -> Proxy:
        """The placeholder of a fake tensor, or of a constant."""
        name = re.sub(r"[^a-zA-Z0-9]", "_", name).lower()
        proxy = self.tracer.create_proxy("placeholder", name, (), {}, name=name)
        node = proxy.node
        if node.name != name and all(n.name != name for n in self.graph.nodes):
            node.name = name  # names of Python's own are kept for inputs
        node.target = node.name
        if isinstance(value, torch.Tensor):
            self._track(value, proxy)
            if isinstance(value, FakeTensor) and value.real_tensor is not None:
                attach(proxy.node.meta["val"], value.real_tensor)
        elif is_symbolic_number(value):
            self.sizes.of_number(value, proxy)
        else:
            proxy.node.meta["val"] = value
        return proxy

    def node_of(self, value: Any) -> Any:
        """The node that makes a tensor or a symbolic number; the number where no symbol is left in one. NotImplementedError if it
        was made by something that isn't recorded.
        """
        if is_symbolic_number(value):
            return getattr(self.sizes.proxy(value), "node", self.sizes.proxy(value))
        return self._proxy(value)[0].node

    def _track(self, value: Any, proxy: Proxy) -> None:
        self._kept.append(value)
        if is_symbolic_number(value):
            self.sizes.of_number(value, proxy)
            return
        track_tensor_tree(value, proxy, constant=None, tracer=self.tracer)
        for i, x in enumerate(value if isinstance(value, (list, tuple)) else [value]):
            if is_symbolic_number(x):
                self.sizes.of_number(x, proxy[i])
            found = self.tracer.tracked(x) if isinstance(x, torch.Tensor) else None
            if found is not None:
                self.sizes.of_tensor(x, found.proxy)

    def _proxy(self, tensor: torch.Tensor) -> tuple[Proxy, torch.Tensor]:
        """The proxy of a tensor, and the fake tensor that it stands for."""
        found = self.tracer.tracked(tensor)
        if found is not None:
            return found.proxy, tensor
        if self.enclosing is not None:
            return self.enclosing(tensor)
        if isinstance(tensor, FakeTensor):
            raise NotImplementedError(
                f"torch.export: a tensor of shape {tuple(tensor.shape)} was made by a function that is not implemented in "
                "flambeau as an operator of a graph; write it by other operators"
            )
        fake = self.fake_mode.from_tensor(tensor)
        found = self.tracer.tracked(fake)
        return (self.constant(tensor, fake) if found is None else found.proxy), fake

    def constant(self, tensor: torch.Tensor, fake: Any) -> Proxy:
        """The placeholder of a tensor that is neither an input nor a parameter or buffer."""
        lifted = sum(name.startswith("lifted_tensor_") for name, _ in self.constants.values())
        name = self._attribute(tensor) or f"lifted_tensor_{lifted}"
        with self.graph.inserting_before(self.first_input):
            proxy = self.input(f"c_{name.replace('.', '_')}", fake)
        self.constants[proxy.node.name] = name, tensor
        return proxy

    def _attribute(self, tensor: torch.Tensor) -> str:
        for path, module in self.module.named_modules():
            for name, value in vars(module).items():
                if value is tensor:
                    return f"{path}.{name}" if path else name
        return ""

    # ---- calls

    def _switched_grad(self, enabled: bool) -> None:
        """Gradients are on, or off, from here."""
        self.regions.switched_grad(enabled)

    def _switched_autocast(self, block: Any) -> None:
        """A block of autocast begins, or with None the innermost one ends."""
        self.regions.switched_autocast(block)

    def _before_composites(self, function: FunctionType, own: Callable[..., Any], args: Any, kwargs: dict[str, Any]) -> Any:
        """What a call of a public function gives."""
        if kwargs.get("out") is not None:
            raise NotImplementedError("torch.export: out= is not implemented in flambeau; use the result")
        if dispatch_modes.transformed(args, kwargs):
            return own(*args, **kwargs)  # what its rule calls comes here again
        rule = _rule_of(function)
        if rule is not None:
            made = rule(self.op, *args, **kwargs)
            if made is not NotImplemented:
                return made
            return own(*args, **kwargs)
        name = _operator_of(function)
        found = dispatch_modes.resolve(name, args, kwargs) if name else None
        if found is None:
            declared = getattr(function, "operator", None)
            if declared is not None and not getattr(declared, "composite", False):
                raise NotImplementedError(
                    f"torch.export: {function.__name__} with these arguments is not implemented in flambeau as an operator of a "
                    "graph; write it by other operators"
                )
            return own(*args, **kwargs)
        if not _belongs_into_graphs(found[0]) and not (function.__name__ == "item" and self._unknown(args[0])):
            return self._number(function, args, kwargs)
        made = self.record(*found)
        return dispatch_modes.as_public(name, made)

    def _unknown(self, tensor: Any) -> bool:
        """Whether only a run tells the value of a tensor."""
        return is_fake(tensor._layout) and known_value(tensor) is None and not tensor.dtype.is_complex

    def _called(self, overload: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """What one of PyTorch's operators gives that the program calls by its overload."""
        return self.record(overload, args, kwargs)

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None) -> Any:
        """What an operator gives that the program has defined."""
        modes.local.dispatch_modes.append(self)  # from where it was taken while it answers
        before, modes.local.grad = modes.local.grad, self.regions.grad
        try:
            return self.record(func, args, kwargs or {})
        finally:
            modes.local.grad = before
            modes.local.dispatch_modes.pop()

    def _number(self, function: FunctionType, args: Any, kwargs: dict[str, Any]) -> Any:
        """What a function gives that makes no tensor: sizes are numbers, values aren't there."""
        try:
            with _Without():
                return function(*args, **kwargs)
        except DataDependentOutputException:
            if function.__name__ != "item":
                raise
            raise NotImplementedError(
                "torch.export: Tensor.item() of a tensor that depends on the inputs is not implemented in flambeau; keep the "
                "tensor"
            ) from None

    def op(self, name: str, *args: Any, **kwargs: Any) -> Any:
        """Record an operator by its name, or that with an overload; `op("lift", torch.tensor, ...)` makes a constant."""
        if name == "lift":
            return self._lifted(*args, **kwargs)
        if name == "size":  # read by PyTorch's indexing, which takes a name in the graph
            return self.sizes.proxy(args[0].shape[args[1]])
        if name == "_assert_tensor_metadata":  # PyTorch names its arguments, also those that could go without
            return self.record(_aten._assert_tensor_metadata.default, args, kwargs)
        packet, _, overload_name = name.partition(".")
        if overload_name:
            overload = getattr(getattr(_aten, packet), overload_name)
            values = calling.bind(overload._schema, args, kwargs, numbers=True)
            return self.record(overload, *calling.split(overload._schema, values))
        found = dispatch_modes.resolve(name, args, kwargs)
        if found is None:
            raise NotImplementedError(
                f"torch.export: {name} with these arguments is not implemented in flambeau as an operator of a graph; write it "
                "by other operators"
            )
        return self.record(*found)

    def _lifted(self, make: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        with _Without():
            before = devices.use_stand_ins(None)
            try:
                made = make(*args, **kwargs)
            finally:
                devices.use_stand_ins(before)
            fake = self.fake_mode.lifted(made)
        if self.tracer.tracked(fake) is None:
            self.constant(made, fake)
        return self.record(_aten.lift_fresh_copy.default, (fake,), {})

    def record(self, overload: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The results of an operator, and its node."""
        kwargs = _as_bound(overload, args, kwargs)
        fakes: dict[int, torch.Tensor] = {}

        def proxy_of(x: Any) -> Any:
            if is_symbolic_number(x):
                return self.sizes.proxy(x)
            if not isinstance(x, torch.Tensor):
                return x
            proxy, fakes[id(x)] = self._proxy(x)
            return proxy

        given, named = pytree.tree_map(proxy_of, (args, kwargs))
        if self.read_only and overload._schema.is_mutable:
            self._check_written(overload, fakes)
        values, keywords = pytree.tree_map(lambda x: fakes.get(id(x), x) if isinstance(x, torch.Tensor) else x, (args, kwargs))
        name = overload.overloadpacket.__name__
        shown = name + "_default" if name == "_assert_tensor_metadata" else name
        proxy = self.tracer.create_proxy("call_function", overload, given, named, name=self.graph._target_to_str(shown))
        with _Without(), self.sizes.silent():  # what an operator's fake computes of sizes is in no graph
            known = len(self.fake_mode.shape_env.unbacked)
            made = run(overload, values, keywords, self.fake_mode.shape_env)
            fresh = list(self.fake_mode.shape_env.unbacked)[known:]
        if fresh:
            proxy.node.meta["unbacked_bindings"] = {**dict.fromkeys(fresh, ()), **bindings_of(made, fresh)}
        if name.endswith("_") and not name.endswith("__") and isinstance(values[0], torch.Tensor):
            track_tensor(values[0], proxy, constant=None, tracer=self.tracer)
        self._track(made, proxy)
        return made

    def _check_written(self, overload: OpOverload, tensors: dict[int, torch.Tensor]) -> None:
        if any(id(x._storage) in self.read_only for x in tensors.values()):
            raise NotImplementedError(
                f"torch.export: {overload} after a branch that gives back a tensor that it didn't make is not implemented in "
                "flambeau; write the program without writes"
            )

    def origin(self) -> dict[str, Any]:
        """Where the program calls: the frames that are called forward, and the modules."""
        found = {"nn_module_stack": dict(self.module_stack)}
        frames = [f for f in traceback.walk_stack(None) if f[0].f_code.co_name == "forward"]
        text = "".join(traceback.StackSummary.extract(reversed(frames)).format()).strip()  # type: ignore[arg-type]
        return {**found, "stack_trace": text} if text else found


def _as_bound(overload: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """The keywords as PyTorch's bindings hand them on: those of factories name the device, and that memory isn't pinned."""
    names = {a.name for a in overload._schema.arguments}
    if not {"pin_memory", "device", "layout"} <= names or overload.overloadpacket.__name__ == "to":
        return kwargs
    made = {n: kwargs[n] for n in ("dtype", "layout") if kwargs.get(n) is not None}
    if not any(isinstance(x, torch.Tensor) for x in args) or kwargs.get("device") is not None:
        made["device"] = torch.device(kwargs.get("device") or "cpu")
    made["pin_memory"] = False
    given = {**{n: x for n, x in kwargs.items() if n != "device"}, **made}
    return {n: given[n] for n in sorted(given, key=[a.name for a in overload._schema.arguments].index)}


def guard_error(error: BaseException) -> GuardOnDataDependentSymNode:
    """The error of a program that goes where a value sends it; `error` came from asking for the value."""
    found = [f for f in traceback.walk_tb(error.__traceback__) if f[0].f_code.co_name == "forward"][-1:]
    where = "".join(traceback.StackSummary.extract(found).format()).rstrip()  # type: ignore[arg-type]
    caused = "".join(f"Caused by: ({frame.f_code.co_filename}:{line} in forward)\n" for frame, line in found)
    return GuardOnDataDependentSymNode(
        None,
        "Could not guard on data-dependent expression Eq(u0, 1) (unhinted: Eq(u0, 1)).  (Size-like symbols: none)\n\n"
        "consider using data-dependent friendly APIs such as guard_or_false, guard_or_true and statically_known_true.\n"
        f"{caused}\nThe following call raised this error:\n{where}\n\n{ADVICE}",
    )
