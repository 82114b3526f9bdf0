"""torch.fx.passes.dialect.common: passes over graphs of operators by their names in aten."""
