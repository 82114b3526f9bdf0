"""What programs learn of packages and of what would have to be in them."""

from flambeau.package.analyze.find_first_use_of_broken_modules import find_first_use_of_broken_modules
from flambeau.package.analyze.trace_dependencies import trace_dependencies

__all__ = ["find_first_use_of_broken_modules", "trace_dependencies"]
