"""The metrics of GLUE's tasks."""
