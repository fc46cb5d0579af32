"""
A five-minute start
===================

How wrong are the probabilities of a model that looks fine? This page audits one and explains the
output line by line.

The bundled data are 20,000 workers from the U.S. census data of 1994-95. For each of them there is the
probability of earning over $50,000 that a plain logistic regression predicts. The model was trained on
other people.
"""

import epiloss

data = epiloss.datasets.load_census_income()

# %%
# One call
# --------
# An audit takes the labels, the model's scores, and the features. The features may be a data frame, a
# dictionary of columns as here, or an array of embeddings. Columns may contain text.

result = epiloss.audit(data.y, data.scores, data.X, recalibrate="isotonic")
print(result)

# %%
# What it means
# -------------
# **score** is the Brier score, the mean of (probability - outcome)². Lower is better. It is the
# sum of the three lines below it:
#
# - **calibration loss**: what recalibration could remove. It is almost zero: of the people scored
#   0.6, about six in ten earn over $50,000. By the usual check this model is fine.
# - **grouping loss**: the error that remains *within* groups of equal scores, because some of these
#   people have a higher probability than others and the score does not distinguish them. It is
#   estimated by models that learn from all columns for whom the score is wrong, and that are evaluated
#   on other people. Recalibration does not reduce it, as the second column shows, which is after
#   isotonic recalibration.
# - **remainder**: the noise that no model could remove, and the grouping loss that was not found.
#
# The block **grouping loss** says how certain this is: a **lower limit** that holds with 95%
# confidence, with the p-value of the test that there is no grouping loss; an **upper limit**, however
# much the columns fail to show; and the **smallest detectable** loss, which an audit of these data
# would find with a power of 80%. A part of the loss is **explained by the regions** into which people
# with similar scores are divided.
#
# The **segments** are groups of people for whom the scores are wrong.
#
# The last sentences are the **verdict**: what to do, how large the loss is, and whom it affects most.
# :doc:`The verdict </verdict>` follows a documented rule.
#
# Numbers instead of text
# -----------------------
# Everything that is printed is also an attribute. Estimates carry their uncertainty.

loss = result.grouping_loss
print(f"grouping loss {loss:.5f}, standard error {loss.stderr:.5f}, p = {loss.pvalue:.2g}")
print(f"at equal scores, probabilities vary by {100 * loss.value**0.5:.0f} points (root mean square)")

# %%
# Where the model is wrong
# ------------------------
# Segments contain people with any score. Their ``rate`` is compared with ``expected``, the rate of all
# people with the same scores. The gaps and p-values are adjusted for the search;
# :doc:`the page on segments </segments>` measures how accurate they are.

print(result.segments)

# %%
# The grouping diagram
# --------------------
# :doc:`Another page <plot_03_reading>` explains how to read it.

result.plot()

# %%
# A report
# --------
# ``to_html`` writes a self-contained file with the verdict, the losses, the segments, and the diagram
# with a tooltip on each point. ``to_json`` writes the same for programs.

import tempfile
from pathlib import Path

with tempfile.TemporaryDirectory() as folder:
    report, numbers = Path(folder, "report.html"), Path(folder, "audit.json")
    result.to_html(report, title="Income model")
    result.to_json(numbers)
    print(f"report {report.stat().st_size / 1000:.0f} kB, JSON {numbers.stat().st_size / 1000:.0f} kB")

# %%
# On the command line
# -------------------
# .. code-block:: none
#
#     epiloss demo                                                  # the audit of this page
#     epiloss audit predictions.parquet --label y --score p         # all other columns are features
#     epiloss audit predictions.csv --label y --score p --report report.html
#
# :doc:`The command line </command_line>` describes all commands.
#
# Next: :doc:`what calibration hides <plot_02_hidden>`.
