"""Programs that use finished models: a page, an export, a component of spaCy."""
