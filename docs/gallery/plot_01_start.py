"""
A five-minute start
===================

How wrong are the probabilities of a model that looks fine? This page audits one, and reads the
answer line by line.

The bundled data are 20,000 workers of the US census of 1994-95, and for each the probability that
a plain logistic regression gives to *earns over $50,000*. The model never saw these people.
"""

import epiloss

data = epiloss.datasets.load_census_income()

# %%
# One call
# --------
# An audit needs three things: what happened, what the model said, and what is known of each row.
# The last may be a data frame, a dictionary of columns as here, or an array of embeddings. Words
# are welcome.

result = epiloss.audit(data.y, data.scores, data.X, recalibrate="isotonic")
print(result)

# %%
# What it says
# ------------
# **score** is the Brier score, the mean of (probability - outcome)². Lower is better. It is the
# sum of the three lines below it:
#
# - **calibration loss**: what a better map of the score alone could remove. Almost nothing: of the
#   people scored 0.6, about six in ten do earn over $50,000. By the usual check this model is
#   fine.
# - **grouping loss**: what remains wrong *inside* groups of equal score, because some people there
#   have a higher chance and some a lower one, and the score does not tell them apart. It is
#   estimated by models that learn from all columns which people the score gets wrong, and are
#   tested on others. Recalibrating does not cure it: the second column is after isotonic
#   recalibration.
# - **remainder**: the noise that no model could remove, and the grouping loss that was not seen.
#
# Below it stands how sure that is. **At least** so much is there, with 95% confidence; the p-value
# says that it is no accident. **At most** so much could be there, whatever the columns do not tell.
# A part of it is found **by the regions** into which people of about equal score are split.
#
# The **segments** are the groups of people that the scores get wrong, in words.
#
# The last sentences are the **verdict**: what to do, how large the loss is, and whom it hits most.
# :doc:`Its rule </verdict>` is a table of four lines.
#
# Numbers, not print
# ------------------
# Everything that is printed is an attribute. Estimates carry their uncertainty.

loss = result.grouping_loss
print(f"grouping loss {loss:.5f}, standard error {loss.stderr:.5f}, p = {loss.pvalue:.2g}")
print(
    f"probabilities are off by {100 * loss.value**0.5:.0f} points, root mean square, inside level sets"
)

# %%
# Where
# -----
# Segments hold people of all scores. Their ``rate`` is compared with ``expected``, the rate of all
# people with the same scores. They were found and measured on different people, and the gaps are
# adjusted for the search: :doc:`what is told is on average true </segments>`.

print(result.segments)

# %%
# A picture
# ---------
# :doc:`How to read it <plot_03_reading>` has a page of its own.

result.plot()

# %%
# A page to send around
# ---------------------
# ``to_html`` writes one file that needs nothing else: the verdict, the ledger, the segments, and the
# diagram with a tooltip on each point. ``to_json`` writes the same for programs.

import tempfile
from pathlib import Path

with tempfile.TemporaryDirectory() as folder:
    report, numbers = Path(folder, "report.html"), Path(folder, "audit.json")
    result.to_html(report, title="Income model")
    result.to_json(numbers)
    print(f"report {report.stat().st_size / 1000:.0f} kB, JSON {numbers.stat().st_size / 1000:.0f} kB")

# %%
# The same without Python
# -----------------------
# .. code-block:: none
#
#     epiloss demo                                                  # this page
#     epiloss audit predictions.parquet --label y --score p         # other columns are the features
#     epiloss audit predictions.csv --label y --score p --report report.html
#
# :doc:`The command line </command_line>` has the rest.
#
# Next: :doc:`what calibration hides <plot_02_hidden>`, and why.
