"""Names that moved to task_heads, until all families import them from there."""

from .task_heads import MaskedLMHead as MaskedLMHead
