"""Keeps a finished sweep as what is seen under Scaling by who has no runs yet (resources/sweeps).

Run from the repository's root with the folder that the sweep wrote:
python packaging/keep_sweep.py FOLDER
Models and looks are not kept.
"""

import re
import sys
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # this checkout, not an installed copy

from attnscope.files import replace_file
from attnscope.outside import json_text
from attnscope.training.summaries import read_runs
from attnscope.viewmodels.training.runs_compared import SWEEPS, kept_sweep_path

runs, _ = read_runs(sys.argv[1:])
kept = [
    SWEEPS.write(
        replace(
            run,
            folder="",
            writer=None,
            recipe=re.sub(r'(?m)^path = ".*/', 'path = "', run.recipe),
        )
    )
    for run in sorted(runs, key=lambda run: run.n_body)
]
kept_sweep_path().parent.mkdir(exist_ok=True)
replace_file(kept_sweep_path(), json_text({"runs": kept}).encode())
