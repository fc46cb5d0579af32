"""The same seed gives the same bits: on any number of cores, in any country, process and folder."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sklearn.utils  # noqa: F401
import threadpoolctl

import epiloss
from determinism_scenarios import scenarios, write_files
from epiloss._threads import limited_threads
from epiloss.simulate import Sigmoid

SCRIPT = Path(__file__).parents[1] / "determinism_scenarios.py"
PLAIN = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "PYTHONHASHSEED": "0",
    "LC_ALL": "C.UTF-8",
    "TZ": "UTC",
}


def digests(
    folder: Path, changes: dict[str, str], *, n_jobs: int | None = None, cwd: Path | None = None
) -> dict[str, str]:
    """Return the digest of each scenario, from a process with another environment."""
    command = [sys.executable, str(SCRIPT), str(folder), *([] if n_jobs is None else [str(n_jobs)])]
    environment = {**os.environ, **PLAIN, **changes}
    done = subprocess.run(
        command, env=environment, cwd=cwd, capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, str] = json.loads(done.stdout)
    return found


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("files")
    write_files(folder)
    return folder


@pytest.fixture(scope="module")
def expected(files: Path) -> dict[str, str]:
    """Return the digests of this process."""
    return scenarios(files, None)


def test_threads_jobs_hash_seed_time_zone_and_folder_change_no_bit_together(
    files: Path, expected: dict[str, str], tmp_path: Path
) -> None:
    """All at once, in one process; the slow tests below tell which of them it was.

    There the number of threads, the hash seed and the language are others again.
    """
    many = {"OMP_NUM_THREADS": "3", "OPENBLAS_NUM_THREADS": "3"}
    elsewhere = {"PYTHONHASHSEED": "1", "TZ": "Pacific/Kiritimati"}
    assert digests(files, many | elsewhere, n_jobs=2, cwd=tmp_path) == expected


@pytest.mark.slow
def test_this_process_gives_the_same_bits_as_another(files: Path, expected: dict[str, str]) -> None:
    assert digests(files, {}) == expected


@pytest.mark.slow
def test_jobs_change_no_bit(files: Path, expected: dict[str, str]) -> None:
    assert digests(files, {"OMP_NUM_THREADS": "3"}, n_jobs=2) == expected


@pytest.mark.slow
def test_threads_of_other_libraries_and_the_hash_seed_change_no_bit(
    files: Path, expected: dict[str, str]
) -> None:
    many = {"OMP_NUM_THREADS": "4", "OPENBLAS_NUM_THREADS": "4"}
    assert digests(files, many | {"PYTHONHASHSEED": "random"}) == expected


@pytest.mark.slow
def test_a_decimal_comma_another_time_zone_and_folder_change_no_bit(
    files: Path, expected: dict[str, str], tmp_path: Path
) -> None:
    elsewhere = {"TZ": "Pacific/Kiritimati", **german(tmp_path)}
    assert digests(files, elsewhere, cwd=tmp_path) == expected


def german(folder: Path) -> dict[str, str]:
    """Make the German locale in a folder, and return the environment that uses it."""
    localedef = shutil.which("localedef")
    if localedef is None:
        pytest.skip("the German locale is made by localedef, which is not installed")
    made = subprocess.run(
        [localedef, "-i", "de_DE", "-f", "UTF-8", str(folder / "de_DE.UTF-8")], check=False
    )
    if made.returncode:
        pytest.skip("localedef has no sources of the German locale")
    found = {"LC_ALL": "de_DE.UTF-8", "LOCPATH": str(folder)}
    code = "import locale; locale.setlocale(locale.LC_ALL, ''); print(locale.str(0.5))"
    told = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, **found}, capture_output=True, text=True
    )
    assert told.stdout.strip() == "0,5"
    return found


# threads of other libraries


def threads_of(api: str) -> list[int]:
    return [one["num_threads"] for one in threadpoolctl.threadpool_info() if one["user_api"] == api]


def test_threads_are_as_before_after_an_audit_and_after_an_error() -> None:
    sample = Sigmoid().sample(300)
    with threadpoolctl.threadpool_limits(2):
        before = threads_of("blas"), threads_of("openmp")
        assert set(before[0]) == {2}
        epiloss.audit(sample.y, sample.scores, sample.X)
        assert (threads_of("blas"), threads_of("openmp")) == before
        with pytest.raises(epiloss.DataError):
            epiloss.audit(sample.y[:5], sample.scores, sample.X)
        assert (threads_of("blas"), threads_of("openmp")) == before


def test_audits_side_by_side_hold_blas_until_the_last_is_done() -> None:
    inside, leave = threading.Event(), threading.Event()

    def other() -> None:
        with limited_threads(openmp=True):
            inside.set()
            leave.wait(30)

    with threadpoolctl.threadpool_limits(2):
        thread = threading.Thread(target=other)
        thread.start()
        assert inside.wait(30)
        with limited_threads():
            assert set(threads_of("blas")) == {1}
        assert set(threads_of("blas")) == {1}
        leave.set()
        thread.join()
        assert set(threads_of("blas")) == {2}


@pytest.mark.parametrize("n_jobs", [None, 2])
def test_a_learner_and_a_partition_have_one_thread(n_jobs: int | None) -> None:
    class Watching:
        def fit(self, X: Any, y: Any) -> None:
            seen.update([*threads_of("openmp"), *threads_of("blas")])

        def predict(self, X: Any) -> Any:
            return np.zeros(len(X))

    seen: set[int] = set()
    sample = Sigmoid().sample(300)
    data = (sample.y, sample.scores, sample.X)
    with threadpoolctl.threadpool_limits(2):
        for models in ({"learner": Watching()}, {"partition": Watching(), "method": "partition"}):
            seen.clear()
            epiloss.audit(*data, n_jobs=n_jobs, **models)
            assert seen == {1}
