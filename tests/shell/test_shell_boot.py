"""What a start settles before anything is imported."""

import subprocess
import sys

import pytest

HELD = """
import resource
from attnscope.boot import prepare_environment
prepare_environment(has_window=False)
def hold():
    return [bytearray(b"x") * 200_000 for _ in range(30)]  # as many bytes as a trace holds
for _ in range(3):
    hold()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(20):
    hold()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="mallopt is of glibc")
def test_that_memory_which_was_freed_is_used_again_without_asking_the_system() -> None:
    told = subprocess.run(
        [sys.executable, "-c", HELD], capture_output=True, text=True, check=True, timeout=60
    )
    assert int(told.stdout) < 200  # pages touched for the first time; 28,660 when it is given back
