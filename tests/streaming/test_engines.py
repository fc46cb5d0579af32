"""Clusters on this machine and the tables of other packages: all give the bits of one process."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

import epiloss
from epiloss.simulate import Sigmoid
from spark_start import SUBMIT

N, PARTS = 24_000, 8
MEMORY = "14MB"  # for a sample of about 10,000 rows


def needs(*packages: str) -> pytest.MarkDecorator:
    """Skip a test without any work where a package is missing."""
    missing = [name for name in packages if find_spec(name.split(".")[0]) is None]
    return pytest.mark.skipif(bool(missing), reason=f"not installed: {', '.join(missing)}")


def rows() -> Any:
    g = np.random.default_rng(1)
    sample = Sigmoid(perturbation="step").sample(N, random_state=1)
    X = np.asarray(sample.X)
    city = np.array(["Oslo", "Rom", None], object)[g.integers(3, size=N)]
    columns = {"a": X[:, 0], "b": X[:, 1], "city": city, "score": sample.scores, "label": sample.y}
    return pa.table(columns)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("logs")
    whole = rows()
    for place in range(PARTS):
        part = whole.slice(place * N // PARTS, N // PARTS)
        parquet.write_table(part, path / f"{place}.parquet")
    return path


def numbers(X: Any, **options: Any) -> Any:
    return json.loads(
        epiloss.audit_table(X, label="label", score="score", memory=MEMORY, **options).to_json()
    )


@pytest.fixture(scope="module")
def expected(folder: Path) -> Any:
    return numbers(folder)


@pytest.fixture
def poisoned(tmp_path: Path) -> Path:
    """Return a folder with a file of which row 123 lacks its score."""
    folder, whole = tmp_path / "logs", rows()
    folder.mkdir()
    parquet.write_table(whole.slice(0, 12_000), folder / "good.parquet")
    bad = whole.slice(12_000, 1_000)
    scores = bad["score"].to_numpy().copy()
    scores[123] = np.nan
    parquet.write_table(bad.set_column(3, "score", pa.array(scores)), folder / "bad.parquet")
    return folder


def check_found(found: Any, expected: Any, ways: Sequence[str], poisoned: Path) -> None:
    """Hold what a script has found against one process, and its error against the poisoned file."""
    for way in ways:
        assert found[way] == expected, way
    assert "scores must not be missing" in found["error"]
    assert f"row 123 of {poisoned / 'bad.parquet'}" in found["error"]


def script(body: str) -> dict[str, Any]:
    """Run a script in a process of its own, whose clusters, threads and warnings end with it."""
    start = f"""
    import json, os, signal, sys, warnings
    warnings.simplefilter("ignore")
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYSPARK_SUBMIT_ARGS"] = {SUBMIT!r}
    import epiloss

    def numbers(X, **options):
        named = {{"label": "label", "score": "score", "memory": {MEMORY!r}}}
        return json.loads(epiloss.audit_table(X, **named, **options).to_json())

    def error(X, **options):
        try:
            numbers(X, **options)
        except epiloss.DataError as error:
            return str(error)

    def main():
    """
    text = textwrap.dedent(start) + textwrap.indent(textwrap.dedent(body), "    ")
    text += "\nif __name__ == '__main__':\n    print(json.dumps(main()))\n"
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


@needs("distributed", "dask.dataframe")
def test_dask_gives_the_same_bits_also_when_a_worker_is_killed(
    folder: Path, expected: Any, poisoned: Path
) -> None:
    found = script(
        f"""
        import dask.dataframe
        from distributed import Client, LocalCluster
        from epiloss.streaming.engines.dask import DaskEngine
        found = {{"own": numbers({str(folder)!r}, engine="dask", n_jobs=2)}}
        with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster:
            found["address"] = numbers({str(folder)!r}, engine=f"dask:{{cluster.scheduler_address}}")
            with Client(cluster) as client:
                frame = dask.dataframe.read_parquet({str(folder)!r})
                found["frame"] = numbers(frame, engine=client)
                found["frame here"] = numbers(frame)
                found["error"] = error({str(poisoned)!r}, engine=client)
                run = DaskEngine.run

                def run_and_kill(self, work, tasks):
                    for place, done in enumerate(run(self, work, tasks)):
                        yield done
                        if place == 1 and work.name == "tally":
                            worker = next(iter(client.run(os.getpid).values()))
                            os.kill(worker, signal.SIGKILL)
                            found["n_killed"] = 1

                DaskEngine.run = run_and_kill
                found["killed"] = numbers({str(folder)!r}, engine=client)
        return found
        """
    )
    assert found["n_killed"] == 1
    check_found(found, expected, ("own", "address", "frame", "frame here", "killed"), poisoned)


needs_java = pytest.mark.skipif(shutil.which("java") is None, reason="Java is not installed")


@needs_java
@needs("pyspark")
def test_spark_gives_the_same_bits_also_when_a_worker_kills_itself(
    folder: Path, expected: Any, tmp_path: Path, poisoned: Path
) -> None:
    mark = tmp_path / "died"
    found = script(
        f"""
        from pyspark.sql import SparkSession
        session = (
            SparkSession.builder.master("local[2,4]").config("spark.ui.enabled", "false").getOrCreate()
        )
        found = {{"path": numbers({str(folder)!r}, engine=session)}}
        frame = session.read.parquet({str(folder)!r})
        found["frame"] = numbers(frame.repartition(5))
        frame.createOrReplaceTempView("logs")
        found["table"] = numbers(session.table("logs"), engine="spark")

        from epiloss.streaming.engines import spark
        inner = spark._over_tasks
        def deadly(work, tasks):
            run = inner(work, tasks)
            def once(batches):
                import os, signal
                mark = {str(mark)!r}
                if work.name == "tally" and not os.path.exists(mark):
                    open(mark, "w").close()
                    os.kill(os.getpid(), signal.SIGKILL)
                yield from run(batches)
            return once
        spark._over_tasks = deadly
        found["killed"] = numbers({str(folder)!r}, engine=session)
        spark._over_tasks = inner
        found["error"] = error({str(poisoned)!r}, engine=session)
        session.stop()
        return found
        """
    )
    assert mark.exists()
    check_found(found, expected, ("path", "frame", "table", "killed"), poisoned)


@needs_java
@needs("pyspark", "grpc")
def test_spark_connect_gives_the_same_bits(folder: Path, expected: Any) -> None:
    found = script(
        f"""
        from pyspark.sql import SparkSession
        session = (
            SparkSession.builder.remote("local[2,4]").config("spark.ui.enabled", "false").getOrCreate()
        )
        found = {{"path": numbers({str(folder)!r}, engine=session)}}
        found["frame"] = numbers(session.read.parquet({str(folder)!r}))
        session.stop()
        return found
        """
    )
    assert found["path"] == expected
    assert found["frame"] == expected


@needs("ray")
def test_ray_gives_the_same_bits_also_when_a_worker_kills_itself(
    folder: Path, expected: Any, tmp_path: Path, poisoned: Path
) -> None:
    mark = tmp_path / "died"
    found = script(
        f"""
        from epiloss.streaming.engines import ray as engine
        found = {{"path": numbers({str(folder)!r}, engine="ray")}}
        inner = engine.run_task

        def deadly(work, part, offset):
            if work.name == "tally" and not os.path.exists({str(mark)!r}):
                open({str(mark)!r}, "w").close()
                os.kill(os.getpid(), signal.SIGKILL)
            return inner(work, part, offset)

        engine.run_task = deadly
        found["killed"] = numbers({str(folder)!r}, engine="ray")
        engine.run_task = inner
        found["error"] = error({str(poisoned)!r}, engine="ray")
        return found
        """
    )
    assert mark.exists()
    check_found(found, expected, ("path", "killed"), poisoned)


# tables of other packages


@needs("duckdb")
def test_a_duckdb_relation_is_streamed(folder: Path, expected: Any) -> None:
    import duckdb

    assert numbers(duckdb.sql(f"select * from '{folder}/*.parquet'")) == expected


@needs("datasets")
def test_a_hugging_face_data_set_is_streamed(folder: Path, expected: Any, tmp_path: Path) -> None:
    import datasets

    files = sorted(map(str, folder.iterdir()))
    assert numbers(datasets.Dataset(pa.concat_tables(map(parquet.read_table, files)))) == expected
    lazy = datasets.load_dataset("parquet", data_files=files, split="train", cache_dir=str(tmp_path))
    assert numbers(lazy) == expected
    with pytest.raises(epiloss.DataError, match="Pass one split"):
        numbers(datasets.DatasetDict({"train": lazy}))


# torchmetrics


@needs("torchmetrics")
def test_a_metric_tracks_the_losses_over_batches_and_ranks() -> None:
    import torch

    from epiloss.analysis.region_plan import RegionPlan
    from epiloss.integrations.torchmetrics import GroupingLossMetric

    learn, *batches = (Sigmoid(perturbation="step").sample(3_000, random_state=i) for i in range(5))
    plan = RegionPlan.learn(learn.y, learn.scores, learn.X)
    alone, *ranks = (GroupingLossMetric(plan) for _ in range(3))
    for place, batch in enumerate(batches):
        given = [torch.tensor(np.asarray(one)) for one in (batch.scores, batch.y, batch.X)]
        alone.update(*given)
        ranks[place % 2].update(*given)
    merged = ranks[0]
    merged.merge_state(ranks[1])
    assert torch.equal(merged.sums, alone.sums)
    found = alone.compute()
    assert found == merged.compute()
    together = [np.concatenate([getattr(one, name) for one in batches]) for name in ("y", "scores", "X")]
    stats = plan.stats(*together)
    assert found["grouping_loss"].item() == plan.losses(stats).total("grouping_loss")
    assert found["grouping_loss"].item() > 0.02
    alone.reset()
    assert int(alone.sums.sum()) == 0
