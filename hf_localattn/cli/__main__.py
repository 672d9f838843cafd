"""`python -m hf_localattn.cli`."""

import sys

from hf_localattn.cli import main

sys.exit(main())
