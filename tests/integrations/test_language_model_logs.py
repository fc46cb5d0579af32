"""Logs that lm-evaluation-harness and Inspect themselves write, of tiny models, without a network."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import epiloss
from language_model_logs import harness_line, inspect_sample

KINDS = {"colour": ["red", "green", "blue"], "animal": ["cat", "dog"], "number": ["one", "two", "six"]}
WORDS = ["which", "of", "these", "is", "not", "a", *KINDS, "yes", "no", "?"]
WORDS += [word for words in KINDS.values() for word in words]
N = 150
_CHOICE = """
task: tiny_{name}
dataset_path: json
dataset_kwargs:
  data_files:
    test: {folder}/questions.jsonl
test_split: test
output_type: multiple_choice
doc_to_text: '{{{{question}}}}'
doc_to_choice: {choices}
doc_to_target: {target}
metric_list:
  - metric: acc
  - metric: acc_norm
"""
_GENERATED = """
task: tiny_generated
dataset_path: json
dataset_kwargs:
  data_files:
    test: {folder}/questions.jsonl
test_split: test
output_type: generate_until
doc_to_text: '{{{{question}}}}'
doc_to_target: gold
generation_kwargs:
  max_gen_toks: 2
  until: ['?']
metric_list:
  - metric: exact_match
"""
OFFLINE = {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}


def write_questions(path: Path) -> None:
    """Write questions of three or four choices, some of which say 'not'."""
    g = np.random.default_rng(0)
    rows = []
    for place in range(N):
        kind, negated, n = str(g.choice(list(KINDS))), bool(g.random() < 0.4), int(g.integers(3, 5))
        others = [word for name, words in KINDS.items() if name != kind for word in words]
        right, wrong = (others, KINDS[kind]) if negated else (KINDS[kind], others)
        choices = [str(g.choice(right)), *map(str, g.choice(wrong, n - 1))]
        order = g.permutation(n)
        row = {
            "question": f"which of these is {'not ' if negated else ''}a {kind} ?",
            "choices": [choices[k] for k in order],
            "answer": int(np.flatnonzero(order == 0)[0]),
            "gold": choices[0],
            "number": place,
            "truth": int(g.random() < 0.5),
        }
        rows.append(row)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def write_model(path: Path) -> None:
    """Write a GPT-2 of one layer with random weights, and a tokenizer of whole words."""
    import torch
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast

    places = {word: place for place, word in enumerate(["<unk>", "<eos>", *WORDS])}
    tokenizer = Tokenizer(models.WordLevel(places, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, unk_token="<unk>", eos_token="<eos>", pad_token="<eos>"
    ).save_pretrained(path)
    torch.manual_seed(0)
    config = GPT2Config(
        vocab_size=len(places), n_positions=64, n_embd=16, n_layer=1, n_head=2,
        bos_token_id=1, eos_token_id=1, initializer_range=0.5,
    )  # fmt: skip
    GPT2LMHeadModel(config).save_pretrained(path)


@pytest.fixture(scope="module")
def samples(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Return the files that ``lm_eval --log_samples`` wrote, by task."""
    pytest.importorskip("lm_eval", reason="lm-evaluation-harness is not installed")
    folder = tmp_path_factory.mktemp("harness")
    write_questions(folder / "questions.jsonl")
    write_model(folder / "model")
    (folder / "tasks").mkdir()
    forms = {
        "choice": ("'{{choices}}'", "answer"),
        "text": ("'{{choices}}'", "gold"),
        "truth": ("['no', 'yes']", "truth"),
    }
    for name, (choices, target) in forms.items():
        text = _CHOICE.format(name=name, folder=folder, choices=choices, target=target)
        (folder / "tasks" / f"{name}.yaml").write_text(text)
    (folder / "tasks" / "generated.yaml").write_text(_GENERATED.format(folder=folder))
    tasks = ",".join(f"tiny_{name}" for name in [*forms, "generated"])
    command = [
        sys.executable, "-m", "lm_eval", "--model", "hf", "--model_args",
        f"pretrained={folder / 'model'}", "--tasks", tasks, "--include_path", str(folder / "tasks"),
        "--log_samples", "--output_path", str(folder / "out"), "--device", "cpu", "--batch_size", "64",
    ]  # fmt: skip
    environment = {**os.environ, **OFFLINE, "HF_HOME": str(folder / "home")}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr[-3000:]
    found = (folder / "out").rglob("samples_tiny_*.jsonl")
    return {path.name.split("_")[2]: path for path in found}


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


@pytest.mark.parametrize("name", ["choice", "text", "truth"])
def test_samples_give_the_accuracy_that_the_harness_tells(samples: dict[str, Path], name: str) -> None:
    path = samples[name]
    log = epiloss.read_log(path)
    p = np.column_stack([log.table.column(one).to_numpy() for one in log.score])
    right = p.argmax(axis=1) == log.table.column("target").to_numpy()
    assert right.tolist() == [bool(line["acc"]) for line in lines(path)]
    assert p.sum(axis=1) == pytest.approx(np.ones(N))
    result = epiloss.audit_table(path)
    assert result.task == "top-label"
    assert result.n_samples == N
    assert "read as samples of lm-evaluation-harness" in str(result)


def test_length_normalized_gives_the_normalized_accuracy(samples: dict[str, Path]) -> None:
    log = epiloss.read_log(samples["choice"], length_normalized=True)
    p = np.column_stack([log.table.column(one).to_numpy() for one in log.score])
    right = p.argmax(axis=1) == log.table.column("target").to_numpy()
    assert right.tolist() == [bool(line["acc_norm"]) for line in lines(samples["choice"])]


def test_the_answer_key_is_left_out(samples: dict[str, Path]) -> None:
    names = epiloss.read_log(samples["choice"]).table.column_names
    assert not {"doc.answer", "doc.gold"} & set(names)
    assert {"doc.question", "doc.choices", "doc.number"} <= set(names)


def test_generated_answers_are_refused(samples: dict[str, Path]) -> None:
    with pytest.raises(epiloss.DataError, match="record a confidence"):
        epiloss.audit_table(samples["generated"])


def test_lines_made_by_hand_have_the_keys_of_real_ones(samples: dict[str, Path]) -> None:
    assert lines(samples["text"])[0].keys() == harness_line(0, [-1.0, -2.0], 0, acc=1, acc_norm=1).keys()


def test_the_command_line_audits_all_tasks_at_once(samples: dict[str, Path]) -> None:
    paths = [str(samples[name]) for name in ("choice", "truth")]
    command = [sys.executable, "-m", "epiloss", "audit", *paths, "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["n_samples"] == 2 * N


EVALUATION = """
import random, sys
from inspect_ai import Task, eval
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.model import Logprob, Logprobs, ModelOutput, ModelUsage, get_model
from inspect_ai.scorer import CORRECT, INCORRECT, Score, accuracy, choice, scorer
from inspect_ai.solver import multiple_choice

folder, form, epochs, noted = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4]
asked = [
    Sample(id=f"s{k}", input=f"Is {k} not a prime number?", choices=["yes", "no"],
           target="AB"[k % 2], metadata={"level": k % 5})
    for k in range(60)
]

@scorer(metrics=[accuracy()])
def confident():
    async def score(state, target):
        place = state.epoch if noted == "epoch" else 0
        p = round(random.Random(f"{state.sample_id} {place}").uniform(0.3, 1), 3)
        right = random.Random(f"{state.sample_id} {state.epoch} right").random() < p
        return Score(value=CORRECT if right else INCORRECT, answer="A", metadata={"confidence": p})
    return score

def outputs():
    while True:  # with usage, without which the model asks the network for an encoding
        said = ModelOutput.from_content("mockllm/model", "ANSWER: A")
        said.usage = ModelUsage(input_tokens=1, output_tokens=1, total_tokens=2)
        tokens = [Logprob(token="ANSWER:", logprob=-0.25), Logprob(token=" A", logprob=-0.5)]
        said.choices[0].logprobs = Logprobs(content=tokens)
        yield said

task = Task(
    dataset=MemoryDataset(asked), solver=multiple_choice(), epochs=epochs,
    scorer=choice() if noted == "tokens" else confident(),
)
model = get_model("mockllm/model", custom_outputs=outputs())
log = eval(task, model=model, log_dir=folder, log_format=form, display="none")[0]
assert log.status == "success", log.error
"""


@pytest.fixture(scope="module")
def evaluated(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Return what runs an evaluation of Inspect and gives its log."""
    pytest.importorskip("inspect_ai", reason="inspect-ai is not installed")

    def run(form: str, epochs: int, noted: str) -> Path:
        folder = tmp_path_factory.mktemp("inspect")
        command = [sys.executable, "-c", EVALUATION, str(folder), form, str(epochs), noted]
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder)
        assert done.returncode == 0, done.stderr[-3000:]
        return next(folder.glob(f"*.{form}"))

    return run


def test_epochs_of_inspect_are_repeated_labels_in_both_formats(evaluated: Any) -> None:
    one, other = (epiloss.read_log(evaluated(form, 3, "sample")) for form in ("eval", "json"))
    assert one.repeated
    assert one.table.drop_columns([]).equals(other.table)
    result = epiloss.audit_table(one)
    assert result.method == "repeated labels"
    assert result.n_samples == 60


def test_confidences_of_each_epoch_make_clusters(evaluated: Any) -> None:
    log = epiloss.read_log(evaluated("eval", 2, "epoch"))
    assert (log.clusters, log.table.num_rows) == ("sample", 120)
    assert {"input", "choices", "metadata.level", "answer"} <= set(log.table.column_names)


def test_without_a_note_the_probabilities_of_the_tokens_count(evaluated: Any) -> None:
    path = evaluated("eval", 1, "tokens")
    log = epiloss.read_log(path)
    assert log.table["confidence"].to_pylist() == pytest.approx([np.exp(-0.75)] * 60)
    assert log.table["correct"].to_pylist() == [int(name[1:]) % 2 == 0 for name in _ids(log)]


def _ids(log: Any) -> list[str]:
    names: list[str] = log.table["sample"].to_pylist()
    return names


def test_samples_made_by_hand_have_keys_of_real_ones(evaluated: Any) -> None:
    real = json.loads(evaluated("json", 1, "sample").read_text())["samples"][0]
    assert inspect_sample("s1", 1, "C", 0.5).keys() <= real.keys()
    assert real["scores"]["confident"].keys() >= {"value", "answer", "metadata"}
