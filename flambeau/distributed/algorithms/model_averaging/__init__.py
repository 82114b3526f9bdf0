"""torch.distributed.algorithms.model_averaging: averages of the parameters of several processes."""
