"""Works out the examples of the labs that train for longer than a lecture waits, and keeps what was found.

Run from the repository's root after a change of those experiments: python packaging/make_lab_findings.py
"""

import torch

from attnscope.files import replace_file
from attnscope.labs.findings import FINDINGS, findings_path
from attnscope.records.experiments import ReachQuestion, WritingQuestion
from attnscope.strict_json import json_text
from attnscope.training.reaching import read_past
from attnscope.training.writing_lengths import compare_writers

torch.set_num_threads(1)
*_, reach = read_past(ReachQuestion(), 0)
*_, writing = compare_writers(WritingQuestion())
kept = {"reach": FINDINGS.write(reach.finding), "writing": FINDINGS.write(writing.finding)}
replace_file(findings_path(), json_text(kept).encode())
