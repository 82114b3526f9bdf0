"""torch._dynamo.exc: the exceptions of PyTorch's graph capture, for programs that catch them; torch.export raises UserError."""

from __future__ import annotations

import enum
from typing import Any


class TorchDynamoException(RuntimeError):
    """A failure to capture or compile a function."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args)
        self.__dict__.update(kwargs)


class InternalTorchDynamoError(TorchDynamoException):
    """A mistake of the capturing library."""


class ResumePrologueTracingError(TorchDynamoException):
    """A function that goes on after a break of the graph couldn't be captured."""


class RestartAnalysis(TorchDynamoException):
    """The function is captured anew."""


class SpeculationRestartAnalysis(RestartAnalysis):
    """The function is captured anew, after a guess was wrong."""


class UnspecializeRestartAnalysis(RestartAnalysis):
    """The function is captured anew, with fewer constants."""


class SkipFrame(TorchDynamoException):
    """The function is left to Python."""


class TorchRuntimeError(TorchDynamoException):
    """An operator failed while the function was captured."""


class InvalidBackend(TorchDynamoException):
    """There is no backend of this name."""

    def __init__(self, name: str) -> None:
        super().__init__(f"Invalid backend: {name!r}, see `torch._dynamo.list_backends()` for available backends.")


class ResetRequired(TorchDynamoException):
    """torch._dynamo.reset() has to be called before a change of backend."""

    def __init__(self) -> None:
        super().__init__("Must call `torch._dynamo.reset()` before changing backends.")


class ShortenTraceback(TorchDynamoException):
    """A failure whose traceback is shown without the library's frames."""


class BackendCompilerFailed(ShortenTraceback):
    """A backend failed; `inner_exception` says how."""

    def __init__(self, backend_fn: Any, inner_exception: Exception, first_useful_frame: Any = None) -> None:
        self.backend_name = getattr(backend_fn, "__name__", "?")
        self.inner_exception = inner_exception
        super().__init__(
            f"backend={self.backend_name!r} raised:\n{type(inner_exception).__name__}: {inner_exception}",
            first_useful_frame=first_useful_frame,
        )


class Unsupported(TorchDynamoException):
    """Something in the function can't be captured."""


class UnsafeScriptObjectError(TorchDynamoException):
    """An object of TorchScript can't be captured."""


class RecompileError(TorchDynamoException):
    """A function would be compiled again where that was forbidden."""


class PackageError(TorchDynamoException):
    """Compiled functions don't fit the program that loads them."""


class InfiniteGeneratorError(TorchDynamoException):
    """A generator gave too many items."""


class CondOpArgsMismatchError(TorchDynamoException):
    """The branches of torch.cond differ in their arguments."""


class UncapturedHigherOrderOpError(TorchDynamoException):
    """A control flow operator's function can't be captured."""


class ObservedException(TorchDynamoException):
    """The captured function raised an exception itself."""


class FailOnRecompileLimitHit(Exception):
    """A function was compiled too often."""


class UserErrorType(enum.Enum):
    """What kind of mistake a UserError reports."""

    DYNAMIC_CONTROL_FLOW = enum.auto()
    ANTI_PATTERN = enum.auto()
    STANDARD_LIBRARY = enum.auto()
    CONSTRAINT_VIOLATION = enum.auto()
    DYNAMIC_DIM = enum.auto()
    INVALID_INPUT = enum.auto()
    INVALID_OUTPUT = enum.auto()
    UNSUPPORTED_ALIASED_MUTATED_DYNAMIC_INPUTS = enum.auto()


class UserError(TorchDynamoException):
    """A mistake in the program."""

    def __init__(self, error_type: UserErrorType, msg: str, case_name: str | None = None) -> None:
        if case_name is not None:
            page = f"https://pytorch.org/docs/main/generated/exportdb/index.html#{case_name.replace('_', '-')}"
            msg += (" " if msg.endswith(".") else "\n") + f"For more information about this error, see: {page}"
        super().__init__(msg)
        self.error_type, self.message, self.msg = error_type, msg, msg
