"""The documentation holds: every public name is in the reference, shown code runs, named tests exist."""

from __future__ import annotations

import importlib
import importlib.util
import json
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import epiloss
from epiloss.cli.main import main
from epiloss.errors import MissingExtraError
from epiloss.simulate import MultiClass, Sigmoid
from epiloss.sources.whole_files import write_table
from language_model_logs import harness_lines

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = {page.name: page.read_text(encoding="utf-8") for page in (DOCS / "gallery").glob("plot_*.py")}
TEXTS = {page.name: page.read_text(encoding="utf-8") for page in DOCS.glob("*.md")}
MODULES = {"datasets", "partition", "plot", "simulate", "testing"}  # whose members are listed one by one


def listed(page: str = "index") -> set[str]:
    """Return the names that a page of the reference documents, without the package's."""
    text = (DOCS / "reference" / f"{page}.rst").read_text(encoding="utf-8")
    summaries = re.findall(r"^\.\. autosummary::\n(?:   :.*\n)*\n((?:   \S+\n)+)", text, re.MULTILINE)
    return {name for lines in summaries for name in lines.split()}


def found(name: str) -> Any:
    """Return what a dotted name stands for, as Sphinx finds it: a module, then its attributes."""
    parts = name.split(".")
    for n in range(len(parts), 0, -1):
        try:
            one: Any = importlib.import_module(".".join(parts[:n]))
        except ModuleNotFoundError:
            continue
        for part in parts[n:]:
            one = getattr(one, part)
        return one
    raise NameError(name)


@pytest.mark.parametrize("name", sorted(set(epiloss.__all__) - MODULES))
def test_every_public_name_is_in_the_reference(name: str) -> None:
    assert name in listed()


@pytest.mark.parametrize("name", sorted(epiloss.plot.__all__))
def test_every_picture_is_in_the_reference(name: str) -> None:
    assert {name, f"presentation.plot.{name}"} & listed()


@pytest.mark.parametrize(("name", "least"), [("simulate", 6), ("datasets", 2), ("partition", 6)])
def test_what_a_public_module_defines_is_in_the_reference(name: str, least: int) -> None:
    assert name in epiloss.__all__
    module = importlib.import_module(f"epiloss.{name}")
    public = {
        own
        for own, one in vars(module).items()
        if not own.startswith("_") and getattr(one, "__module__", "").startswith(module.__name__)
    }
    public -= {"pool_small_regions", "resolve_partition"}  # for the package itself
    assert len(public) >= least
    assert {f"{name}.{one}" for one in public} <= listed()


def test_every_name_that_the_documentation_refers_to_exists() -> None:
    named = {f"epiloss.{name}" for page in ("index", "inside") for name in listed(page)}
    shown = [role for text in TEXTS.values() for role in re.findall(r"\{\w+\}`(epiloss[\w.]*)`", text)]
    assert len(named) > 70
    assert len(shown) > 30
    for name in sorted(named | set(shown)):
        try:
            found(name)
        except MissingExtraError:
            continue  # the module is there, and its package is not


# runs each line as if nothing of the package were loaded yet; other packages are loaded once
FRESH = """
import sys
for line in sys.argv[1:]:
    for name in [name for name in sys.modules if name.split(".")[0] == "epiloss"]:
        del sys.modules[name]
    exec(line)
"""


def test_public_modules_can_be_imported_by_name() -> None:
    lines = [
        f"import epiloss.{name}" for name in ("plot", "simulate", "datasets", "partition", "testing")
    ]
    subprocess.run([sys.executable, "-c", FRESH, *lines], check=True)


def test_imports_in_the_guide_work() -> None:
    texts = [page.read_text(encoding="utf-8") for page in [ROOT / "README.md", *DOCS.glob("*.md")]]
    lines = {line for text in texts for line in re.findall(r"^(?:from|import) epiloss.*", text, re.M)}
    assert len(lines) > 3
    heavy = {line for line in lines if "torchmetrics" in line}
    if importlib.util.find_spec("torchmetrics") is not None:
        for line in heavy:  # here, where torch is loaded for other tests
            exec(line)
    subprocess.run([sys.executable, "-c", FRESH, *sorted(lines - heavy)], check=True)


def test_every_function_that_the_mathematics_refers_to_is_in_the_reference() -> None:
    shown = set(re.findall(r"\{(?:func|class)\}`epiloss\.([\w.]+)`", TEXTS["mathematics.md"]))
    assert len(shown) > 20
    assert shown <= listed() | listed("inside")


def test_pages_of_the_guide_are_numbered_and_the_readme_names_each() -> None:
    numbers = sorted(int(name.split("_")[1]) for name in PAGES)
    assert numbers == list(range(1, len(PAGES) + 1))
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert [name for name in PAGES if f"docs/gallery/{name}" not in readme] == []


def test_tests_and_modules_that_pages_name_exist() -> None:
    texts = [*PAGES.values(), *TEXTS.values(), (ROOT / "README.md").read_text(encoding="utf-8")]
    files = {path for text in texts for path in re.findall(r"\b(?:tests|src|scripts)/[\w/]+\.py", text)}
    assert len(files) >= 5
    assert [path for path in files if not (ROOT / path).exists()] == []
    named = {name for text in texts for name in re.findall(r"(?<!def )\btest_\w+\b(?!\.py)", text)}
    assert len(named) >= 2
    tests = "".join(one.read_text(encoding="utf-8") for one in (ROOT / "tests").rglob("test_*.py"))
    assert [name for name in named if f"def {name}(" not in tests] == []


def test_modules_that_contributors_are_pointed_to_exist_and_say_what_they_are_for() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    table = re.findall(r"^\| .*\? \| (.*) \|$", text, re.MULTILINE)
    assert len(table) >= 10
    package = ROOT / "src" / "epiloss"
    for answer in table:
        for name in re.findall(r"`([\w/*.]+)`", answer):
            found = list(package.glob(name.rstrip("/"))) or list(package.glob(f"*/{name}"))
            assert found, name
            modules = [one / "__init__.py" if one.is_dir() else one for one in found]
            texts = [one.read_text("utf-8") for one in modules if one.suffix == ".py"]
            assert all(text.startswith('"""') for text in texts), name


@pytest.mark.parametrize("page", ["README.md", *(f"docs/{one.name}" for one in DOCS.glob("*.md"))])
def test_links_between_files_lead_somewhere(page: str) -> None:
    text = re.sub(r"```.*?```", "", (ROOT / page).read_text(encoding="utf-8"), flags=re.DOTALL)
    targets = [target.split("#")[0] for target in re.findall(r"\]\(([^)\s]+)\)", text)]
    folder = (ROOT / page).parent
    made = {f"examples/{name.removesuffix('.py')}" for name in PAGES}  # when the site is built
    broken = [
        one
        for one in targets
        if one and ":" not in one and one not in made and not (folder / one).exists()
    ]
    assert broken == []


def names_of_the_pages(folder: Path) -> dict[str, Any]:
    """Return small data under the names that shown code uses."""
    pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    pytest.importorskip("pandas", reason="pandas is not installed")
    pytest.importorskip("polars", reason="polars is not installed")
    pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    parquet = importlib.import_module("pyarrow.parquet")
    from sklearn.linear_model import LinearRegression

    one, new = (Sigmoid(perturbation="step").sample(900, random_state=seed) for seed in (0, 1))
    classes = MultiClass().sample(900)
    (folder / "logs").mkdir()
    columns = {"label": one.y, "score": one.scores, "x": one.X[:, 0]}
    parquet.write_table(pa.table(columns), folder / "logs" / "part.parquet")
    return {
        "y_true": one.y,
        "y_prob": one.scores,
        "X": one.X,
        "X_new": new.X,
        "p_old": one.scores,
        "p_new": np.clip(one.scores + 0.05, 0, 1),
        "regressor": LinearRegression(),
        "hospital": np.where(one.X[:, 0] > 0, "north", "south"),
        "patient": np.arange(900) // 3,
        "ratings": (np.random.default_rng(0).random((900, 3)) < one.q[:, None]).astype(float),
        "y_class": classes.y,
        "softmax": classes.scores,
        "embeddings": classes.X,
        **{f"{name}_then": part for name, part in zip("ypX", (one.y, one.scores, one.X), strict=True)},
        **{f"{name}_now": part for name, part in zip("ypX", (new.y, new.scores, new.X), strict=True)},
    }


@pytest.mark.parametrize("page", ["README.md", "docs/index.md", "docs/glance.md"])
def test_code_of_the_page_runs(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names = names_of_the_pages(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(encoding="utf-8"), re.DOTALL)
    assert blocks
    for block in blocks:
        exec(compile(block, page, "exec"), names)
    import matplotlib.pyplot as plt

    plt.close("all")
    assert names["result"].n_samples == 900


def test_the_training_loop_of_the_page_runs(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    if importlib.util.find_spec("torchmetrics") is None:  # found, not imported: epiloss does that
        pytest.skip("torchmetrics is not installed")
    names = names_of_the_pages(tmp_path)
    names |= {f"{name}_valid": names[f"{name}_then"] for name in "ypX"}
    rows = [torch.from_numpy(names[f"{name}_now"]) for name in "pyX"]
    names["batches"] = list(zip(*(one.split(100) for one in rows), strict=True))
    (block,) = re.findall(r"```python\n(.*?)```", (DOCS / "scale.md").read_text("utf-8"), re.DOTALL)
    exec(compile(block, "scale.md", "exec"), names)
    whole = names["plan"].stats(*(names[f"{name}_now"] for name in "ypX"))
    losses = names["plan"].losses(whole)
    assert float(names["losses"]["grouping_loss"]) == pytest.approx(losses.total("grouping_loss"))


def test_the_commands_of_the_page_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In their order, on small data under the names that the page uses."""
    names = names_of_the_pages(tmp_path)
    monkeypatch.chdir(tmp_path)
    columns = {"y": names["y_true"], "p": names["y_prob"], "a": names["X"][:, 0]}
    columns |= {"id": np.arange(900), "hospital": names["hospital"]}
    days = np.datetime64("2024-01-01") + np.arange(900) // 3
    columns |= {"p1": columns["p"], "p2": columns["p"] ** 2, "day": days}
    for path in (
        *("predictions.parquet", "predictions.csv", "tomorrow.csv", "logs/part.parquet"),
        *("old.csv", "new.csv", "last_year.parquet", "this_year.parquet", "log.parquet"),
    ):
        write_table(path, columns)
    lines = "".join(json.dumps(line) + "\n" for line in harness_lines(300))
    Path("samples_arc_easy.jsonl").write_text(lines, encoding="utf-8")
    saved = epiloss.audit(names["y_true"], names["y_prob"], names["X"]).to_json()
    Path("audit.json").write_text(saved, encoding="utf-8")
    np.savez("embeddings.npz", y=names["y_true"], p=names["y_prob"], X=names["X"])
    page = (DOCS / "command_line.md").read_text(encoding="utf-8")
    commands = re.findall(r"^epiloss [^#\n]*", page, re.MULTILINE)
    assert len(commands) >= 8
    for command in commands:
        monkeypatch.setattr(sys, "argv", shlex.split(command))
        code: Any = 0
        try:
            main()
        except SystemExit as stop:
            code = stop.code
        assert code == (3 if "--fail-above" in command else 0), capsys.readouterr().err
    for written in ("report.html", "better.csv", "repair.json", "tomorrow_better.csv", "kept"):
        assert (tmp_path / written).exists()
