"""torch.export.decomp_utils: the table by which a program is taken apart, under the name by which libraries import it."""

from flambeau._decomp.table import CustomDecompTable

__all__ = ["CustomDecompTable"]
