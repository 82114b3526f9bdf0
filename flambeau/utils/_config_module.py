"""torch.utils._config_module: modules of settings. Only names that the module defines can be read and set.

`install_config_module(module)` turns the values in a module into settings that can be patched for a while and written
down. Stands on the standard library; used by the settings of _dynamo, _inductor and _functorch.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import hashlib
import pickle
from collections.abc import Callable
from types import FunctionType, ModuleType
from typing import Any

_NO_SETTINGS = (ModuleType, FunctionType, type)


class ConfigPatch(contextlib.ContextDecorator):
    """Sets values within a block or a function, and then what they were before."""

    def __init__(self, config: ConfigModule, changes: dict[str, Any]) -> None:
        self.config, self.changes, self.before = config, changes, list[dict[str, Any]]()

    def __enter__(self) -> None:
        self.before.append({name: getattr(self.config, name) for name in self.changes})
        for name, value in self.changes.items():
            setattr(self.config, name, value)

    def __exit__(self, *exception: object) -> None:
        for name, value in self.before.pop().items():
            setattr(self.config, name, value)

    def __call__(self, func: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(func)
        def call(*args: Any, **kwargs: Any) -> Any:
            with ConfigPatch(self.config, self.changes):
                return func(*args, **kwargs)

        return call


class ConfigModule(ModuleType):
    """A module of settings. Raises AttributeError for names that are none."""

    _defaults: dict[str, Any]
    _settings: dict[str, Any]
    _aliases: dict[str, str]

    def __setattr__(self, name: str, value: Any) -> None:
        name = self._aliases.get(name, name)
        if name in self._defaults:
            self._settings[name] = value
        elif name.startswith("__"):
            super().__setattr__(name, value)
        else:
            raise AttributeError(self._unknown(name))

    def __getattr__(self, name: str) -> Any:
        settings = self.__dict__.get("_settings", {})
        name = self.__dict__.get("_aliases", {}).get(name, name)
        if name in settings:
            return settings[name]
        raise AttributeError(self._unknown(name))

    def __delattr__(self, name: str) -> None:
        name = self._aliases.get(name, name)
        if name not in self._settings:
            raise AttributeError(self._unknown(name))
        del self._settings[name]  # until it is set again, as unittest.mock does

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self._settings]

    def _public_name(self) -> str:
        return "torch" + self.__name__[self.__name__.find(".") :]

    def _unknown(self, name: str) -> str:
        return f"{self._public_name()}.{name} does not exist"

    def patch(self, arg1: str | dict[str, Any] | None = None, arg2: Any = None, **kwargs: Any) -> ConfigPatch:
        """A context, or decorator, in which settings differ: patch("name", value), patch(dict), patch(name=value)."""
        if isinstance(arg1, str):
            changes = {arg1: arg2}
        else:
            changes = {**(arg1 or {}), **kwargs}
        return ConfigPatch(self, changes)

    def shallow_copy_dict(self) -> dict[str, Any]:
        """The settings by name."""
        return dict(self._settings)

    to_dict = shallow_copy_dict

    def get_config_copy(self) -> dict[str, Any]:
        """The settings by name, deeply copied."""
        return copy.deepcopy(self._settings)

    def load_config(self, maybe_pickled_config: bytes | dict[str, Any]) -> None:
        """Set what save_config wrote, or a dict. Raises AttributeError for names that are no settings."""
        given = maybe_pickled_config
        for name, value in (pickle.loads(given) if isinstance(given, bytes) else given).items():
            setattr(self, name, value)

    def save_config(self) -> bytes:
        """The settings, pickled."""
        return pickle.dumps(self._settings, protocol=2)

    def save_config_portable(self, *, ignore_private_configs: bool = True) -> dict[str, Any]:
        """The settings by name, without private ones."""
        return {
            name: value for name, value in self.get_config_copy().items() if not (ignore_private_configs and name.startswith("_"))
        }

    def codegen_config(self) -> str:
        """Python statements that set what differs from the defaults."""
        return "\n".join(
            f"{self._public_name()}.{name} = {value!r}" for name, value in self._settings.items() if value != self._defaults[name]
        )

    def get_hash(self) -> bytes:
        """A digest of the settings."""
        return hashlib.sha256(repr(sorted(self._settings.items())).encode()).digest()


def install_config_module(module: ModuleType, aliases: dict[str, str] | None = None) -> None:
    """Turn the values that a module defines into settings. aliases: other names of some of them."""
    names = [
        name
        for name, value in vars(module).items()
        if not name.startswith("__") and name != "annotations" and not isinstance(value, _NO_SETTINGS) and value is not aliases
    ]
    settings = {name: vars(module).pop(name) for name in names}
    vars(module).update(_aliases=dict(aliases or {}), _settings=settings, _defaults=copy.deepcopy(settings))
    module.__class__ = ConfigModule
