"""The text of the page on segments, with places for the tables of ``segments.py``."""

PAGE = """# Segments: where a model is wrong

`result.segments` lists the groups of rows whose rates differ from those of all rows with the same
scores:

```python
result = epiloss.audit(y_true, y_prob, X)
print(result.segments)  # a table; result.segments[0].rows are the rows of the first segment
result.segments.passed  # columns without a gap
result.segments_by(frame)  # search other columns; text columns are searched by their words
```

![Segments of the bundled census model with the intervals of their gaps](images/segments.png)

*The bundled census model, drawn by `epiloss.plot.GapsDisplay.from_audit(result).plot()`.*

A segment has at most three conditions. It contains at least 50 rows and at least 1% of all rows. Its
*gap* is its rate minus the rate of all rows with the same scores, in points. Segments are sorted by
their contribution to the Brier score: their share of the rows times the square of the gap.

Conditions are written the way a person would write them: integers as integers ("party is 3", "age is
30 to 60", "age >= 65"), dates as dates, and thresholds with at most four digits if that selects the same
rows.

With several classes, the label is whether the predicted class is correct, and the predicted class may
be a condition. Embeddings are described by the columns passed as `display=`; without them, segments
are clusters that are described by typical rows. For data larger than memory, the sample that the audit
keeps is searched.

## How they are found

The search considers all pairs of conditions, over all scores together. The thresholds of the best
pair are refined, and a third condition may be added. A condition is dropped if it adds no more than
noise would, or less than a tenth of the squared z-score. The rows of the segment are then set aside, and
the search continues on the remaining rows. A segment is reported if

- the search finds as much in at most 1 of 20 problems without any gap (this is found by repeating
  the search on residuals with random signs),
- the whole search is repeated on four fifths of the rows, and what it finds holds on the remaining fifth
  (a z-score of at least 1.28 over all five),
- the interval of its gap does not contain 0, and at most half of its rows belong to earlier segments.
  If one condition leaves these rows out and no others, it is added: after "length <= 3", "length <= 4"
  becomes "length is 4".

The search favours groups whose gap is large by chance. The reported gap is therefore smaller than the
rate minus the expected rate. Two corrections are averaged. The first reduces the squared z-score by what
the search finds on average where there is no gap. The second subtracts the optimism of the search: how
much larger the gaps of the repetitions are on the rows that found them than on the rows left out. It
differs between the first and the last of several segments: of equal gaps, the one that chance made
largest is found first. Its weight is twice the share of noise in the squared z-score. Finally, what
reporting only significant segments adds is removed. The interval is widened as well and covers both
corrections. With more than 20,000 rows, segments are found on some rows and measured on all others, and
no adjustment is needed. The p-values are adjusted for the whole search. [The
formulas](mathematics.md) are on another page.

## Are the reported segments correct?

`python experiments/segments.py --draws {draws} --markdown docs/segments.md` writes this page.

A segment with two conditions is planted among 6 columns, with {rate} of the outcomes positive. Its
gap is relative to rows with equal scores.

- *Any reported* is the share of draws in which a segment was reported.
- *Planted reported first* is the share of draws in which the first segment and the planted one have more
  than half of their rows in common.
- *Interval covers* is how often the interval contains the true gap of the reported segment.
- *Reported - true* is the mean error of the gap in points, and *unadjusted* that of the rate minus the
  expected rate.

There are {draws} draws for each row.

{planted}

With 2,000 rows, a gap of 10 points is barely detectable. The reported gaps are then still somewhat too
large, because a segment is reported only in draws in which it is large by chance.

Several segments with 10% of the rows each, by their place in the list:

{several}

The search finds them in the order of how much they stand out, by truth and by chance, so that chance
adds to the first and takes from the last.

How often nothing is reported if there is nothing to find:

{nothing}

How often the best segment of 12% of 6,000 rows is the planted one, before any test, compared with a
tree, on {searched} draws:

{search}

{stability}

## Real data

Two thirds of each data set, scored by a logistic regression that was trained on the other third. The
bundled data come with such scores. The comments on each field were written after the segments had been
seen.

{real}
"""
