"""torch.distributed.elastic.multiprocessing.errors: failures of started processes."""

import functools
from collections.abc import Callable
from typing import Any

from flambeau.distributed.without_group import absent as _absent

globals().update(_absent("elastic.multiprocessing.errors", "get_error_handler", "ErrorHandler ProcessFailure"))


class ChildFailedError(Exception):
    """Processes that a launcher started have failed."""


def record(fn: Callable[..., Any], error_handler: Any = None) -> Callable[..., Any]:
    """Decorator of a program's main function. A launcher would be told of its failure; alone, the function is called."""

    @functools.wraps(fn)
    def main(*args: Any, **kwargs: Any) -> Any:
        return fn(*args, **kwargs)

    return main
