"""torch.cuda.random: seeds and states of generators on devices, of which there are none. A face of flambeau.cuda."""

from flambeau import cuda as _cuda

__all__ = (
    "get_rng_state get_rng_state_all initial_seed manual_seed manual_seed_all seed seed_all set_rng_state set_rng_state_all"
).split()
globals().update({name: getattr(_cuda, name) for name in __all__})
