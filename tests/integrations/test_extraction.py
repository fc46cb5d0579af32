"""epiloss.extract: what a network says and sees, in a file that can be audited."""

from __future__ import annotations

import inspect
import itertools
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pyarrow import parquet

import epiloss
from epiloss.errors import DataError, MissingExtraError, OptionError
from epiloss.sources.whole_files import read_file

torch = pytest.importorskip("torch", reason="needs the extra 'torch'")
nn = torch.nn
Module: Any = nn.Module

N, K, D = 700, 3, 8
BATCH = 32


def network(seed: int = 0) -> Any:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(4, D), nn.ReLU(), nn.Dropout(0.5), nn.Linear(D, K))


def rows(n: int = N) -> tuple[Any, Any]:
    generator = torch.Generator().manual_seed(0)
    return torch.randn(n, 4, generator=generator), torch.randint(0, K, (n,), generator=generator)


def loader(*columns: Any, **options: Any) -> Any:
    data = torch.utils.data.TensorDataset(*(columns or rows()))
    return torch.utils.data.DataLoader(data, **{"batch_size": BATCH, **options})


def test_scores_features_labels_and_numbers_of_rows_are_those_of_the_network(tmp_path: Path) -> None:
    net, (x, y) = network(), rows()
    path = epiloss.extract(net, loader(), tmp_path / "net.parquet", dtype="float32")
    net.eval()
    with torch.inference_mode():
        features = net[:3](x)
        expected = torch.softmax(net(x), 1)
    columns = read_file(str(path))
    np.testing.assert_array_equal(columns["id"], np.arange(N))
    np.testing.assert_array_equal(columns["y"], y)
    np.testing.assert_allclose(columns["scores"], expected, atol=1e-6)
    np.testing.assert_allclose(columns["features"], features, rtol=1e-5, atol=1e-6)
    assert list(tmp_path.iterdir()) == [path]


def test_half_floats_are_the_features_rounded_once(tmp_path: Path) -> None:
    single = epiloss.extract(network(), loader(), tmp_path / "single.parquet", dtype="float32")
    half = epiloss.extract(network(), loader(), tmp_path / "half.parquet")
    kinds = parquet.read_schema(half)
    assert [str(kinds.field(name).type.value_type) for name in ("scores", "features")] == [
        "float",
        "halffloat",
    ]
    rounded = read_file(str(single))["features"].astype(np.float16)
    np.testing.assert_array_equal(read_file(str(half))["features"], rounded.astype(np.float32))


def test_an_arrow_file_holds_the_same(tmp_path: Path) -> None:
    one = read_file(str(epiloss.extract(network(), loader(), tmp_path / "a.parquet")))
    other = read_file(str(epiloss.extract(network(), loader(), tmp_path / "a.arrow")))
    assert one.identifiers == other.identifiers == {"id"}
    for name in ("id", "y", "scores", "features"):
        np.testing.assert_array_equal(one[name], other[name])


def test_the_command_line_audits_the_file_and_takes_no_id_for_a_feature(tmp_path: Path) -> None:
    path = epiloss.extract(network(), loader(), tmp_path / "net.parquet")
    command = [sys.executable, "-c", "from epiloss.cli import main; main()", "audit", str(path)]
    done = subprocess.run(
        [*command, "--label", "y", "--score", "scores"], capture_output=True, text=True, check=True
    )
    assert "note: column 'id' is an identifier and is not used as a feature." in done.stdout
    result = epiloss.audit_table(path, label="y", score="scores")
    assert f"top-label task, Brier score, {N} rows" in done.stdout
    assert f"{result.score:z.5f}" in done.stdout
    assert f"{result.grouping_loss:z.5f}" in done.stdout


@pytest.mark.parametrize("training", [True, False])
def test_the_network_is_left_as_it_was_found(tmp_path: Path, training: bool) -> None:
    net = network().train(training)
    net[2].eval()  # a part may be in another mode than the whole
    before = {name: value.clone() for name, value in net.state_dict().items()}
    modes = [module.training for module in net.modules()]
    epiloss.extract(net, loader(), tmp_path / "a.parquet")
    with pytest.raises(DataError, match="class"):
        epiloss.extract(net, loader(rows()[0], torch.full((N,), 7)), tmp_path / "b.parquet")
    assert [module.training for module in net.modules()] == modes
    assert all(not module._forward_hooks for module in net.modules())
    assert all(torch.equal(value, before[name]) for name, value in net.state_dict().items())


def test_batches_may_be_triples_or_mappings_or_have_ids_beside(tmp_path: Path) -> None:
    x, y = rows()
    names = [f"image-{i}.png" for i in range(N)]

    class Named(Module):  # type: ignore[misc]  # torch is untyped here
        def __init__(self) -> None:
            super().__init__()
            self.net = network()

        def forward(self, *, pixels: Any) -> dict[str, Any]:
            return {"logits": self.net(pixels)}

    def triples() -> Iterable[Any]:
        for start in range(0, N, BATCH):
            here = slice(start, start + BATCH)
            yield x[here], y[here], names[here]

    def mappings() -> Iterable[Any]:
        for start in range(0, N, BATCH):
            here = slice(start, start + BATCH)
            yield {"pixels": x[here], "labels": y[here], "id": names[here]}

    paths = [
        epiloss.extract(network(), triples(), tmp_path / "triples.parquet"),
        epiloss.extract(Named(), mappings(), tmp_path / "mappings.parquet"),
        epiloss.extract(network(), loader(), tmp_path / "beside.parquet", ids=names),
    ]
    read = [read_file(str(path)) for path in paths]
    assert list(read[0]["id"]) == names
    for one, name in itertools.product(read[1:], ("id", "y", "scores", "features")):
        np.testing.assert_array_equal(one[name], read[0][name])


def test_a_transform_is_applied_to_the_inputs(tmp_path: Path) -> None:
    x, y = rows()
    one = epiloss.extract(network(), loader(2 * x, y), tmp_path / "a.parquet")
    other = epiloss.extract(network(), loader(), tmp_path / "b.parquet", transform=lambda x: 2 * x)
    np.testing.assert_array_equal(read_file(str(one))["scores"], read_file(str(other))["scores"])


def test_one_logit_makes_a_binary_score(tmp_path: Path) -> None:
    x, y = rows()
    net = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 1))
    path = epiloss.extract(net, loader(x, y.clamp(max=1)), tmp_path / "a.parquet", scores="sigmoid")
    columns = read_file(str(path))
    assert columns["scores"].shape == (N,)
    with torch.inference_mode():
        np.testing.assert_allclose(columns["scores"], torch.sigmoid(net(x))[:, 0], atol=1e-6)
    with pytest.raises(OptionError, match="scores='sigmoid'"):
        epiloss.extract(net, loader(), tmp_path / "b.parquet")
    with pytest.raises(OptionError, match="scores='softmax'"):
        epiloss.extract(network(), loader(), tmp_path / "b.parquet", scores="sigmoid")


def test_scores_may_be_a_function_of_the_logits(tmp_path: Path) -> None:
    x, y = rows()
    path = epiloss.extract(
        network(),
        loader(x, y.clamp(max=1)),
        tmp_path / "two.parquet",
        scores=lambda logits: torch.softmax(logits[:, :2], 1),
    )
    assert read_file(str(path))["scores"].shape == (N, 2)
    with pytest.raises(DataError, match="sum to 1"):
        epiloss.extract(network(), loader(), tmp_path / "raw.parquet", scores=lambda logits: logits)


# --- which layer ---


def test_a_layer_is_found_by_what_it_gives_and_not_by_its_place(tmp_path: Path) -> None:
    class Auxiliary(Module):  # type: ignore[misc]
        """Has another head of as many outputs, made later and called before and after."""

        def __init__(self) -> None:
            super().__init__()
            self.head = nn.Linear(5, K)
            self.body = nn.Linear(4, 5)
            self.other = nn.Linear(4, K)

        def forward(self, x: Any) -> Any:
            logits = self.head(torch.relu(self.body(x)))
            self.other(x)
            return logits

    x, _ = rows()
    net = Auxiliary()
    features = read_file(str(epiloss.extract(net, loader(), tmp_path / "a.parquet", dtype="float32")))
    with torch.inference_mode():
        expected = torch.relu(net.body(x))
    np.testing.assert_allclose(features["features"], expected, rtol=1e-5, atol=1e-6)
    told = read_file(str(epiloss.extract(net, loader(), tmp_path / "b.parquet", layer="other")))
    np.testing.assert_allclose(told["features"], x, atol=2e-3, rtol=2e-3)


def test_a_convolution_over_single_pixels_is_linear_too(tmp_path: Path) -> None:
    x = torch.randn(40, 3, 6, 6, generator=torch.Generator().manual_seed(1))
    y = torch.arange(40) % K
    body = nn.Sequential(nn.Conv2d(3, 5, 3), nn.ReLU())
    before = nn.Sequential(body, nn.AdaptiveAvgPool2d(1), nn.Conv2d(5, K, 1), nn.Flatten())
    after = nn.Sequential(body, nn.Conv2d(5, K, 1), nn.AdaptiveAvgPool2d(1), nn.Flatten())
    with torch.inference_mode():
        pooled = body(x).mean((2, 3))
    for name, net in {"before": before, "after": after}.items():
        path = epiloss.extract(net, loader(x, y), tmp_path / f"{name}.parquet", dtype="float32")
        np.testing.assert_allclose(read_file(str(path))["features"], pooled, rtol=1e-4, atol=1e-6)


def test_of_a_layer_over_words_the_word_that_made_the_logits_counts(tmp_path: Path) -> None:
    class LastWord(Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.score = nn.Linear(4, K)

        def forward(self, x: Any) -> Any:
            return self.score(x)[:, 2]  # of five words the third

    x = torch.randn(30, 5, 4, generator=torch.Generator().manual_seed(1))
    data = loader(x, torch.arange(30) % K)
    columns = read_file(str(epiloss.extract(LastWord(), data, tmp_path / "a.parquet", dtype="float32")))
    np.testing.assert_array_equal(columns["features"], x[:, 2])


# --- networks by name ---


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
@pytest.mark.parametrize(
    ("name", "width"),
    [
        ("timm:resnet18", 512),
        ("torchvision:mobilenet_v3_small", 1024),
        ("torchvision:squeezenet1_1", 512),
    ],
)
def test_networks_by_name(tmp_path: Path, name: str, width: int) -> None:
    for_name(name)
    x = torch.randn(4, 3, 64, 64, generator=torch.Generator().manual_seed(1))
    with pytest.warns(UserWarning, match="random weights"):
        path = epiloss.extract(
            name, loader(x, torch.tensor([0, 1, 998, 999])), tmp_path / "a.parquet", dtype="float32"
        )
    columns = read_file(str(path))
    assert columns["scores"].shape == (4, 1000)
    assert columns["features"].shape == (4, width)
    assert np.ptp(columns["features"], axis=0).max() > 0


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
@pytest.mark.parametrize("kind", ["bert", "gpt2", "vit"])
def test_hugging_face_classifiers_from_a_folder(tmp_path: Path, kind: str) -> None:
    transformers = for_name("hf:bert")
    torch.manual_seed(0)
    small = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "num_labels": K}
    words = torch.randint(1, 50, (20, 7), generator=torch.Generator().manual_seed(0))
    batch: dict[str, Any] = {"input_ids": words, "attention_mask": torch.ones_like(words)}
    if kind == "bert":
        config = transformers.BertConfig(vocab_size=60, intermediate_size=16, **small)
        model = transformers.BertForSequenceClassification(config)
    elif kind == "gpt2":
        config = transformers.GPT2Config(
            vocab_size=60, n_embd=16, n_layer=1, n_head=2, num_labels=K, pad_token_id=0
        )
        model = transformers.GPT2ForSequenceClassification(config)
    else:
        config = transformers.ViTConfig(image_size=8, patch_size=4, intermediate_size=16, **small)
        model = transformers.ViTForImageClassification(config)
        batch = {"pixel_values": torch.randn(20, 3, 8, 8, generator=torch.Generator().manual_seed(0))}
    model.save_pretrained(tmp_path / "saved")
    batches = [{**batch, "labels": torch.arange(20) % K}]
    path = epiloss.extract(f"hf:{tmp_path / 'saved'}", batches, tmp_path / "a.parquet", dtype="float32")
    columns = read_file(str(path))
    head = model.score if kind == "gpt2" else model.classifier
    model.eval()
    with torch.inference_mode():
        expected = torch.softmax(model(**batch).logits, 1)
        again = torch.softmax(head(torch.tensor(columns["features"])), 1)
    np.testing.assert_allclose(columns["scores"], expected, atol=1e-5)
    np.testing.assert_allclose(again, expected, atol=1e-5)  # so these are the features of the head


def for_name(name: str) -> Any:
    """Return the package that a network by name comes from, or skip the test."""
    from epiloss.integrations.extraction import frameworks

    kind = name.partition(":")[0]
    package = {"hf": "transformers"}.get(kind, kind)
    try:
        vision = package == "torchvision"
        return frameworks.import_torchvision() if vision else frameworks.package(package, "")
    except MissingExtraError:
        pytest.skip(f"needs {package}")


@pytest.mark.parametrize(
    ("model", "options", "message"),
    [
        ("resnet18", {}, "must be a torch.nn.Module or a name such as 'timm:resnet18'"),
        ("keras:resnet18", {}, "got 'keras:resnet18'"),
        (7, {}, "got 7"),
        ("hf:no/such-model", {}, "models are downloaded only on request"),
        ("torchvision:resnet18", {"pretrained": "IMAGENET9"}, "weights of resnet18, IMAGENET1K_V1"),
        ("torchvision:resnet17", {}, "torchvision has no model 'resnet17'"),
        ("timm:resnet17", {}, "timm has no model 'resnet17'"),
    ],
)
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
def test_wrong_names_are_told(tmp_path: Path, model: Any, options: Any, message: str) -> None:
    if str(model).partition(":")[0] in ("timm", "torchvision", "hf"):
        for_name(model)
    with pytest.raises(OptionError, match=message):
        epiloss.extract(model, loader(), tmp_path / "a.parquet", **options)
    assert not list(tmp_path.iterdir())


# --- what is wrong is told in one sentence ---


def nan_rows() -> tuple[Any, Any]:
    x, y = rows()
    x[100] = float("nan")
    return x, y


@pytest.mark.parametrize(
    ("model", "data", "options", "error", "message"),
    [
        (network(), nan_rows(), {}, DataError, "logits must be finite, got .nan, nan, nan. for row 100"),
        (network(), (rows()[0], rows()[1] + 1), {}, DataError, "classes 0 to 2 .* got 3 for row"),
        (network(), (rows()[0], rows()[1] + 0.5), {}, DataError, "labels must be one integer per row"),
        (nn.Sequential(nn.Softmax(1)), rows(), {}, DataError, "must call a linear layer with 4 outputs"),
        (nn.Sequential(nn.Unflatten(1, (2, 2))), rows(), {}, DataError, r"got shape \(32, 2, 2\)"),
        (network(), rows(), {"layer": "head"}, OptionError, "must be a layer of the model, got 'head'"),
        (network(), rows(), {"dtype": "int8"}, OptionError, "dtype must be 'float16' or 'float32'"),
        (network(), rows(), {"scores": "odds"}, OptionError, "or a function of logits, got 'odds'"),
        (network(), rows(), {"ids": ["a", "b"]}, DataError, "ids must have one entry for each"),
        (network(), (rows()[0] * 1e6, rows()[1]), {}, DataError, "Use dtype='float32'"),
        (network(), (rows()[0] * 1e-9, rows()[1]), {"layer": "0"}, DataError, "must not round to 0 as"),
        (network(), (rows()[0],), {}, DataError, "a batch must be .x, y."),
        (network(), rows(0), {}, DataError, "the loader must have at least one batch"),
    ],
)
def test_what_is_wrong_is_told(
    tmp_path: Path, model: Any, data: Any, options: Any, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message) as raised:
        epiloss.extract(model, loader(*data), tmp_path / "a.parquet", **options)
    assert "\n" not in str(raised.value)
    assert not (tmp_path / "a.parquet").exists()


@pytest.mark.parametrize("name", ["a.csv", "missing/a.parquet"])
def test_the_file_to_write_is_checked_before_any_work(tmp_path: Path, name: str) -> None:
    with pytest.raises(OptionError):
        epiloss.extract(network(), iter(()), tmp_path / name)


# --- going on where it stopped ---


class Stopped(Exception):  # noqa: N818  # no error, the end of a run
    """Ends a run in the middle."""


def stopping(after: int) -> Iterable[Any]:
    for number, batch in enumerate(loader()):
        if number == after:
            raise Stopped
        yield batch


def counted(net: Any) -> list[int]:
    """Return a list that grows by the rows of each batch that the network sees."""
    seen: list[int] = []
    net.register_forward_hook(lambda _, inputs, __: seen.append(len(inputs[0])))
    return seen


def stopped(path: Path, after: int = 18) -> None:
    with pytest.raises(Stopped):
        epiloss.extract(network(), stopping(after), path)


def test_finished_batches_are_not_computed_again_and_the_file_is_the_same(tmp_path: Path) -> None:
    whole = epiloss.extract(network(), loader(), tmp_path / "whole.parquet")
    path = tmp_path / "net.parquet"
    stopped(path)
    assert not path.exists()
    assert [part.name for part in tmp_path.iterdir() if part.is_dir()] == ["net.parquet.parts"]
    net = network()
    seen = counted(net)
    epiloss.extract(net, loader(), path)
    kept = 512  # two parts of eight batches of 32
    assert sum(seen) == N - kept + 2 * BATCH  # the first batch twice, to find the layer
    assert path.read_bytes() == whole.read_bytes()
    assert sorted(one.name for one in tmp_path.iterdir()) == ["net.parquet", "whole.parquet"]


def test_a_finished_file_is_not_made_again(tmp_path: Path) -> None:
    path = epiloss.extract(network(), loader(), tmp_path / "net.parquet")
    before = path.stat().st_mtime_ns
    net = network()
    seen = counted(net)
    (tmp_path / "net.parquet.parts").mkdir()  # as a run leaves it that is killed at the very end
    assert epiloss.extract(net, loader(), path) == path
    assert sum(seen) == 2 * BATCH
    assert path.stat().st_mtime_ns == before
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    ("model", "data", "options", "message"),
    [
        (network(1), {}, {}, "the model or its weights changed"),
        (network(), {}, {"dtype": "float32"}, "dtype changed"),
        (network(), {}, {"layer": "0"}, "the layer changed"),
        (network(), {}, {"scores": lambda z: torch.softmax(z / 2, 1)}, "how scores are made changed"),
        (network(), {"shuffle": True}, {}, "differ"),
        (network(), {"batch_size": 31}, {}, "differ"),
    ],
)
def test_another_model_or_loader_is_refused(
    tmp_path: Path, model: Any, data: Any, options: Any, message: str
) -> None:
    torch.manual_seed(5)
    stopped(tmp_path / "parts.parquet")
    done = epiloss.extract(network(), loader(), tmp_path / "done.parquet")
    for path in (tmp_path / "parts.parquet", done):
        with pytest.raises(DataError, match=message) as raised:
            epiloss.extract(model, loader(**data), path, **options)
        assert "resume=False" in str(raised.value)
        epiloss.extract(model, loader(**data), path, resume=False, **options)


def test_fewer_batches_than_there_were_are_refused(tmp_path: Path) -> None:
    stopped(tmp_path / "a.parquet")
    few = itertools.islice(loader(), 5)
    with pytest.raises(DataError, match=r"the loader must have the 16 batches extracted .*, got 5"):
        epiloss.extract(network(), few, tmp_path / "a.parquet")


def test_a_file_that_is_no_extraction_is_not_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    path.write_text("my thesis")
    with pytest.raises(DataError, match="exists but is not an extraction"):
        epiloss.extract(network(), loader(), path)
    assert path.read_text() == "my thesis"


SCRIPT = """
import os, signal, sys
import torch, epiloss

torch.manual_seed(0)
torch.set_num_threads(1)
net = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 3))
data = torch.utils.data.TensorDataset(torch.randn(5000, 4), torch.arange(5000) % 3)

def batches(kill):
    for number, batch in enumerate(torch.utils.data.DataLoader(data, batch_size=50)):
        if number == kill:
            os.kill(os.getpid(), signal.SIGKILL)
        yield batch

epiloss.extract(net, batches(int(sys.argv[2])), sys.argv[1])
"""


def test_a_killed_process_leaves_what_another_one_completes_to_the_same_bytes(tmp_path: Path) -> None:
    def run(path: Path, kill: int) -> int:
        command = [sys.executable, "-c", SCRIPT, str(path), str(kill)]
        done = subprocess.run(command, capture_output=True, text=True)
        assert not done.stderr, done.stderr  # silent in a pipe
        return done.returncode

    whole, path = tmp_path / "whole.parquet", tmp_path / "killed.parquet"
    assert run(whole, -1) == 0
    for kill in (37, 81):
        assert run(path, kill) == -signal.SIGKILL
        assert not path.exists()
    assert run(path, -1) == 0
    assert path.read_bytes() == whole.read_bytes()
    assert len(read_file(str(path))["y"]) == 5000


def test_memory_does_not_grow_with_rows(tmp_path: Path) -> None:
    # the largest number of rows that wait at once, over 60 batches
    from epiloss.integrations.extraction import parts

    sizes: list[int] = []

    class Counted(parts.Parts):
        def write(self, table: Any, digests: Any) -> None:
            sizes.append(table.num_rows)
            super().write(table, digests)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("epiloss.integrations.extraction.run.Parts", Counted)
        x, y = rows(1920)
        epiloss.extract(network(), loader(x, y), tmp_path / "a.parquet")
    assert sum(sizes) == 1920
    assert max(sizes) < parts.ROWS + BATCH


def test_the_example_of_the_docstring_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    example = inspect.getdoc(epiloss.extract).partition("::\n")[2]  # type: ignore[union-attr]
    exec(textwrap.dedent(example), {})
    assert len(read_file("net.parquet")["y"]) == 900


def test_without_torch_the_extra_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'epiloss\[torch\]'"):
        epiloss.extract(None, [], tmp_path / "a.parquet")
