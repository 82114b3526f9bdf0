"""torch.utils.bundled_inputs: example inputs that a compiled module carries, in few bytes.

A module gets methods that give them: `get_all_bundled_inputs_for_NAME` per method, and for `forward` `get_all_bundled_inputs` and
`get_num_bundled_inputs`. Large tensors are kept as what they can be made of again: an expanded element, or the shape of random
numbers. Stands on the public torch.jit.
"""

from __future__ import annotations

import io
import textwrap
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import flambeau as torch

__all__ = [
    "InflatableArg",
    "MAX_RAW_TENSOR_SIZE",
    "augment_many_model_functions_with_bundled_inputs",
    "augment_model_with_bundled_inputs",
    "bundle_inputs",
    "bundle_large_tensor",
    "bundle_randn",
]

#: Elements of memory up to which a tensor is kept as it is.
MAX_RAW_TENSOR_SIZE = 16

Inputs = Sequence[tuple[Any, ...]]
ByMethod = dict[Callable[..., Any], Inputs | None]


class InflatableArg(NamedTuple):
    """An argument that is made when it is asked for.

    value: what is kept; fmt: an expression in which {} is that value; fmt_fn: instead of it the source of a method in which {} is
    the method's name, called with the value.
    """

    value: Any
    fmt: str = "{}"
    fmt_fn: str = ""


def bundle_randn(*size: int, dtype: Any = None) -> InflatableArg:
    """A tensor of random numbers of that size, other ones each time."""
    return InflatableArg(value=torch.zeros(1, dtype=dtype).expand(*size), fmt="torch.randn_like({})")


def bundle_large_tensor(t: Any) -> InflatableArg:
    """A tensor of any size, kept whole."""
    return InflatableArg(value=t, fmt="{}")


def bundle_inputs(
    model: Any, inputs: Inputs | ByMethod | None, info: Any = None, *, _receive_inflate_expr: list[str] | None = None
) -> Any:
    """A copy of a compiled module that carries inputs of `forward`, or of the methods that are the keys of a dict.

    Inputs that the module carries already are left out. inputs: a tuple of arguments per call; None for a method that the program
    gives `_generate_bundled_inputs_for_NAME`. info: texts about them.
    """
    _check_compiled(model)
    methods, attributes = _get_bundled_inputs_attributes_and_methods(model)
    copy = _independent(model)
    for name in methods:
        copy.script_type.methods.pop(name, None)
    for name in attributes:
        copy.script_type.attributes.pop(name, None)
        copy.__dict__["script_attributes"].pop(name, None)
    if isinstance(inputs, dict):
        own = {getattr(copy, _name_of(method)): given for method, given in inputs.items()}
        texts = {getattr(copy, _name_of(method)): text for method, text in (info or {}).items()}
        augment_many_model_functions_with_bundled_inputs(copy, own, _receive_inflate_expr, texts)
    else:
        augment_model_with_bundled_inputs(copy, inputs, _receive_inflate_expr, info)
    return copy


def augment_model_with_bundled_inputs(
    model: Any,
    inputs: Inputs | None = None,
    _receive_inflate_expr: list[str] | None = None,
    info: list[str] | None = None,
    skip_size_check: bool = False,
) -> None:
    """Give a compiled module inputs of `forward`, a tuple of arguments per call.

    Raises Exception for a module that has some already, or isn't compiled, and for a tensor of many elements that is neither one
    element repeated nor bundled by bundle_randn or bundle_large_tensor; TypeError for inputs that are no list of tuples.
    """
    _check_compiled(model)
    augment_many_model_functions_with_bundled_inputs(
        model, {model.forward: inputs}, _receive_inflate_expr, {model.forward: info} if info else None, skip_size_check
    )


def augment_many_model_functions_with_bundled_inputs(
    model: Any,
    inputs: ByMethod,
    _receive_inflate_expr: list[str] | None = None,
    info: dict[Callable[..., Any], list[str]] | None = None,
    skip_size_check: bool = False,
) -> None:
    """Give a compiled module inputs of several methods; see augment_model_with_bundled_inputs."""
    _check_compiled(model)
    if not inputs:
        raise Exception("Please provide inputs for at least 1 function")
    if hasattr(model, "get_all_bundled_inputs") or hasattr(model, "get_bundled_inputs_functions_and_info"):
        raise Exception(
            "Models can only be augmented with bundled inputs once. This Model seems to have already been augmented "
            "with bundled inputs. Please start afresh with one that doesn't have bundled inputs."
        )
    texts = {_name_of(method): text for method, text in (info or {}).items()}
    entries = ""
    for method, given in inputs.items():
        name = _name_of(method)
        if given is not None and not isinstance(given, Sequence):
            raise TypeError(f"Error inputs for function {name} is not a Sequence")
        made = hasattr(model, f"_generate_bundled_inputs_for_{name}")
        if made and given is not None:
            raise Exception(f"inputs[{name}] is not None, but _generate_bundled_inputs_for_{name} is already defined")
        if not made:
            if given is None or not given:
                raise Exception(
                    f"inputs for {name} must be specified if _generate_bundled_inputs_for_{name} is not already defined"
                )
            _keep(model, method, name, given, _receive_inflate_expr, skip_size_check)
        model.define(
            textwrap.dedent(f"""
            def get_all_bundled_inputs_for_{name}(self):
                all_inputs = self._generate_bundled_inputs_for_{name}()
                assert all_inputs is not None
                return all_inputs
            """)
        )
        entries += f"""
                temp_dict : Dict[str,List[str]] = {{}}
                info: List[str] = {texts.get(name, [])!r}
                temp_dict['info'] = info
                temp_dict['get_inputs_function_name'] = ['get_all_bundled_inputs_for_{name}']
                all_inputs['{name}'] = temp_dict
                """
        if name == "forward":
            model.define(
                textwrap.dedent("""
                def get_all_bundled_inputs(self):
                    return self.get_all_bundled_inputs_for_forward()
                """)
            )
            model.define(
                textwrap.dedent("""
                def get_num_bundled_inputs(self):
                    return len(self.get_all_bundled_inputs_for_forward())
                """)
            )
    model.define(
        textwrap.dedent(f"""
            def get_bundled_inputs_functions_and_info(self):
                all_inputs : Dict[str, Dict[str,List[str]]] = {{}}
                {entries}
                return all_inputs
            """)
    )


def _name_of(method: Any) -> str:
    return method.name if hasattr(method, "name") else method.__name__


def _check_compiled(model: Any) -> None:
    if not isinstance(model, torch.jit.ScriptModule):
        raise Exception("Only ScriptModule is supported.")


def _keep(model: Any, method: Any, name: str, inputs: Inputs, received: list[str] | None, skip_size_check: bool) -> None:
    """Keep the inputs of a method as an attribute, and define the method that makes them again."""
    kept, rows = [], []
    for number, arguments in enumerate(inputs):
        if not isinstance(arguments, tuple):
            raise TypeError(f"Error bundled input for function {name} idx: {number} is not a Tuple")
        values, expressions = [], []
        for place, argument in enumerate(arguments):
            helper = _get_inflate_helper_fn_name(place, number, name)
            value, expression, source = _inflate_expr(argument, f"deflated[{number}][{place}]", helper, skip_size_check)
            values.append(value)
            expressions.append(f"    {expression},")
            if source is not None:
                model.define(textwrap.dedent(source))
        kept.append(tuple(values))
        rows += ["(", *expressions, "),"]
    if received is not None:
        received.append("\n".join(rows) + "\n")
    kinds = [
        torch._C.TensorType.get() if str(a.type).startswith("Tensor") and "[" not in str(a.type) else a.type
        for a in method.schema.arguments[1:]
    ]
    attribute = f"_bundled_inputs_deflated_{name}"
    model._c._register_attribute(attribute, torch._C.ListType(torch._C.TupleType(kinds)), kept)
    lines = "\n".join("            " + row for row in rows)
    model.define(
        f"def _generate_bundled_inputs_for_{name}(self):\n    deflated = self.{attribute}\n    return [\n{lines}\n    ]\n"
    )


def _inflate_expr(arg: Any, ref: str, inflate_helper_fn_name: str, skip_size_check: bool = False) -> tuple[Any, str, str | None]:
    """(what is kept of an argument, the expression that makes it of `ref`, the source of a method that this calls or None)."""
    if isinstance(arg, InflatableArg):
        if not arg.fmt_fn:
            return arg.value, arg.fmt.format(ref), None
        if arg.fmt not in ("{}", ""):
            raise Exception(
                f"Bundled input argument at position '{ref}' has both arg.fmt_fn => \n{arg.fmt_fn} \n and arg.fmt  => "
                f"{arg.fmt}. Please choose `arg.fmt` if the deflater is straightforward or `arg.fmt_fn` if you need a function."
            )
        return arg.value, f"self.{inflate_helper_fn_name}({ref})", arg.fmt_fn.format(inflate_helper_fn_name)
    if not isinstance(arg, torch.Tensor):
        return arg, ref, None
    if skip_size_check or _elements_of(arg) <= MAX_RAW_TENSOR_SIZE:
        return arg, ref, None
    if arg.is_contiguous() and arg.numel() <= MAX_RAW_TENSOR_SIZE:
        return arg.clone(), ref, None
    for memory_format in (torch.contiguous_format, torch.channels_last):
        fits = memory_format is torch.contiguous_format or arg.dim() == 4
        if fits and arg.is_contiguous(memory_format=memory_format) and (arg == arg.flatten()[0]).all().item():
            value = arg.flatten()[0].clone().expand(*arg.size())
            return value, f"{ref}.contiguous(memory_format={memory_format})", None
    raise Exception(
        f"Bundled input argument at position '{ref}' is a tensor with storage size {_elements_of(arg)}. You "
        "probably don't want to bundle this as an input. "
    )


def _elements_of(tensor: Any) -> int:
    """How many elements the memory of a tensor has."""
    return tensor.untyped_storage().nbytes() // tensor.element_size()


def _get_inflate_helper_fn_name(arg_idx: int, input_idx: int, function_name: str) -> str:
    return f"_inflate_helper_for_{function_name}_input_{input_idx}_arg_{arg_idx}"


def _get_bundled_inputs_attributes_and_methods(script_module: Any) -> tuple[list[str], list[str]]:
    """(methods, attributes) that bundled inputs have given a compiled module."""
    methods: list[str] = []
    attributes: list[str] = []
    if hasattr(script_module, "get_all_bundled_inputs"):
        methods += ["get_all_bundled_inputs", "get_num_bundled_inputs", "run_on_bundled_input"]
    if hasattr(script_module, "get_bundled_inputs_functions_and_info"):
        methods.append("get_bundled_inputs_functions_and_info")
        for name in script_module.get_bundled_inputs_functions_and_info():
            methods += [f"get_all_bundled_inputs_for_{name}", f"_generate_bundled_inputs_for_{name}"]
            attributes.append(f"_bundled_inputs_deflated_{name}")
            inputs = getattr(script_module, f"get_all_bundled_inputs_for_{name}")()
            for number, arguments in enumerate(inputs):
                for place in range(len(arguments)):
                    helper = _get_inflate_helper_fn_name(place, number, name)
                    if hasattr(script_module, helper):
                        methods.append(helper)
    return methods, attributes


def _independent(model: Any) -> Any:
    """A compiled module whose methods and attributes are its own: programs of one class share them otherwise."""
    from flambeau.jit.archive.loading import load

    return load(io.BytesIO(model.save_to_buffer()))
