"""Operators beside their ONNX models: losses.

Run by test_onnx_operators.
"""

from onnx_cases import Cases, ints, randn

import flambeau as torch
import flambeau.nn.functional as F

CASES = case = Cases()
for n, red in ((n, red) for n in "mse_loss l1_loss smooth_l1_loss huber_loss".split() for red in ("mean", "sum", "none")):
    case(lambda a, b, n=n, red=red: getattr(F, n)(a, b, reduction=red), randn(3, 4), randn(3, 4))
case(F.binary_cross_entropy, torch.rand(3, 4), torch.rand(3, 4))
case(F.binary_cross_entropy_with_logits, randn(3, 4), torch.rand(3, 4))
case(F.kl_div, torch.rand(3, 4).log(), torch.rand(3, 4))
case(lambda a, b: F.nll_loss(a, b), randn(3, 5), ints(3))
case(F.cross_entropy, randn(3, 5), ints(3))
case(lambda a, b, w: F.cross_entropy(a, b, weight=w, ignore_index=1), randn(4, 5), torch.tensor([0, 1, 2, 3]), torch.rand(5))
case(lambda a, b: F.cross_entropy(a, b, label_smoothing=0.1), randn(3, 5), ints(3))
case(lambda a, b: F.cross_entropy(a, b), randn(3, 5), torch.rand(3, 5))
case(lambda a, b: F.cross_entropy(a, b, reduction="none"), randn(3, 5, 2), ints(3, 2))
case(F.soft_margin_loss, randn(3, 4), randn(3, 4).sign())
case(lambda a, b, d: F.triplet_margin_loss(a, b, d), randn(3, 4), randn(3, 4), randn(3, 4))
case(lambda a, b, y: F.cosine_embedding_loss(a, b, y), randn(3, 4), randn(3, 4), torch.tensor([1.0, -1, 1]))
case(lambda a, b, y: F.margin_ranking_loss(a, b, y), randn(3), randn(3), torch.tensor([1.0, -1, 1]))
case(lambda a, b: F.poisson_nll_loss(a, b), randn(3), torch.rand(3))
case(lambda a, b: F.hinge_embedding_loss(a, b), randn(3), torch.tensor([1.0, -1, 1]))
