"""Print the n-th command of README.md: the n-th fenced block marked as bash, joined to one line."""

import re
import sys
from pathlib import Path

readme = Path(__file__).resolve().parent.parent / "README.md"
blocks = re.findall(r"```bash\n(.*?)```", readme.read_text(encoding="utf-8"), flags=re.DOTALL)
sys.stdout.write(blocks[int(sys.argv[1]) - 1].strip() + "\n")
