"""torch.fx.config: switches of the passes."""

disable_progress = True
verbose_progress = False
do_not_emit_stack_traces = False
