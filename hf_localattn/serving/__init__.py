"""Programs that use finished models."""
