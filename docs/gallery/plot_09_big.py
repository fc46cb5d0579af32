"""
Big data and clusters
=====================

Name the columns, and give files or a table instead of arrays: the data are then read in passes,
batch by batch, and only a sample is kept. The same call reads on all cores or on a cluster, and the
result does not depend on it, bit for bit.
"""

import tempfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

import epiloss
from epiloss.simulate import Sigmoid

# %%
# Files larger than what is kept
# ------------------------------
# A million rows in four files, of a problem whose grouping loss is known.

problem = Sigmoid(perturbation="step", grouping=0.5, n_noise=4)
folder = Path(tempfile.mkdtemp())
logs = folder / "logs"
logs.mkdir()
for number in range(4):
    sample = problem.sample(250_000, random_state=number)
    columns = {"label": sample.y, "score": sample.scores}
    columns |= {f"x{j}": sample.X[:, j].astype("float32") for j in range(sample.X.shape[1])}
    pq.write_table(pa.table(columns), logs / f"part-{number}.parquet")
print(f"{sum(file.stat().st_size for file in logs.iterdir()) / 1e6:.0f} MB")

# %%
# ``memory`` bounds the sample, and with it what the audit may take, however many rows there are.

result = epiloss.audit_table(logs, label="label", score="score", memory="200MB")
print(result)
print(f"\nin truth: grouping loss {problem.truth().grouping_loss:.5f}")

# %%
# Regions were learned on half of the sample, and *every* row was then counted in its region: the
# interval is that of a million rows. Everything else works as with arrays: tables, diagrams, reports.

result.plot()

# %%
# The same bits
# -------------
# What is added up is whole numbers, so that the order of files, the size of batches and who adds
# leave no trace.

two = epiloss.audit_table(logs, label="label", score="score", memory="200MB", n_jobs=2)
print("two processes:", two.grouping_loss == result.grouping_loss)

# %%
# A cluster: here dask with two workers in this process. ``engine="dask:tcp://host:8786"`` or a
# ``Client`` of your own is a real one; its workers must see the files by the same path.

from distributed import Client

with Client(processes=False, n_workers=2, threads_per_worker=1, dashboard_address=None) as client:
    spread = epiloss.audit_table(logs, label="label", score="score", memory="200MB", engine=client)
print("dask:", spread.grouping_loss == result.grouping_loss)

# %%
# Spark and Ray are engines too, where they are installed: ``engine="spark"``, with ``:ADDRESS`` of a
# cluster, a ``SparkSession``, or ``"ray"``; a Spark data frame, ``spark.table("logs")``, is read where
# it lies. The tests also kill workers on the way, and the bits stay the same
# (in ``tests/streaming/test_engines.py``,
# ``test_spark_gives_the_same_bits_also_when_a_worker_kills_itself`` and
# ``test_ray_gives_the_same_bits_also_when_a_worker_kills_itself``).

from importlib.util import find_spec

for package, engine in {"ray": "ray", "pyspark": "spark:local[2]"}.items():
    if find_spec(package) is None:
        print(f"{package} is not installed")
        continue
    spread = epiloss.audit_table(logs, label="label", score="score", memory="200MB", engine=engine)
    print(f"{package}:", spread.grouping_loss == result.grouping_loss)

# %%
# Tables
# ------
# A polars lazy frame, a pyarrow data set, a duckdb relation or a Hugging Face data set may stand in
# the place of the files. What is not in memory stays out of it, and what the query leaves out is
# never read.

import polars

recent = polars.scan_parquet(logs / "*.parquet").filter(polars.col("x0") > 0).drop("x5")
part = epiloss.audit_table(recent, label="label", score="score", memory="200MB")
print(f"{part.n_samples:,} rows, grouping loss at least {part.grouping_loss:.5f}")

# %%
# Killed? It goes on
# ------------------
# With a checkpoint, what each pass has counted is kept. A run that is started again with the same
# options goes on from there; once finished, it answers without reading the files again.

kept = folder / "kept"
once = epiloss.audit_table(logs, label="label", score="score", memory="200MB", checkpoint=kept)
again = epiloss.audit_table(logs, label="label", score="score", memory="200MB", checkpoint=kept)
print("the same:", once.grouping_loss == again.grouping_loss)

# %%
# By hand
# -------
# Underneath are sums that merge. A plan is learned once; any process that sees some rows counts them,
# and the sums travel instead of the rows: from a day's log, from a hospital that keeps its data.

first, *days = (problem.sample(20_000, random_state=10 + day) for day in range(6))
plan = epiloss.RegionPlan.learn(first.y, first.scores, first.X)
total = epiloss.RegionStats.empty(plan.name)
for day in days:
    total = total.merge(plan.stats(day.y, day.scores, day.X))
print(f"grouping loss of five days, at least {plan.losses(total).total('grouping_loss'):.4f}")

# %%
# :doc:`/scale` tells what can be read and how it works, and what was measured on 20 million rows.
