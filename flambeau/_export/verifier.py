"""torch._export.verifier: what exported programs must be like. A face of export._verifier."""

from flambeau.export._verifier import SpecViolationError, TrainingIRVerifier, Verifier, load_verifier

__all__ = ["SpecViolationError", "TrainingIRVerifier", "Verifier", "load_verifier"]
