"""
A gate for models in CI
=======================

A pipeline that retrains a model should stop if the new model's probabilities are wrong. The command
``epiloss audit ... --fail-above 0.005`` exits with code 3 if the grouping loss is *significantly* above
0.005, that is if the lower end of its confidence interval is.
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
# The predictions
# ---------------
# Two models, each as a file with labels, scores and features. The second is as well calibrated as the
# first, but its scores are too high for half of the rows and too low for the others.

for name, strength in (("monday", 0.0), ("tuesday", 0.6)):
    sample = Sigmoid(perturbation="step", grouping=strength).sample(8_000)
    columns = {"y": sample.y, "p": sample.scores, "age": sample.X[:, 0], "income": sample.X[:, 1]}
    pq.write_table(pa.table(columns), folder / f"{name}.parquet")


def run(command: str) -> None:
    """Run a command; show some of its output and its exit code."""
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
# A pipeline stops at any exit code other than 0, so nothing else is needed:
#
# .. code-block:: yaml
#
#     - name: Audit the probabilities
#       run: epiloss audit predictions.parquet --label y --score p --fail-above 0.005 --report audit.html
#
# Why the lower end of the interval
# ---------------------------------
# An estimate varies with the sample. A gate on the estimate itself would stop good models by chance,
# in particular with few rows. The lower end of the interval lies above the true loss in less than one
# run in twenty; see the column *valid* of :doc:`/coverage`. Conversely, a gate that passes does not
# prove that the model is good. If the verdict is *too little data to tell*, audit more rows.
#
# Other losses
# ------------
# The option may be repeated and may name a loss: ``grouping`` (the default), ``calibration`` or
# ``score``.

run(
    "epiloss audit tuesday.parquet --label y --score p "
    "--fail-above grouping=0.1 --fail-above calibration=0.002 --fail-above score=0.05"
)

# %%
# Choosing a limit
# ----------------
# A Brier loss is a mean squared error of probabilities: 0.0025 means 5 points, 0.01 means 10 points
# (root mean square). :doc:`The verdict </verdict>` considers a loss relevant if it is at least 1% of
# the score of always predicting the base rate, which is 0.0025 for a balanced problem.
#
# Exit codes
# ----------
# 0: passed. 3: above a limit. 2: wrong usage. 4: bad data, such as a missing column, so that a broken
# file is not mistaken for a bad model:

run("epiloss audit monday.parquet --label y --score probability --fail-above 0.005")

# %%
# ``--json`` prints the result as JSON; the gate works in the same way. :doc:`/command_line` lists the
# other gates, including comparisons with an earlier audit.
