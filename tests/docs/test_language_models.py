"""The page on language models: its code runs, on real packages where they are installed."""

from __future__ import annotations

import importlib.util
import json
import math
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import pytest

import epiloss
from epiloss.integrations.extraction.frameworks import import_torchvision
from epiloss.sources.logs.names import CONFIDENCE, CORRECT

PAGE = (Path(__file__).parents[2] / "docs" / "language_models.md").read_text("utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
N = 300
_g = np.random.default_rng(0)
P = _g.uniform(0.2, 0.95, N)
RIGHT = _g.random(N) < P


def shown(name: str) -> Any:
    """Return a function of the page; torch is loaded only for those that need it."""
    known: dict[str, Any] = {"epiloss": epiloss, "math": math, "json": json, "Path": Path}
    block = next(one for one in BLOCKS if f"def {name}(" in one)
    exec(compile(block, "language_models.md", "exec"), known)
    return known[name]


def test_every_block_defines_something_that_is_tested_here() -> None:
    names = [name for block in BLOCKS for name in re.findall(r"^def (\w+)\(", block, re.MULTILINE)]
    own = Path(__file__).read_text("utf-8")
    assert len(names) == len(BLOCKS) == 7
    assert all(f'shown("{name}")' in own for name in names)


def test_the_usual_names_on_the_page_are_usual() -> None:
    listed = re.search(r"usual names: (.*?), in capitals", PAGE, re.DOTALL)
    assert listed is not None
    names = re.findall(r"`(\w+)`", listed[1])
    assert len(names) == 10
    assert set(names) <= {*CORRECT, *CONFIDENCE}


def imported(name: str) -> Any:
    """Return a package, or skip the test where it is not installed."""
    if importlib.util.find_spec("torchvision") is not None:
        import_torchvision()  # which others load where it is there
    return pytest.importorskip(name)


def test_generate_of_transformers_gives_the_probability_of_the_answer() -> None:
    torch, transformers, tokenizers = map(imported, ("torch", "transformers", "tokenizers"))
    places = {word: k for k, word in enumerate(["<unk>", "<eos>", "what", "is", "one", "two"])}
    tokenizer = tokenizers.Tokenizer(tokenizers.models.WordLevel(places, unk_token="<unk>"))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    fast = transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, unk_token="<unk>", eos_token="<eos>", pad_token="<eos>"
    )
    torch.manual_seed(0)
    config = transformers.GPT2Config(
        vocab_size=6, n_positions=40, n_embd=8, n_layer=1, n_head=1, bos_token_id=1, eos_token_id=1
    )
    model = transformers.GPT2LMHeadModel(config).eval()
    row = shown("answered")(model, fast, "what is two")
    tokens = fast("what is two", return_tensors="pt")["input_ids"]
    expected = 1.0
    for _ in range(20):  # by hand, token after token
        with torch.inference_mode():
            best = model(tokens).logits[0, -1].softmax(-1).max(-1)
        expected *= float(best.values)
        tokens = torch.cat([tokens, best.indices.reshape(1, 1)], 1)
        if int(best.indices) == 1:
            break
    assert row["confidence"] == pytest.approx(expected, rel=1e-4)
    assert isinstance(row["answer"], str)


class Client:
    """A client whose answers have the shape of the OpenAI interface."""

    def __init__(self) -> None:
        self.chat = SimpleNamespace(completions=self)

    def create(self, **options: Any) -> Any:
        assert options["logprobs"]
        content = [SimpleNamespace(logprob=-0.5), SimpleNamespace(logprob=-0.25)]
        message = SimpleNamespace(content="Lima")
        choice = SimpleNamespace(message=message, logprobs=SimpleNamespace(content=content))
        return SimpleNamespace(choices=[choice])


def test_logprobs_of_an_interface_give_the_probability_of_the_answer() -> None:
    row = shown("asked")(Client(), "a-model", "What is the capital of Peru?")
    assert row["answer"] == "Lima"
    assert row["confidence"] == pytest.approx(math.exp(-0.75))


def test_what_was_recorded_is_audited_without_options(tmp_path: Path) -> None:
    rows = [
        {"question": f"What is {k} plus one?", "answer": str(k + RIGHT[k]), "confidence": float(P[k])}
        for k in range(N)
    ]
    number = re.compile(r"\d+")
    is_right = lambda row: row["answer"] != number.findall(row["question"])[0]  # noqa: E731
    shown("record")(tmp_path / "answers.jsonl", rows, is_right)
    result = epiloss.audit_table(tmp_path / "answers.jsonl")
    assert result.score.value == pytest.approx(((P - RIGHT) ** 2).mean())


class Results:
    """What uqlm returns, where it is not installed."""

    def __init__(self, result: dict[str, Any]) -> None:
        self.data = result["data"]

    def to_df(self) -> Any:
        pandas = pytest.importorskip("pandas")
        names = {"prompts": "prompt", "responses": "response"}
        return pandas.DataFrame(self.data).rename(columns=names)


def uqlm_results() -> Any:
    """Return the class of uqlm that holds results, without what else uqlm imports."""
    try:
        found = importlib.util.find_spec("uqlm")
    except ImportError:
        found = None
    if found is None or found.origin is None:
        return Results
    path = Path(found.origin).parent / "utils" / "results.py"
    spec = importlib.util.spec_from_file_location("uqlm_results", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.UQResult


def test_results_of_uqlm_are_audited() -> None:
    data = {
        "prompts": [f"What is {k}?" for k in range(N)],
        "responses": ["yes" if one else "no" for one in RIGHT],
        "noncontradiction": P.tolist(),
    }
    results = uqlm_results()({"data": data, "metadata": {}})
    result = shown("audit_uqlm")(results, lambda _, response: response == "yes", "noncontradiction")
    assert result.score.value == pytest.approx(((P - RIGHT) ** 2).mean())


def test_a_run_of_helm_gives_rows(tmp_path: Path) -> None:
    states = [
        {
            "instance": {"id": f"id{k}", "input": {"text": f"Question {k}"}},
            "train_trial_index": 0,
            "result": {"completions": [{"text": "A", "logprob": float(np.log(P[k]))}]},
        }
        for k in range(N)
    ]
    stats = [
        {
            "instance_id": f"id{k}",
            "train_trial_index": 0,
            "stats": [{"name": {"name": "exact_match"}, "mean": float(RIGHT[k])}],
        }
        for k in range(N)
    ]
    stats += [{**one, "perturbation": {"name": "typos"}, "stats": []} for one in stats]
    (tmp_path / "scenario_state.json").write_text(json.dumps({"request_states": states}))
    (tmp_path / "per_instance_stats.json").write_text(json.dumps(stats))
    rows = shown("helm_rows")(tmp_path)
    assert [row["correct"] for row in rows] == RIGHT.astype(float).tolist()
    assert [row["confidence"] for row in rows] == pytest.approx(P.tolist())


def test_a_model_of_timm_is_audited() -> None:
    torch, timm = imported("torch"), imported("timm")
    torch.manual_seed(0)
    model = timm.create_model("resnet10t", pretrained=False, num_classes=3)
    batches = [(torch.rand(60, 3, 32, 32), torch.randint(0, 3, (60,))) for _ in range(2)]
    rows = shown("timm_rows")
    rows.__globals__["torch"] = torch
    labels, scores, features = rows(model, batches)
    assert scores.shape == (120, 3)
    assert epiloss.audit(labels, scores, features, method="partition").n_samples == 120


class Dataset:
    """A data set that gives the values of fields, as FiftyOne does."""

    fields: ClassVar[dict[str, Any]] = {
        "ground_truth.label": ["cat"] * N,
        "predictions.label": ["cat" if one else "dog" for one in RIGHT],
        "predictions.confidence": P.tolist(),
        "filepath": [f"image{k}.png" for k in range(N)],
        "embedding": _g.random((N, 60)),
    }

    def values(self, field: str) -> Any:
        return self.fields[field]


@pytest.mark.parametrize("embeddings", [None, "embedding"])
def test_a_data_set_of_fiftyone_is_audited(embeddings: str | None) -> None:
    result = shown("audit_fiftyone")(Dataset(), embeddings=embeddings)
    assert result.score.value == pytest.approx(((P - RIGHT) ** 2).mean())
