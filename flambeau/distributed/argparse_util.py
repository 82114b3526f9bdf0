"""torch.distributed.argparse_util: options of commands that the environment may give. Stands on argparse."""

from __future__ import annotations

import argparse
import os
from typing import Any

__all__ = ["check_env", "env"]


def _variable(dest: str) -> str:
    return f"PET_{dest.upper()}"


class env(argparse.Action):
    """An option whose default is the variable PET_NAME of the environment, if there is one: `action=env`."""

    def __init__(self, dest: str, default: Any = None, required: bool = False, **kwargs: Any) -> None:
        default = os.environ.get(_variable(dest), default)
        super().__init__(dest=dest, default=default, required=required and default is None, **kwargs)

    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: str | None = None) -> None:
        setattr(namespace, self.dest, values)


class check_env(argparse.Action):
    """A flag that is set if PET_NAME of the environment is a number other than 0: `action=check_env`."""

    def __init__(self, dest: str, default: bool = False, **kwargs: Any) -> None:
        default = bool(int(os.environ.get(_variable(dest), "1" if default else "0")))
        super().__init__(dest=dest, const=True, default=default, nargs=0, **kwargs)

    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: str | None = None) -> None:
        setattr(namespace, self.dest, self.const)
