"""What holds for all tests: one thread each, because threads of many small fits wait for each other.

Set before NumPy is loaded, and handed on to the processes that tests start.
"""

import os

os.environ["OMP_NUM_THREADS"] = "1"
