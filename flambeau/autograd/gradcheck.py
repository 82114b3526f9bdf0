"""`flambeau.autograd.gradcheck`: derivative rules against finite differences."""

from __future__ import annotations

from flambeau.core.gradcheck import GradcheckError, gradcheck, gradgradcheck

__all__ = ["GradcheckError", "gradcheck", "gradgradcheck"]
