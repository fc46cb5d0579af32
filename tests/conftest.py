"""What holds for all tests: one thread each, because threads of many small fits wait for each other.

Set before NumPy is loaded, and handed on to the processes that tests start.
"""

import os
from collections.abc import Iterator

import pytest

from forked_scripts import ForkedScripts

os.environ["OMP_NUM_THREADS"] = "1"


@pytest.fixture(scope="session")
def forked() -> Iterator[ForkedScripts]:
    """Run scripts and commands in forks of one process, which has the packages loaded already."""
    with ForkedScripts() as scripts:
        yield scripts
