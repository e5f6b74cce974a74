"""Where a bundle starts: the command line, as `python -m attnscope` does."""

import sys

from attnscope.__main__ import main

sys.exit(main())
