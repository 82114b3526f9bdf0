"""torch._library.fake_profile: fakes of what the results of operators were like. A face of dispatcher.fake_profiles."""

from flambeau.dispatcher.fake_profiles import MissingOpProfile, OpProfile, TensorMetadata, unsafe_generate_fake_kernels

__all__ = ["MissingOpProfile", "OpProfile", "TensorMetadata", "unsafe_generate_fake_kernels"]
