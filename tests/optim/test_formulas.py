"""Every formula can be traced into scalar expressions, one per tensor it updates."""

import inspect

import pytest

from flambeau.base.dtype import float32
from flambeau.ir import scalar
from flambeau.optim.adadelta import adadelta
from flambeau.optim.adagrad import adagrad
from flambeau.optim.adam import adam, amsgrad
from flambeau.optim.adamax import adamax
from flambeau.optim.asgd import asgd
from flambeau.optim.nadam import nadam
from flambeau.optim.radam import radam
from flambeau.optim.rmsprop import rmsprop, rmsprop_centered, rmsprop_centered_momentum, rmsprop_momentum
from flambeau.optim.rprop import rprop
from flambeau.optim.sgd import sgd, sgd_momentum
from flambeau.optim.sparse_adam import sparse_adam

FLAGS = {"maximize", "decay", "decoupled", "nesterov", "first", "averaging"}
FORMULAS = [
    adadelta, adagrad, adam, amsgrad, adamax, asgd, nadam, radam, rmsprop, rmsprop_centered,
    rmsprop_centered_momentum, rmsprop_momentum, rprop, sgd, sgd_momentum, sparse_adam,
]  # fmt: skip


@pytest.mark.parametrize("value", [False, True])
@pytest.mark.parametrize("formula", FORMULAS, ids=lambda f: f.__name__)
def test_traces(formula, value):
    parameters = inspect.signature(formula).parameters.values()
    tensors = [p.name for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD]
    keywords = {
        p.name: value if p.name in FLAGS else scalar.leaf(p.name, float32) for p in parameters if p.kind is p.KEYWORD_ONLY
    }
    results = formula(*[scalar.leaf(name, float32) for name in tensors], **keywords)
    assert tensors[-1] == "grad"
    assert len(results) == len(tensors) - 1
    assert all(isinstance(result, scalar.Expr) and result.dtype is float32 for result in results)
