"""torch.export.export: from a module and example inputs to an ExportedProgram. Stands on `_tracer`; used by the room's face."""

from __future__ import annotations

import contextlib
import inspect
import warnings
from collections.abc import Iterator
from typing import Any

import flambeau as torch
import flambeau.utils._pytree as pytree
from flambeau._dynamo.exc import UserError, UserErrorType
from flambeau._subclasses.fake_tensor import DataDependentOutputException, DynamicOutputShapeException, FakeTensor, FakeTensorMode
from flambeau._subclasses.symbolic.state import describe
from flambeau.base.symbolic.numbers import is_symbolic_number
from flambeau.core.modes.modes import local
from flambeau.export import _tracer
from flambeau.export import dynamic_shapes as dynamic_inputs
from flambeau.export._builtins import symbolic_builtins
from flambeau.export._constraints import Dimension, check_constraints, fake_sizes, range_constraints
from flambeau.export._module_calls import ModuleCalls
from flambeau.export._runtime_asserts import settle_sizes
from flambeau.export.dims import _DimHint, _DimHintType
from flambeau.export.exported_program import ExportedProgram, ModuleCallSignature
from flambeau.export.graph_signature import (
    ConstantArgument,
    ExportGraphSignature,
    InputKind,
    InputSpec,
    OutputKind,
    OutputSpec,
    SymBoolArgument,
    SymFloatArgument,
    SymIntArgument,
    TensorArgument,
)
from flambeau.fx.experimental.shape_env import ShapeEnv, Source
from flambeau.fx.experimental.size_errors import ConstraintViolationError

__all__ = ["export", "export_module"]

_CONSTANTS = (int, float, bool, str, type(None), torch.dtype, torch.device, torch.layout, torch.memory_format)


def export(
    mod: torch.nn.Module,
    args: tuple[Any, ...],
    kwargs: dict[str, Any] | None = None,
    *,
    dynamic_shapes: Any = None,
    strict: bool = False,
    preserve_module_call_signature: tuple[str, ...] = (),
    prefer_deferred_runtime_asserts_over_guards: bool = False,
) -> ExportedProgram:
    """The forward of a module on tensors of the example inputs' shapes and dtypes, as a graph of aten's operators.

    args, kwargs: example inputs; tensors and constants in any pytree. dynamic_shapes: which dimensions have other sizes, too: by
    argument name, or in the structure of the arguments, for each tensor a dict or sequence of torch.export.Dim, hints
    (Dim.AUTO, Dim.DYNAMIC), ints and None; a ShapesCollection or AdditionalInputs. The module isn't changed. `strict` makes
    a difference to torch.compiler's questions alone: the module runs as Python. torch._dynamo.exc.UserError for args that
    aren't a tuple, for dynamic_shapes of another structure, and where the module needs more of a size than they say; ValueError
    for what is no module; torch.fx.experimental.symbolic_shapes.GuardOnDataDependentSymNode where a value decides what is run.
    NotImplementedError for functions that no operator of aten stands for.
    """
    if isinstance(mod, torch.jit.ScriptModule):
        raise ValueError(
            "Exporting a ScriptModule is not supported. Maybe try converting your ScriptModule to an ExportedProgram using "
            "`TS2EPConverter(mod, args, kwargs).convert()` instead."
        )
    return export_module(
        mod, args, kwargs, dynamic_shapes=dynamic_shapes, strict=strict,
        preserve_module_call_signature=preserve_module_call_signature,
        prefer_deferred_runtime_asserts_over_guards=prefer_deferred_runtime_asserts_over_guards,
    )  # fmt: skip


def export_module(
    mod: torch.nn.Module,
    args: tuple[Any, ...],
    kwargs: dict[str, Any] | None = None,
    *,
    dynamic_shapes: Any = None,
    strict: bool = False,
    preserve_module_call_signature: tuple[str, ...] = (),
    prefer_deferred_runtime_asserts_over_guards: bool = False,
) -> ExportedProgram:
    """`export`, of a scripted module as well."""
    kwargs = {} if kwargs is None else kwargs
    _check(mod, args, kwargs)
    said = dynamic_shapes.dynamic_shapes(mod, args, kwargs) if hasattr(dynamic_shapes, "dynamic_shapes") else dynamic_shapes
    specs = dynamic_inputs.specs_of(dynamic_inputs.combined_args(mod, args, kwargs), said)
    env = ShapeEnv(trace_asserts=True, prefer_deferred_runtime_asserts_over_guards=prefer_deferred_runtime_asserts_over_guards)
    fake_mode = _mode_of(mod, (args, kwargs), env)
    env = fake_mode.shape_env
    mode = _tracer.ExportMode(mod, fake_mode)
    inputs = _state_inputs(mod, mode)
    dimensions: list[Dimension] = []
    given = _fake_inputs(mod, args, kwargs, specs, fake_mode, dimensions)
    user, names = _user_inputs(mod, given, mode)
    calls = ModuleCalls(mod, mode, preserve_module_call_signature)
    with _on_fakes(mod, fake_mode), calls.followed(), calls.written_down(mod), mode.sizes, symbolic_builtins(), fake_mode, mode:
        made = _run(mod, given, "dynamo" if strict else "export")
        written = _written_buffers(mod, mode)
    leaves, out_spec = pytree.tree_flatten(made)
    with mode.sizes:
        results = _results(leaves, mode)
    for buffer, value in written:
        _write(mode, buffer, value)
    mode.graph.output(tuple(results))
    with _violations():
        left = check_constraints(env, dimensions)
    ranges = range_constraints(env, dimensions, bool(said))
    _tidy(mode, env)
    signature = _signature(mode, inputs, user)
    own = ModuleCallSignature([], [], pytree.tree_structure((args, kwargs)), out_spec, names)
    saved = mod.state_dict().keys()
    held = {name: x for name, x in mod.named_buffers(remove_duplicate=False) if name not in saved}
    return ExportedProgram(
        mode.submodules,
        mode.graph,
        signature,
        _state(mod, signature),
        ranges,
        calls.entries(own),
        (args, kwargs),
        {**held, **dict(mode.constants.values())},
        guards=left,
    )


def _mode_of(mod: torch.nn.Module, given: Any, env: ShapeEnv) -> FakeTensorMode:
    """The fake tensor mode to trace in: that of the inputs, or of the module's state, if they are fake; else one of its own."""
    tensors = [*pytree.tree_leaves(given), *mod.parameters(), *mod.buffers()]
    found = next((x.fake_mode for x in tensors if isinstance(x, FakeTensor)), None)
    if found is None:
        return FakeTensorMode(
            allow_fallback_kernels=False, allow_non_fake_inputs=True, export=True, shape_env=env, static_shapes=True
        )
    if found.shape_env is None:
        found.shape_env = env
    found.allow_non_fake_inputs = found.static_shapes = True
    return found  # type: ignore[no-any-return]


def _check(mod: Any, args: Any, kwargs: dict[str, Any]) -> None:
    """What is given can be exported: a module, and inputs that fit its forward, of types that a program has."""
    if not isinstance(mod, torch.nn.Module):
        raise ValueError(f"Expected `mod` to be an instance of `torch.nn.Module`, got {type(mod)}.")
    if not isinstance(args, tuple):
        raise UserError(
            UserErrorType.INVALID_INPUT,
            f"Expecting `args` to be a tuple of example positional inputs, got {type(args)}{_tracer.ADVICE}",
        )
    inspect.signature(mod.forward).bind(*args, **kwargs)
    for x in pytree.tree_leaves((args, kwargs)):
        if not isinstance(x, (torch.Tensor, *_CONSTANTS)):
            raise ValueError(
                f"Unsupported input type {type(x)}. Export only supports pytree containers of basic types (Tensor, int, float, "
                "...) as input. To register a custom dataclass, use torch.export.register_dataclass. To register a custom "
                "container type, use torch.utils._pytree.register_pytree_node. To register a constant input, use "
                "torch.utils._pytree.register_constant"
            )


def _run(mod: torch.nn.Module, given: Any, by: str) -> Any:
    """What the module gives for fake inputs, (args, kwargs), while a mode records it; by: what torch.compiler says it is."""
    before, local.exporting = local.exporting, by
    try:
        return mod(*given[0], **given[1])
    except DynamicOutputShapeException as error:
        raise NotImplementedError(
            f"torch.export: {error.func} gives as many elements as values say, which is not implemented in flambeau; use an "
            "operator whose result has a known shape"
        ) from None
    except DataDependentOutputException as error:
        raise _tracer.guard_error(error) from None
    finally:
        local.exporting = before


def _tidy(mode: _tracer.ExportMode, env: ShapeEnv) -> None:
    """The graph with sizes settled, without detached tensors that nothing uses, and with stretches in graphs of their own."""
    settle_sizes(mode.graph, env)
    _drop_unused_constants(mode)
    for node in mode.graph.find_nodes(op="call_function", target=torch.ops.aten.detach.default):
        if not node.users:
            mode.graph.erase_node(node)
    mode.regions.fold(mode.graph, mode.submodules)


def _drop_unused_constants(mode: _tracer.ExportMode) -> None:
    """Take out tensors that the program makes of numbers, and doesn't use."""
    copies = (torch.ops.aten.lift_fresh_copy.default, torch.ops.aten.detach_.default, torch.ops.aten.detach.default)
    for node in list(mode.graph.find_nodes(op="placeholder")):
        if node.name in mode.constants:
            chain = [node]
            while len(chain[-1].users) == 1 and (user := next(iter(chain[-1].users))).target in copies:
                chain.append(user)
            if not chain[-1].users:
                for each in reversed(chain):
                    mode.graph.erase_node(each)
                del mode.constants[node.name]


def _signature(mode: _tracer.ExportMode, inputs: list[InputSpec], user: list[InputSpec]) -> ExportGraphSignature:
    """What the graph's inputs and outputs are. inputs: those of the module's state; user: those of the example inputs."""
    outputs = [_output(x) for x in mode.graph.output_node().args[0]]
    constants = [InputSpec(InputKind.CONSTANT_TENSOR, TensorArgument(n), target) for n, (target, _) in mode.constants.items()]
    return ExportGraphSignature([*inputs, *constants, *user], outputs)


# ---------------------------------------------------------------- inputs


@contextlib.contextmanager
def _violations() -> Iterator[None]:
    """Sizes that aren't as the program says are its error."""
    try:
        yield
    except ConstraintViolationError as error:
        raise UserError(UserErrorType.CONSTRAINT_VIOLATION, f"{error}{_tracer.ADVICE}") from None


def _fake_inputs(
    mod: torch.nn.Module,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    specs: list[tuple[Any, Any, Any]],
    fake_mode: FakeTensorMode,
    dimensions: list[Dimension],
) -> Any:
    """(args, kwargs) with fake tensors, whose dynamic dimensions have symbols, and symbolic numbers."""
    env = fake_mode.shape_env
    made: dict[int, Any] = {}
    numbers: list[Any] = []
    state = {id(x) for x in (*mod.parameters(), *mod.buffers())}  # an input is another tensor, though it be given
    names = list(dynamic_inputs.combined_args(mod, args, kwargs))
    for path, leaf, said in specs:
        if path and isinstance(path[0], pytree.SequenceKey):  # said by position
            path = (pytree.MappingKey(names[path[0].idx]), *path[1:])
        source = "L" + pytree.keystr(path)
        if id(leaf) in made:  # the same tensor, given again: its sizes are as they were said first
            continue
        if isinstance(leaf, torch.Tensor):
            given = leaf.detach().clone().requires_grad_(leaf.requires_grad) if id(leaf) in state else leaf
            made[id(leaf)] = fake = fake_mode.from_tensor(given)
            own = fake_sizes(env, source, path, leaf, dynamic_inputs.dimensions_of(leaf, said))
            describe(fake, env, [d.expr for d in own])
            dimensions += own
        elif isinstance(said, _DimHint) and said.type != _DimHintType.STATIC:
            where = Source(source)
            e = env.create_symbol(leaf, where, positive=None, do_not_specialize_zero_one=True)
            dimensions.append(Dimension(where, path, leaf, said, e))
            numbers.append(env.create_symintnode(e, hint=leaf))
        elif isinstance(leaf, int) and not isinstance(leaf, bool):
            numbers.append(leaf)
    each = iter(numbers)

    def converted(x: Any) -> Any:
        if isinstance(x, torch.Tensor):
            return made[id(x)]
        return next(each) if isinstance(x, int) and not isinstance(x, bool) else x

    return pytree.tree_map(converted, (args, kwargs))


def _state_inputs(mod: torch.nn.Module, mode: _tracer.ExportMode) -> list[InputSpec]:
    """The placeholders of parameters and buffers; where two are one tensor, its uses are those of the last."""
    saved = mod.state_dict(keep_vars=True)
    specs = []
    for kind, letter, items in (
        (InputKind.PARAMETER, "p", mod.named_parameters(remove_duplicate=False)),
        (InputKind.BUFFER, "b", mod.named_buffers(remove_duplicate=False)),
    ):
        for name, tensor in items:
            fake = mode.fake_mode.from_tensor(tensor)
            node = mode.input(f"{letter}_{name.removeprefix('self_').replace('.', '_')}", fake).node
            if kind == InputKind.BUFFER:
                mode.buffers[name] = fake
            persistent = name in saved if kind == InputKind.BUFFER else None
            specs.append(InputSpec(kind, TensorArgument(node.name), name, persistent))
    return specs


def _user_inputs(mod: torch.nn.Module, given: Any, mode: _tracer.ExportMode) -> tuple[list[InputSpec], list[str]]:
    """The placeholders of the caller's inputs, and the names of the arguments."""
    args, kwargs = given
    signature = inspect.signature(mod.forward)
    names: list[str] = []
    for parameter in signature.parameters.values():
        if parameter.kind is parameter.VAR_POSITIONAL:
            names += [f"{parameter.name}_{i}" for i in range(len(args) - len(names))]
        elif parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD) and len(names) < len(args):
            names.append(parameter.name)
    specs = []
    for name, tree in [*zip(names, args), *kwargs.items()]:
        for path, value in pytree.tree_leaves_with_path(tree):
            full = "_".join([name, *[str(_key(k)) for k in path]])
            before = mode.tracer.tensor_tracker.get(id(value))
            node = mode.input(full, value).node
            if before is not None and before.reference() is value:  # the graph uses only the second
                node.meta["repeats"] = before.proxy.node.name
            mode.first_input = mode.first_input or node
            specs.append(InputSpec(InputKind.USER_INPUT, argument_of(node.name, value), None))
    return specs, [*names, *kwargs]


def _key(entry: Any) -> Any:
    return next(getattr(entry, name) for name in ("key", "idx", "name") if hasattr(entry, name))


def _state(mod: torch.nn.Module, signature: ExportGraphSignature) -> dict[str, torch.Tensor]:
    """The parameters and the buffers that are saved, in the order of the graph's inputs."""
    saved = mod.state_dict(keep_vars=True)
    return {name: saved[name] for name in (*signature.parameters, *signature.buffers) if name in saved}


# ---------------------------------------------------------------- the run


@contextlib.contextmanager
def _on_fakes(mod: torch.nn.Module, fake_mode: FakeTensorMode) -> Iterator[None]:
    """The module with fake parameters and buffers; what it sets meanwhile is forgotten."""
    before = [(m, dict(vars(m)), dict(m._parameters), dict(m._buffers)) for m in mod.modules()]
    for m, _, parameters, buffers in before:
        for own, values in ((m._parameters, parameters), (m._buffers, buffers)):
            own.update({name: fake_mode.from_tensor(x) for name, x in values.items() if x is not None})
    cached = torch.is_autocast_cache_enabled()
    torch.set_autocast_cache_enabled(False)  # a cast belongs to the block that it is made in
    kept, known = _held(mod), {path: set(vars(m)) for path, m in mod.named_modules()}
    try:
        yield
        _warn_of_assigned([name for name, x in _held(mod, known).items() if kept.get(name) is not x])
    finally:
        torch.set_autocast_cache_enabled(cached)
        for m, attributes, parameters, buffers in before:
            vars(m).clear()
            vars(m).update(attributes)
            for own, values in ((m._parameters, parameters), (m._buffers, buffers)):
                own.clear()
                own.update(values)


def _held(mod: torch.nn.Module, known: dict[str, set[str]] | None = None) -> dict[str, torch.Tensor]:
    """The tensors that are attributes of modules, or in lists and tuples of `known` names, but neither parameters nor buffers."""
    found: dict[str, torch.Tensor] = {}
    for path, module in mod.named_modules():
        own = {
            name: x
            for name, x in vars(module).items()
            if not name.startswith("_")
            and not isinstance(x, dict)
            and (known is None or isinstance(x, torch.Tensor) or name in known[path])
        }
        for key, x in pytree.tree_flatten_with_path(own)[0]:
            if isinstance(x, torch.Tensor):
                name = key[0].key + pytree.keystr(key[1:])
                found[f"self.{path}.{name}" if path else f"self.{name}"] = x
    return found


def _warn_of_assigned(names: list[str]) -> None:
    if names:
        several = len(names) > 1
        warnings.warn(
            f"The tensor attribute{'s' if several else ''} {', '.join(names)} {'were' if several else 'was'} assigned during "
            "export. Such attributes must be registered as buffers using the `register_buffer` API "
            "(https://pytorch.org/docs/stable/generated/torch.nn.Module.html#torch.nn.Module.register_buffer).",
            stacklevel=2,
        )


def _written_buffers(mod: torch.nn.Module, mode: _tracer.ExportMode) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """(buffer, the tensor that took its place)."""
    found = []
    for path, module in mod.named_modules():
        for name, value in module._buffers.items():
            original = mode.buffers.get(f"{path}.{name}" if path else name)
            if original is not None and value is not original:
                if not isinstance(value, torch.Tensor):
                    raise NotImplementedError(
                        "torch.export: taking a buffer away in forward is not implemented in flambeau; write to it"
                    )
                found.append((original, value))
    return found


def _write(mode: _tracer.ExportMode, buffer: torch.Tensor, value: torch.Tensor) -> None:
    source = mode.node_of(value)
    node = mode.graph.create_node(
        "call_function", torch.ops.aten.copy_.default, (mode.node_of(buffer), source), {}, name="copy__default"
    )
    node.meta = dict(source.meta)


def _results(leaves: list[Any], mode: _tracer.ExportMode) -> list[Any]:
    """What the graph returns: nodes and constants."""
    results: list[Any] = []
    for value in leaves:
        if isinstance(value, torch.Tensor) or is_symbolic_number(value):
            results.append(mode.node_of(value))
            continue
        if not isinstance(value, (int, float, bool, str, type(None))):
            raise RuntimeError(
                f"Found {type(value)} in output, which is not a known type. If this type holds tensors, you need to register a "
                "pytree for it. See https://github.com/pytorch/functorch/issues/475 for a brief explanation why. If you don't "
                "need to register a pytree, please leave a comment explaining your use case and we'll make this more "
                "ergonomic to deal with"
            )
        results.append(value)
    return results


def _output(value: Any) -> OutputSpec:
    """What a result of the graph is."""
    if not isinstance(value, torch.fx.Node):
        return OutputSpec(OutputKind.USER_OUTPUT, ConstantArgument("", value), None)
    return OutputSpec(OutputKind.USER_OUTPUT, argument_of(value.name, value.meta.get("val")), None)


def argument_of(name: str, value: Any) -> Any:
    """A value of a graph, by the name of its node."""
    for cls, kind in ((torch.SymInt, SymIntArgument), (torch.SymFloat, SymFloatArgument), (torch.SymBool, SymBoolArgument)):
        if isinstance(value, cls):
            return kind(name)
    return TensorArgument(name) if isinstance(value, torch.Tensor) else ConstantArgument(name, value)
