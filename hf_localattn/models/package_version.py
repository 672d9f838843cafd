"""Version of hf_localattn, until all rooms read it from configuration_local_attention."""

from .configuration_local_attention import VERSION as VERSION
