"""`python -m hf_localattn`, which is `hf-localattn`."""

import sys

from hf_localattn_command import main

sys.exit(main())
