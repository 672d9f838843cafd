"""Names that moved to modeling_local_attention, until all families import them from there."""

from .modeling_local_attention import LocalModelOutput as LocalModelOutput
from .modeling_local_attention import LocalOutputs as LocalOutputs
from .modeling_local_attention import check_inputs as check_inputs
from .modeling_local_attention import selected_states as selected_states
