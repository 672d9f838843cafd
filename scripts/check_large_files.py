"""Refuse large files in a commit (see `.pre-commit-config.yaml`)."""

import sys
from pathlib import Path

LIMIT = 1_000_000

large = [path for path in map(Path, sys.argv[1:]) if path.is_file() and path.stat().st_size > LIMIT]
for path in large:
    print(f"{path} has {path.stat().st_size:,} bytes, more than {LIMIT:,}: leave it out of the repository.")
sys.exit(bool(large))
