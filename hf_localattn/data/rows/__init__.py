"""The rows of each task: its columns, its checks, and what reads them from files and data sets."""
