"""
A gate for models in CI
=======================

A pipeline that trains a model every night should stop when the model is wrong about people. The
command ``epiloss audit ... --fail-above 0.005`` exits with code 3 when the grouping loss is above
0.005 *beyond doubt*: when the lower end of its confidence interval is.
"""

import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from epiloss.simulate import Sigmoid

folder = Path(tempfile.mkdtemp())

# %%
# Last night's predictions
# ------------------------
# Two models, as files with a label, a score and features. The second is calibrated as well as the
# first, and misjudges half of the rows.

for name, strength in (("monday", 0.0), ("tuesday", 0.6)):
    sample = Sigmoid(perturbation="step", grouping=strength).sample(8_000)
    columns = {"y": sample.y, "p": sample.scores, "age": sample.X[:, 0], "income": sample.X[:, 1]}
    pq.write_table(pa.table(columns), folder / f"{name}.parquet")


def run(command: str) -> None:
    """Run a command as a shell would; show its last lines and its exit code."""
    words = [sys.executable, "-m", *shlex.split(command)]
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False)
    print("$ " + command.replace(" --fail-above", " \\\n    --fail-above"))
    print("\n".join(done.stdout.strip().splitlines()[2:7]))
    print(done.stderr.strip())
    print(f"exit code {done.returncode}\n")


# %%
# The gate
# --------

run("epiloss audit monday.parquet --label y --score p --fail-above 0.005")

# %%
run("epiloss audit tuesday.parquet --label y --score p --fail-above 0.005")

# %%
# In a pipeline nothing else is needed: a code other than 0 stops it.
#
# .. code-block:: yaml
#
#     - name: the probabilities are right
#       run: epiloss audit predictions.parquet --label y --score p --fail-above 0.005 --report audit.html
#
# Why the lower end
# -----------------
# An estimate goes up and down with the sample. A gate on the estimate would stop good models by
# chance, and more often the fewer rows there are. The lower end of the interval lies above the true loss
# in less than one run in twenty: :doc:`/coverage` counts it, in the column *valid*. The other way round,
# a gate that is passed is no proof that the model is good. If *too little data to tell* is what the
# verdict says, give it more rows.
#
# Other losses
# ------------
# The option may be repeated, with a loss named: the grouping loss (also without a name), the calibration
# loss, the score.

run(
    "epiloss audit tuesday.parquet --label y --score p "
    "--fail-above grouping=0.1 --fail-above calibration=0.002 --fail-above score=0.05"
)

# %%
# What limit?
# -----------
# A loss reads as a squared distance: 0.0025 is 5 points of probability, root mean square; 0.01 is
# 10 points. :doc:`The verdict </verdict>` calls a loss relevant from 1% of the score of one who
# knows nothing but the base rate, which for a balanced problem is 0.0025.
#
# Exit codes
# ----------
# 0: passed. 3: above a limit. 2: wrong usage. 4: bad data, for instance a missing column, so that
# a broken file is not taken for a bad model:

run("epiloss audit monday.parquet --label y --score probability --fail-above 0.005")

# %%
# ``--json`` prints everything for programs, and the gate works as before.
