"""torch.utils.data.datapipes.utils: what classes of pipes share."""
