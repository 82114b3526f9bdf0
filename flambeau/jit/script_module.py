"""torch.jit.ScriptModule and RecursiveScriptModule: compiled modules. Parameters, buffers and submodules lie where a Module
has them.

What else the program has as attributes lies in `script_attributes`. Stands on nn and on the front end; `scripts` makes them
of modules,
what loads archives of their types.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, ClassVar

from flambeau.base.naming import called, public_module
from flambeau.dispatcher.schema_types import Refused
from flambeau.jit.frontend.python_values import taken
from flambeau.jit.frontend.text import MethodSelf, TextResolver, define_from_tree, parse_text
from flambeau.jit.ir.types import ClassType, InterfaceType, missing_methods
from flambeau.jit.script_function import ScriptMethod
from flambeau.nn.modules.module import Module

__all__ = ["ModuleCore", "RecursiveScriptModule", "ScriptModule", "install_hooks", "script_method"]

_PROGRAM = ("graph", "inlined_graph", "code", "code_with_constants", "graph_for")


class _Pending:
    """A method that is compiled when an object of its class is made."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function


class _ScriptMeta(type(Module)):  # type: ignore[misc]
    """Compiles an object of a class derived from ScriptModule once its __init__ is done."""

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        made = super().__call__(*args, **kwargs)
        pending = {
            name: item for each in reversed(cls.__mro__) for name, item in vars(each).items() if isinstance(item, _Pending)
        }
        if not pending or isinstance(made, RecursiveScriptModule):
            return made
        return ScriptModule.compile_marked(made, [(name, item.function) for name, item in pending.items()], cls)


def script_method(fn: Callable[..., Any]) -> Any:
    """Mark a method of a class derived from ScriptModule, to be compiled when an object is made."""
    return _Pending(fn)


class ScriptModule(Module, metaclass=_ScriptMeta):
    """A module whose methods that are marked with script_method are compiled when it is made."""

    __module__ = public_module("jit._script")
    compile_marked: ClassVar[Callable[..., Any]]  # makes a compiled module of one; `recursive` sets it


class RecursiveScriptModule(ScriptModule):
    """A compiled module. It is made by torch.jit.script and torch.jit.load."""

    __module__ = public_module("jit._script")

    script_type: ClassType

    def __init__(self, script_type: ClassType | None = None) -> None:
        if not isinstance(script_type, ClassType):
            raise TypeError("RecursiveScriptModule is made by torch.jit.script or torch.jit.load, not by calling it")
        super().__init__()
        own = self.__dict__
        own["script_type"] = script_type
        own["script_attributes"] = {"training": own.pop("training", True)}

    # ---- what it is
    @property
    def original_name(self) -> str:
        """The name of the class that it was compiled from."""
        return self.script_type.name()

    @property
    def _c(self) -> Any:
        return ModuleCore(self)

    def _get_name(self) -> str:
        return "RecursiveScriptModule"

    def extra_repr(self) -> str:
        return f"original_name={self.original_name}"

    # ---- attributes
    def __getattr__(self, name: str) -> Any:
        own = self.__dict__
        for registry in ("_parameters", "_buffers", "_modules", "script_attributes"):
            table = own.get(registry)
            if table is not None and name in table:
                return table[name]
        kind = own.get("script_type")
        if kind is not None:
            if name in kind.methods and getattr(kind.methods[name], "is_public", True):
                return ScriptMethod(kind.methods[name], self)
            if name in kind.properties:
                return ScriptMethod(kind.properties[name][0], self)()
            if name in kind.constants:
                return kind.constants[name]
            concrete = own.get("_concrete_type")
            if concrete is not None and name in concrete.constants:
                return concrete.constants[name]
            if concrete is not None and name in concrete.functions:
                from flambeau.jit.script_function import ScriptFunction

                return ScriptFunction(concrete.functions[name])
        if name in _PROGRAM and kind is not None and "forward" in kind.methods:
            return getattr(ScriptMethod(kind.methods["forward"], self), name)
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "_c":
            self._become(value._module)
            return
        kind = self.__dict__.get("script_type")
        attributes = self.__dict__.get("script_attributes")
        if kind is not None and attributes is not None:
            attribute = kind.attributes.get(name)
            if name == "training" or (
                attribute is not None and name not in self._modules and not attribute.is_parameter and not attribute.is_buffer
            ):
                attributes[name] = value if attribute is None else self._fitting(name, attribute.type, value)
                return
            if name in kind.properties and kind.properties[name][1] is not None:
                ScriptMethod(kind.properties[name][1], self)(value)
                return
            concrete = self.__dict__.get("_concrete_type")
            if concrete is not None and name in concrete.constants:
                raise AttributeError(f"Cannot mutate TorchScript constant value: '{name}'. Value: '{value}'")
            if attribute is not None and name in self._modules:
                self._check_module(name, attribute.type, value)
        super().__setattr__(name, value)

    def _check_module(self, name: str, kind: Any, value: Any) -> None:
        """RuntimeError for what can't be a submodule in another's place."""
        if not isinstance(value, RecursiveScriptModule):
            raise RuntimeError(
                "Cannot re-assign modules in a ScriptModule with non-scripted module, tried to replace existing module "
                f"'{name}': {value}"
            )
        if not value.script_type.isSubtypeOf(kind):
            if isinstance(kind, InterfaceType):
                raise RuntimeError(
                    f"Object of type {value.script_type} is not compatible with interface {kind}\n"
                    f"{missing_methods(value.script_type.methods, kind)}"
                )
            raise RuntimeError(f"Expected a value of type '{kind}' for field '{name}', but found '{value.script_type}'")

    def _become(self, other: RecursiveScriptModule) -> None:
        """Take another program's type, values and submodules."""
        own, others = self.__dict__, other.__dict__
        for name in ("script_type", "_parameters", "_buffers", "_modules", "script_attributes", "_forward_hooks",
                     "_forward_pre_hooks"):  # fmt: skip
            own[name] = others[name]
        own.pop("_concrete_type", None)

    def _fitting(self, name: str, kind: Any, value: Any) -> Any:
        try:
            return taken(value, kind)
        except Refused as reason:
            raise RuntimeError(f"Could not cast attribute '{name}' to type {kind}: {reason}") from None

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *self.script_attributes, *self.script_type.methods})

    # ---- calls
    @property
    def forward(self) -> Any:  # type: ignore[override]
        """The compiled forward. NotImplementedError, when called, if there is none."""
        function = self.script_type.methods.get("forward")
        return ScriptMethod(function, self) if function is not None else lambda *args: self.forward_magic_method("forward", *args)

    def forward_magic_method(self, method_name: str, *args: Any, **kwargs: Any) -> Any:
        """A compiled method by its name. NotImplementedError if there is none."""
        function = self.script_type.methods.get(method_name)
        if function is None:
            raise NotImplementedError(f'Module [{type(self).__name__}] is missing the required "{method_name}" function')
        return ScriptMethod(function, self)(*args, **kwargs)

    def __len__(self) -> int:
        return int(self.forward_magic_method("__len__")) if "__len__" in self.script_type.methods else len(self._modules)

    def __bool__(self) -> bool:
        return True

    def __iter__(self) -> Any:
        if "__iter__" in self.script_type.methods:
            return self.forward_magic_method("__iter__")
        if self._container == "dict":
            return iter(self._modules)
        if self._container == "list":
            return iter(self._modules.values())
        raise NotImplementedError(f"'{self.original_name}' can't be iterated")

    @property
    def _container(self) -> str:
        concrete = self.__dict__.get("_concrete_type")
        return concrete.container if concrete is not None else "list" if all(n.isdigit() for n in self._modules) else "dict"

    def __getitem__(self, index: Any) -> Any:
        if "__getitem__" in self.script_type.methods:
            return self.forward_magic_method("__getitem__", index)
        if isinstance(index, str):
            return self._modules[index]
        return list(self._modules.values())[index]

    def __contains__(self, key: Any) -> bool:
        if "__contains__" in self.script_type.methods:
            return bool(self.forward_magic_method("__contains__", key))
        return key in self._modules

    def define(self, src: str) -> None:
        """Compile methods from a text and add them."""
        for definition in parse_text(src, "<string>"):
            name = f"{self.script_type.qualified_name}.{definition.name}"
            made = define_from_tree(name, definition, TextResolver(), MethodSelf(self.script_type))  # type: ignore[arg-type]
            self.script_type.methods[definition.name] = made
            made.ensure_defined()

    def get_debug_state(self, *args: Any, **kwargs: Any) -> None:
        """Nothing is kept of runs."""
        return

    # ---- files
    def save(self, f: Any, _extra_files: Any = None, **kwargs: Any) -> None:
        """Write the program to a path or a binary file object, as torch.jit.save does."""
        from flambeau.jit.archive.saving import write

        write(self, f, _extra_files)

    def save_to_buffer(self, _extra_files: Any = None, **kwargs: Any) -> bytes:
        """The bytes that save would write."""
        from flambeau.jit.archive.saving import written

        return written(self, _extra_files)

    def _save_for_lite_interpreter(self, *args: Any, **kwargs: Any) -> None:
        raise NotImplementedError(
            "torch.jit's mobile format is not implemented in flambeau: use save(), whose files every PyTorch reads"
        )

    _save_to_buffer_for_lite_interpreter = _save_for_lite_interpreter

    # ---- copies
    def __copy__(self) -> RecursiveScriptModule:
        return self._copied(lambda value: value, lambda table: dict(table))

    def __deepcopy__(self, memo: dict[int, Any]) -> RecursiveScriptModule:
        return self._copied(lambda value: copy.deepcopy(value, memo), lambda table: copy.deepcopy(dict(table), memo))

    def _copied(self, value_of: Callable[[Any], Any], table_of: Callable[[Any], dict[str, Any]]) -> RecursiveScriptModule:
        made = RecursiveScriptModule(self.script_type)
        for name, value in self.__dict__.items():
            if name in ("script_type", "_concrete_type"):
                made.__dict__[name] = value
            elif name in ("_parameters", "_buffers", "_modules", "script_attributes"):
                made.__dict__[name].update(table_of(value))
            else:
                made.__dict__[name] = value_of(value)
        return made

    def __reduce__(self) -> Any:
        import pickle

        raise pickle.PickleError(
            "ScriptModules cannot be deepcopied using copy.deepcopy or saved using torch.save. Mixed serialization of "
            "script and non-script modules is not supported. For purely script modules use "
            "my_script_module.save(<filename>) instead."
        )


def install_hooks(module: RecursiveScriptModule) -> None:
    """Have a module call the hooks of its type."""

    def calling(hook: Any) -> Any:
        return lambda owner, *values: ScriptMethod(hook, owner)(*values)

    kind = module.script_type
    for table, hooks in (("_forward_pre_hooks", kind.pre_hooks), ("_forward_hooks", kind.hooks)):
        module.__dict__[table].update((i, calling(hook)) for i, hook in enumerate(hooks))


@called("", "ScriptModule")
class ModuleCore:
    """torch._C.ScriptModule, which programs reach as `module._c`: the program of a module, without what Python adds to it."""

    def __init__(self, module: RecursiveScriptModule) -> None:
        self._module = module

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ModuleCore) and self._module is other._module

    def __hash__(self) -> int:
        return id(self._module)

    def _type(self) -> ClassType:
        return self._module.script_type

    @property
    def qualified_name(self) -> str:
        """The name of its class."""
        return self._module.script_type.qualified_name

    @property
    def code(self) -> str:
        """The methods as text that can be compiled again."""
        return "".join(each.code for each in self._get_methods())

    def _method_names(self) -> list[str]:
        return list(self._module.script_type.methods)

    def _get_method(self, name: str) -> ScriptMethod:
        return ScriptMethod(self._module.script_type.methods[name], self._module)

    def _get_methods(self) -> list[ScriptMethod]:
        return [self._get_method(name) for name in self._method_names()]

    def _has_method(self, name: str) -> bool:
        return name in self._module.script_type.methods

    def hasattr(self, name: str) -> bool:
        """Whether the program has an attribute."""
        return name in self._module.script_type.attributes

    def getattr(self, name: str) -> Any:
        """An attribute of the program; a submodule as its program. AttributeError if there is none of the name."""
        if not self.hasattr(name):
            raise AttributeError(
                f"{self.qualified_name} (of Python compilation unit at: {id(self._module):#x}) does not have a field with name "
                f"'{name}'"
            )
        value = getattr(self._module, name)
        return value._c if isinstance(value, RecursiveScriptModule) else value

    def __getattr__(self, name: str) -> Any:
        if name == "_module" or name.startswith("__"):
            raise AttributeError(name)
        return self._get_method(name) if self._has_method(name) else self.getattr(name)

    def setattr(self, name: str, value: Any) -> None:
        """Set an attribute of the program."""
        setattr(self._module, name, value)

    def save(self, f: Any, _extra_files: Any = None) -> None:
        """Write the program to a path or a binary file object."""
        self._module.save(f, _extra_files)

    def save_to_buffer(self, _extra_files: Any = None) -> bytes:
        """The bytes that save would write."""
        return self._module.save_to_buffer(_extra_files)

    def _register_attribute(self, name: str, kind: Any, value: Any) -> None:
        """Give the program an attribute."""
        self._module.script_type.add_attribute(name, kind)
        self._module.script_type.extended = True
        self._module.__dict__["script_attributes"][name] = value
