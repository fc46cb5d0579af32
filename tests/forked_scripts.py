"""Scripts in processes of their own, forked from one that has the packages loaded already.

What is tested is what a fresh process does with its files, limits and signals, and not that Python
starts: that takes longer than all else, and is done by the tests that need it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys

COMMAND = "from epiloss.cli.main import main\nmain()"
# allocators that take room in advance would meet limits of memory without need
PLAIN = {"ARROW_DEFAULT_MEMORY_POOL": "system", "OMP_NUM_THREADS": "1"}
PLAIN |= {"MALLOC_ARENA_MAX": "1", "MALLOC_MMAP_THRESHOLD_": "65536"}

_SERVER = """
import json, os, selectors, sys, traceback
import numpy, scipy.special, sklearn.ensemble, sklearn.isotonic, sklearn.tree, jinja2
import pyarrow, pyarrow.csv, pyarrow.dataset, pyarrow.feather, pyarrow.parquet
import epiloss, epiloss.cli.main, epiloss.presentation.report, epiloss.repair.evaluate
import epiloss.sources.whole_files, epiloss.streaming.run

def child(script, arguments, streams):
    os.setsid()
    for number, stream in enumerate([os.open(os.devnull, os.O_RDONLY), *streams]):
        os.dup2(stream, number)
    sys.argv = ["-c", *arguments]
    code = 0
    try:
        exec(compile(script, "<script>", "exec"), {"__name__": "__main__"})
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
        code = 1
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)

def read(streams):
    said = {stream: [] for stream in streams}
    with selectors.DefaultSelector() as ready:
        for stream in streams:
            ready.register(stream, selectors.EVENT_READ)
        while ready.get_map():
            for key, _ in ready.select():
                piece = os.read(key.fd, 2**16)
                said[key.fd].append(piece)
                if not piece:
                    ready.unregister(key.fd)
                    os.close(key.fd)
    return [b"".join(pieces).decode() for pieces in said.values()]

for line in sys.stdin:
    ends = [os.pipe(), os.pipe()]
    process = os.fork()
    if process == 0:
        child(*json.loads(line), [write for _, write in ends])
    for _, write in ends:
        os.close(write)
    said = read([one for one, _ in ends])
    code = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
    print(json.dumps([code, *said]), flush=True)
"""


class ForkedScripts:
    """Runs scripts, one after the other, each in a fork of a process that has not begun to work."""

    def __init__(self) -> None:
        self._server = subprocess.Popen(
            [sys.executable, "-c", _SERVER],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, **PLAIN},
        )

    def run(self, script: str, *arguments: object) -> subprocess.CompletedProcess[str]:
        """Run a script with these arguments, and return how it ended and what it said."""
        assert self._server.stdin is not None
        assert self._server.stdout is not None
        given = list(map(str, arguments))
        print(json.dumps([script, given]), file=self._server.stdin, flush=True)
        code, out, said = json.loads(self._server.stdout.readline())
        return subprocess.CompletedProcess(given, code, out, said)

    def command(self, *arguments: object, before: str = "") -> subprocess.CompletedProcess[str]:
        """Run the command line, after what is to be done before it."""
        return self.run(f"{before}\n{COMMAND}", *arguments)

    def __enter__(self) -> ForkedScripts:
        return self

    def __exit__(self, *_: object) -> None:
        """End the process."""
        self._server.communicate()
