"""
Data larger than memory
=======================

``audit_table`` takes files or a table, and the names of the columns. The data are read in passes, batch
by batch, and only a sample is kept in memory. The same call reads on several cores or on a cluster, and
the result is the same, bit for bit.
"""

import tempfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

import epiloss
from epiloss.simulate import Sigmoid

# %%
# Files
# -----
# A million rows in four files, from a problem with a known grouping loss:

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
# ``memory`` limits the sample, and thereby the memory of the audit, however many rows there are.

result = epiloss.audit_table(logs, label="label", score="score", memory="200MB")
print(result)
print(f"\ntrue grouping loss {problem.truth().grouping_loss:.5f}")

# %%
# The models and regions were learned on the sample, and then evaluated on *every* row. Tables, diagrams
# and reports work as with arrays.

result.plot()

# %%
# Processes and clusters
# ----------------------
# All sums are integers, so the order of the files, the size of the batches and the number of processes
# do not change the result.

two = epiloss.audit_table(logs, label="label", score="score", memory="200MB", n_jobs=2)
print("two processes:", two.grouping_loss == result.grouping_loss)

# %%
# This example uses dask with two workers in this process. For a real cluster, pass
# ``engine="dask:tcp://host:8786"`` or a ``Client``; the workers must see the files under the same path.

from distributed import Client

with Client(processes=False, n_workers=2, threads_per_worker=1, dashboard_address=None) as client:
    spread = epiloss.audit_table(logs, label="label", score="score", memory="200MB", engine=client)
print("dask:", spread.grouping_loss == result.grouping_loss)

# %%
# Spark and Ray are engines too: ``engine="spark"`` or ``"ray"``, also with ``:ADDRESS``, or a
# ``SparkSession``. A Spark data frame, such as ``spark.table("logs")``, is read by its own cluster.
# The tests also kill workers during a pass, and the result stays the same
# (``test_spark_gives_the_same_bits_also_when_a_worker_kills_itself`` and
# ``test_ray_gives_the_same_bits_also_when_a_worker_kills_itself`` in
# ``tests/streaming/test_engines.py``).

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
# Instead of files, pass a polars lazy frame, a pyarrow data set, a duckdb relation or a Hugging Face
# data set. It is not loaded into memory as a whole, and rows and columns that the query leaves out are
# not read.

import polars

recent = polars.scan_parquet(logs / "*.parquet").filter(polars.col("x0") > 0).drop("x5")
part = epiloss.audit_table(recent, label="label", score="score", memory="200MB")
print(f"{part.n_samples:,} rows, grouping loss {part.grouping_loss:.5f}")

# %%
# Checkpoints
# -----------
# With ``checkpoint=``, the counts of each pass are saved. A run that was killed resumes from there
# when it is started again with the same options; a finished run returns its result without reading the
# files.

kept = folder / "kept"
once = epiloss.audit_table(logs, label="label", score="score", memory="200MB", checkpoint=kept)
again = epiloss.audit_table(logs, label="label", score="score", memory="200MB", checkpoint=kept)
print("the same:", once.grouping_loss == again.grouping_loss)

# %%
# Merging statistics
# ------------------
# The underlying sums can be merged. A plan is learned once. Any process can then count its own rows, and
# only the sums are exchanged, for example between days or between hospitals that keep their data.

first, *days = (problem.sample(20_000, random_state=10 + day) for day in range(6))
plan = epiloss.RegionPlan.learn(first.y, first.scores, first.X)
total = epiloss.RegionStats.empty(plan.name)
for day in days:
    total = total.merge(plan.stats(day.y, day.scores, day.X))
print(f"lower bound for five days: {plan.losses(total).total('grouping_loss'):.4f}")

# %%
# :doc:`/scale` describes how it works, and has measurements on 20 million rows.
