"""torch.distributed.checkpoint.logging_handlers: the name of the logger that has checkpoints' events."""

__all__: list[str] = []

DCP_LOGGER_NAME = "dcp_logger"
