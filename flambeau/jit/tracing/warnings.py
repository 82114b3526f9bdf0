"""What a trace warns of: values that leave the graph and are constants from then on.

Stands on base.warn's rule that a warning shows the program's own line; used by recorder, rules and state.
"""

from __future__ import annotations

import sys
import warnings

from flambeau.base.naming import PACKAGE

__all__ = ["CONTAINER_ADVICE", "DATAFLOW", "RESULTS", "TracerWarning", "TracingCheckError", "warn"]


class TracerWarning(Warning):
    """A warning while tracing."""

    __module__ = PACKAGE + ".jit"

    @staticmethod
    def ignore_lib_warnings() -> None:
        """Show no such warnings of lines of this package, but for those of jit."""
        warnings.filterwarnings("ignore", category=TracerWarning, module=f"{PACKAGE}.(?!jit)")
        warnings.filterwarnings("ignore", "torch::jit::fuser::cuda", UserWarning)


class TracingCheckError(Exception):
    """A trace that does not repeat."""

    __module__ = PACKAGE + ".jit"

    def __init__(self, graph_diff_error: str | None, tensor_compare_error: str | None, extra_msg: str | None = None) -> None:
        self.message = "Tracing failed sanity checks!\n"
        if extra_msg is not None:
            self.message += extra_msg + "\n"
        if graph_diff_error is not None:
            self.message += "ERROR: Graphs differed across invocations!\n" + _indented(graph_diff_error) + "\n"
        if tensor_compare_error is not None:
            self.message += (
                "ERROR: Tensor-valued Constant nodes differed in value across invocations. This often indicates that the tracer "
                "has encountered untraceable code.\n" + _indented(tensor_compare_error) + "\n"
            )
        super().__init__(self.message)


def _indented(text: str) -> str:
    return "\n".join("\t" + line for line in text.split("\n"))


_MAY = " might cause the trace to be incorrect"
DATAFLOW = (
    _MAY + ". We can't record the data flow of Python values, so this value will be treated as a constant in the future. This "
    "means that the trace might not generalize to other inputs!"
)
RESULTS = (
    " results are registered as constants in the trace. You can safely ignore this warning if you use this function to create "
    "tensors out of constant variables that would be the same every time you call this function. In any other case, this might "
    "cause the trace to be incorrect."
)
CONTAINER_ADVICE = (
    _MAY + ", this is only valid if the container structure does not change based on the module's inputs. Consider using a "
    "constant container instead (e.g. for `list`, use a `tuple` instead. for `dict`, use a `NamedTuple` instead). If you "
    "absolutely need this and know the side effects, pass strict=False to trace() to allow this behavior."
)
_INSIDE = (f"{PACKAGE}.jit.", f"{PACKAGE}.core.", f"{PACKAGE}.dispatcher.", f"{PACKAGE}.ops.")


def warn(what: str, why: str = DATAFLOW) -> None:
    """A TracerWarning that shows the line which called what is traced."""
    frame = sys._getframe(1)
    level = 2
    while frame.f_back is not None and (
        frame.f_globals.get("__name__", "").startswith(_INSIDE) or frame.f_code.co_filename.startswith("<")
    ):
        frame, level = frame.f_back, level + 1
    warnings.warn(what + why, category=TracerWarning, stacklevel=level)


TracerWarning.ignore_lib_warnings()
