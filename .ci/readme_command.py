"""Print the command of README.md that holds a word: its fenced block marked as bash, joined to one line."""

import re
import sys
from pathlib import Path

readme = Path(__file__).resolve().parent.parent / "README.md"
blocks = re.findall(r"```bash\n(.*?)```", readme.read_text(encoding="utf-8"), flags=re.DOTALL)
(block,) = (block for block in blocks if sys.argv[1] in block)
sys.stdout.write(block.strip() + "\n")
