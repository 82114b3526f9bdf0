"""torch.fx.experimental.unification: values that fit patterns with variables.

x = var()
unify((1, x), (1, 2), {})       # {x: 2}
reify((1, x), {x: 2})           # (1, 2)
"""

from flambeau.fx.experimental.unification.core import reify, unify
from flambeau.fx.experimental.unification.more import unifiable
from flambeau.fx.experimental.unification.variable import Var, isvar, var, variables, vars

__all__ = ["Var", "isvar", "reify", "unifiable", "unify", "var", "variables", "vars"]
