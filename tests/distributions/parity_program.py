"""Prints as JSON what the distributions of an implementation (the argument: flambeau or torch) give, print and refuse."""

import importlib
import json
import sys
import warnings

NAME = sys.argv[1]
torch = importlib.import_module(NAME)
D = importlib.import_module(NAME + ".distributions")
t = torch.tensor
results = {}
ATTRIBUTES = ("mean", "variance", "stddev", "mode", "support", "batch_shape", "event_shape", "has_rsample", "arg_constraints")
SLOPES = (
    "Normal",
    "Laplace",
    "Cauchy",
    "Gumbel",
    "Gamma",
    "Beta",
    "InverseGamma",
    "Weibull",
    "Pareto",
    "LogNormal",
    "FisherSnedecor",
)

DISTRIBUTIONS = """
Normal(t([0.5, -1.0]), t([1.5, 0.5])); Normal(0, 2); Laplace(t([0.5, -1.0]), t([1.5, 0.5]))
Cauchy(0.5, t([1.5, 0.5])); Uniform(t([0.5, -1.0]), t([1.5, 0.5])); Exponential(t([1.5, 0.5]))
Gamma(t([0.5, 3.0]), t([1.5, 0.5])); Chi2(t([0.5, 3.0])); Beta(t([0.5, 3.0]), t([1.5, 0.5]))
Dirichlet(t([[0.5, 3.0, 1.0], [2.0, 0.2, 0.3]])); StudentT(t([0.5, 1.5, 3.0]), 1.0, 2.0)
FisherSnedecor(t([1.5, 3.0]), t([1.5, 5.0])); GeneralizedPareto(0.5, 1.5, t([-0.3, 0.0, 0.3, 0.7, 1.2]))
VonMises(t([0.5, 2.0]), 3.0); Bernoulli(t([0.0, 0.3, 0.5, 1.0])); Bernoulli(logits=t([-2.0, 0.5]))
Geometric(t([0.2, 1.0])); Geometric(logits=t([0.2, 1.0])); Binomial(6, t([0.0, 0.3, 1.0]))
Binomial(t(30), logits=t([0.5, -1.0])); NegativeBinomial(t([2.5, 7.0]), t([0.2, 0.6])); Poisson(t([0.0, 2.5, 40.0]))
ContinuousBernoulli(t([0.1, 0.4995, 0.5, 0.9])); Categorical(t([[0.0, 1.0, 3.0], [1.0, 1.0, 1.0]]))
Categorical(logits=t([0.5, -1.0])); OneHotCategorical(t([0.2, 0.8]))
OneHotCategoricalStraightThrough(logits=t([0.5, -1.0])); Multinomial(5, t([0.2, 0.3, 0.5]))
RelaxedBernoulli(t(0.7), t([0.2, 0.6])); RelaxedOneHotCategorical(t(0.7), t([0.2, 0.3, 0.5]))
LogNormal(t([0.5, -1.0]), t([1.5, 0.5])); LogisticNormal(t([0.5, -1.0]), t([1.5, 0.5])); HalfNormal(t([1.5, 0.5]))
HalfCauchy(t([1.5, 0.5])); Gumbel(t([0.5, -1.0]), t([1.5, 0.5])); Pareto(t([1.5, 0.5]), t([0.7, 3.0]))
Weibull(t([1.5, 0.5]), 2.0); Kumaraswamy(t([0.5, 3.0]), t([1.5, 0.5])); InverseGamma(t([0.5, 1.5, 3.0]), 2.0)
LKJCholesky(2, t([0.7, 3.0])); LKJCholesky(3, 1.5); MultivariateNormal(t([0.5, -1.0]), t([[2.0, 0.5], [0.5, 1.0]]))
MultivariateNormal(t([0.5, -1.0]), scale_tril=t([[2.0, 0.0], [0.5, 1.0]]))
MultivariateNormal(t([0.5, -1.0]), precision_matrix=t([[2.0, 0.5], [0.5, 1.0]]))
LowRankMultivariateNormal(t([0.5, -1.0, 2.0]), t([[1.0], [0.5], [2.0]]), t([0.5, 1.0, 0.7]))
Wishart(t([4.5, 6.0]), torch.eye(2)); Independent(Normal(t([0.5, -1.0]), 1.5), 1)
MixtureSameFamily(Categorical(t([0.3, 0.7])), Normal(t([-1.0, 2.0]), 1.0))
TransformedDistribution(Normal(t([0.5, -1.0]), 1.5), [TanhTransform(), AffineTransform(1.0, -2.0)])
TransformedDistribution(Normal(t([0.5, -1.0]), 1.5), StickBreakingTransform())
"""

REFUSED = """
Normal(t([0.0]), t([-1.0])); Normal("a", 1.0); Normal(t([0.0, 1.0]), torch.ones(3)); Uniform(1.0, 1.0)
Gamma(0.0, 1.0); Beta(t(float("nan")), 1.0); Dirichlet(t([0.5, -1.0])); Bernoulli(t(1.5)); Bernoulli(0.2, 0.3)
Categorical(t([0.5, -1.5])); Poisson(-1.0); StudentT(-1.0); FisherSnedecor(1.0, -1.0); Binomial(-1, t(0.5))
NegativeBinomial(1.0, t([1.0])); VonMises(0.0, 0.0); MultivariateNormal(torch.zeros(2), torch.ones(2, 2))
MultivariateNormal(torch.zeros(2), scale_tril=-torch.eye(2)); LKJCholesky(3, -1.0)
LowRankMultivariateNormal(torch.zeros(2), torch.ones(2, 1), -torch.ones(2)); Wishart(1.0, torch.eye(2))
Pareto(-1.0, 1.0); Weibull(1.0, 0.0); Kumaraswamy(0.0, 1.0); InverseGamma(0.0, 1.0); HalfNormal(-1.0)
LogNormal(0.0, -1.0); GeneralizedPareto(0.0, 0.0, 1.0); Normal(0.0, 1.0).log_prob(torch.full((2,), float("nan")))
Gamma(1.0, 1.0).log_prob(t(-1.0)); Bernoulli(0.5).log_prob(t(0.5))
Normal(torch.zeros(2), 1.0).log_prob(torch.zeros(3)); Dirichlet(torch.ones(3)).log_prob(torch.ones(3))
Normal(0.0, 1.0).enumerate_support(); Categorical(torch.ones(3)).log_prob(t(3))
Independent(Normal(torch.zeros(2), 1.0), 2); Poisson(1.0).rsample(); Poisson(1.0).entropy()
kl_divergence(Normal(0.0, 1.0), VonMises(0.0, 1.0)); transform_to(constraints.boolean)
biject_to(constraints.lower_cholesky); TransformedDistribution(Normal(0.0, 1.0), AbsTransform()).log_prob(t(1.0))
ReshapeTransform((2,), (3,)); Transform(cache_size=3); CatTransform([ExpTransform()], lengths=[1, 2])
StackTransform([ExpTransform()])(torch.zeros(2)); SoftmaxTransform().forward_shape(())
"""


def plain(value):
    if isinstance(value, torch.Tensor):
        return [str(value.dtype).rpartition(".")[2], list(value.shape), value.detach().tolist()]
    if isinstance(value, (tuple, list)):
        return [plain(each) for each in value]
    return value if isinstance(value, (bool, int, float, str, type(None))) else repr(value)


def record(name, make):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            results[name] = plain(make())
        except Exception as error:
            results[name] = [type(error).__name__, str(error).replace(NAME + ".", "torch.")]


def evaluate(expression):
    return eval(expression, {**vars(D), "t": t, "torch": torch})


def expressions(text):
    return [each.strip() for each in text.replace("\n", ";").split(";") if each.strip()]


def seeded(make, *arguments):
    torch.manual_seed(5)
    return make(*arguments), torch.rand(2)


made = {expression: evaluate(expression) for expression in expressions(DISTRIBUTIONS)}
for name, d in made.items():
    record(f"{name} prints", lambda d=d: repr(d))
    for attribute in ATTRIBUTES:
        if (name.partition("(")[0], attribute) != ("Kumaraswamy", "mode"):  # always NaN in PyTorch 2.13
            record(f"{name}.{attribute}", lambda d=d, attribute=attribute: getattr(d, attribute))
    for method in ("entropy", "perplexity", "enumerate_support"):
        record(f"{name}.{method}", lambda d=d, method=method: getattr(d, method)())
    for shape in ((), (3,), (2, 10)):
        record(f"{name}.sample({shape})", lambda d=d, shape=shape: seeded(d.sample, shape))
    record(f"{name}.expand", lambda d=d: (repr(d.expand((3, *d.batch_shape))), seeded(d.expand((3, *d.batch_shape)).sample)))
    torch.manual_seed(9)
    x = d.sample((3,))
    for method in ("log_prob", "cdf"):
        record(f"{name}.{method}", lambda d=d, x=x, method=method: getattr(d, method)(x))
    record(f"{name}.icdf", lambda d=d: d.icdf(t([0.1, 0.7]).reshape((2,) + (1,) * len(d.batch_shape))))
    record(f"{name} transforms", lambda d=d: (repr(D.transform_to(d.support)), repr(D.biject_to(d.support))))

for name in SLOPES:

    def slopes(name=name):
        parameters = [t([0.6, 2.5], requires_grad=True), t([1.5, 0.7], requires_grad=True)]
        torch.manual_seed(3)
        return torch.autograd.grad(getattr(D, name)(*parameters).rsample((4,)).sum(), parameters)

    record(f"{name} slopes", slopes)

# one of a family, without batches that don't fit
single = list(
    map(
        evaluate,
        expressions("""
Bernoulli(0.3); Beta(1.5, 0.7); Binomial(4, t(0.3)); Categorical(t([0.3, 0.7])); Cauchy(0.5, 2.0); ContinuousBernoulli(0.3)
Dirichlet(t([0.3, 0.7])); Exponential(1.5); Gamma(1.5, 0.7); Geometric(0.3); Gumbel(0.5, 2.0); HalfNormal(1.5); Laplace(0.5, 2.0)
LowRankMultivariateNormal(t([0.5, 1.0]), t([[1.0], [0.5]]), t([0.5, 1.0])); MultivariateNormal(torch.zeros(2), torch.eye(2))
Normal(0.5, 2.0); OneHotCategorical(t([0.3, 0.7])); Pareto(1.5, 2.5); Poisson(1.5); Uniform(0.2, 0.9); Uniform(-1.0, 2.0)
LogNormal(0.5, 2.0); Chi2(3.0); Independent(Normal(torch.zeros(2), 1.0), 1); Wishart(t(3.0), torch.eye(2)); StudentT(3.0)"""),
    )
)
for p in single:
    for q in single:
        if p.event_shape == q.event_shape:
            record(f"kl {p!r} {q!r} {type(p).__name__}", lambda p=p, q=q: D.kl_divergence(p, q))

for expression in expressions(REFUSED):
    record(expression, lambda expression=expression: evaluate(expression))
print(json.dumps(results))
