"""Tables and figures of the papers: `python -m reproduction TABLE` trains their models from a clone."""
