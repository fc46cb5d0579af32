"""The nineteen corruptions of CIFAR-10-C (Hendrycks and Dietterich, ICLR 2019) for images of 32 pixels.

Strengths are those of CIFAR-10-C (https://github.com/hendrycks/robustness); the code is ours, and
differs where theirs calls ImageMagick or OpenCV: fog is made of smooth noise, frost of its ridges and
not of photographs, splashed water has no shades, and a glass moves each pixel by itself.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

Image = NDArray[np.float64]  # (height, width, channels), from 0 to 1
Corruption = Callable[[Image, int, np.random.Generator], Image]
SEVERITIES = (1, 2, 3, 4, 5)


def gaussian_noise(image: Image, severity: int, generator: np.random.Generator) -> Image:
    """Add noise of equal strength everywhere, as in low light."""
    return image + generator.normal(0, (0.04, 0.06, 0.08, 0.09, 0.10)[severity - 1], image.shape)


def shot_noise(image: Image, severity: int, generator: np.random.Generator) -> Image:
    """Add photon (Poisson) noise."""
    photons = (500, 250, 100, 75, 50)[severity - 1]
    return generator.poisson(np.clip(image, 0, 1) * photons) / photons


def impulse_noise(image: Image, severity: int, generator: np.random.Generator) -> Image:
    """Set some values to black or white."""
    draw = generator.random(image.shape)
    share = (0.01, 0.02, 0.03, 0.05, 0.07)[severity - 1]
    return np.where(draw < share / 2, 0.0, np.where(draw > 1 - share / 2, 1.0, image))


def speckle_noise(image: Image, severity: int, generator: np.random.Generator) -> Image:
    """Add noise that is stronger where the image is brighter."""
    strength = (0.06, 0.1, 0.12, 0.16, 0.2)[severity - 1]
    return image * (1 + generator.normal(0, strength, image.shape))


def gaussian_blur(image: Image, severity: int, _: np.random.Generator) -> Image:
    """Blur with a Gaussian."""
    return _blurred(image, (0.4, 0.6, 0.7, 0.8, 1.0)[severity - 1])


def defocus_blur(image: Image, severity: int, _: np.random.Generator) -> Image:
    """Spread every point over a disc."""
    radius, soft = ((0.3, 0.4), (0.4, 0.5), (0.5, 0.6), (1.0, 0.2), (1.5, 0.1))[severity - 1]
    y, x = np.mgrid[-3:4, -3:4]
    disc = _blurred((x**2 + y**2 <= radius**2).astype(float), soft)
    return np.asarray(ndimage.convolve(image, (disc / disc.sum())[:, :, None], mode="mirror"))


def glass_blur(image: Image, severity: int, generator: np.random.Generator) -> Image:
    """Swap neighbouring pixels, as behind rippled glass."""
    width, times = ((0.05, 1), (0.25, 1), (0.4, 1), (0.25, 2), (0.4, 2))[severity - 1]
    moved = _blurred(image, width)
    for _ in range(times):
        moved = _warped(moved, generator.integers(-1, 2, (2, *image.shape[:2])).astype(float))
    return _blurred(moved, width)


def motion_blur(image: Image, severity: int, generator: np.random.Generator) -> Image:
    """Average along a line in a random direction."""
    radius, width = ((6, 1.0), (6, 1.5), (6, 2.0), (8, 2.0), (9, 2.5))[severity - 1]
    return _smeared(image, radius, width, np.deg2rad(generator.uniform(-45, 45)))


def zoom_blur(image: Image, severity: int, _: np.random.Generator) -> Image:
    """Average over a zoom towards the middle."""
    y, x = np.mgrid[: image.shape[0], : image.shape[1]]
    middle = (np.array(image.shape[:2]) - 1)[:, None, None] / 2
    away = np.array([y, x]) - middle
    zooms = 1 / np.arange(1, 1.01 + 0.05 * severity, 0.01)
    return np.asarray(np.mean([_warped(image, away * (zoom - 1)) for zoom in zooms], axis=0))


def fog(image: Image, severity: int, generator: np.random.Generator) -> Image:
    """Add clouds and reduce the contrast."""
    layers = [width * _clouds(image.shape, width, generator) for width in (8.0, 4.0, 2.0)]
    clouds: Image = np.sum(layers, axis=0)
    strength, brightest = (0.2, 0.5, 0.75, 1.0, 1.5)[severity - 1], float(image.max())
    foggy: Image = image + strength * (clouds / clouds.max())[:, :, None]
    return foggy * brightest / (brightest + strength)


def frost(image: Image, severity: int, generator: np.random.Generator) -> Image:
    """Add bluish crystals."""
    left, added = ((1.0, 0.2), (1.0, 0.3), (0.9, 0.4), (0.85, 0.4), (0.75, 0.45))[severity - 1]
    ridges = [1 - np.abs(2 * _clouds(image.shape, width, generator) - 1) for width in (3.0, 1.5, 0.7)]
    crystals = np.mean(ridges, axis=0)[:, :, None] * np.array([0.85, 0.95, 1.0])
    return left * image + added * (crystals if image.shape[2] == 3 else grey(crystals))


def snow(image: Image, severity: int, generator: np.random.Generator) -> Image:
    """Add motion-blurred flakes and whiten the image."""
    mean, spread, zoom, least, radius, width, left = (
        (0.1, 0.2, 1.0, 0.6, 8, 3.0, 0.95),
        (0.1, 0.2, 1.0, 0.5, 10, 4.0, 0.9),
        (0.15, 0.3, 1.75, 0.55, 10, 4.0, 0.9),
        (0.25, 0.3, 2.25, 0.6, 12, 6.0, 0.85),
        (0.3, 0.3, 1.25, 0.65, 14, 12.0, 0.8),
    )[severity - 1]
    flakes = generator.normal(mean, spread, (*image.shape[:2], 1))
    middle = (np.array(image.shape[:2]) - 1)[:, None, None] / 2
    flakes = _warped(flakes, (np.mgrid[: image.shape[0], : image.shape[1]] - middle) * (1 / zoom - 1))
    flakes = np.clip(np.where(flakes < least, 0, flakes), 0, 1)
    flakes = _smeared(flakes, radius, width, np.deg2rad(generator.uniform(-135, -45)))
    whitened = left * image + (1 - left) * np.maximum(image, 1.5 * grey(image) + 0.5)
    snowy: Image = whitened + flakes + flakes[::-1, ::-1]
    return snowy


def spatter(image: Image, severity: int, generator: np.random.Generator) -> Image:
    """Splash water on the image and, from severity 4 on, mud."""
    mean, spread, width, least, strength = (
        (0.62, 0.1, 0.7, 0.7, 0.5),
        (0.65, 0.1, 0.8, 0.7, 0.5),
        (0.65, 0.3, 1.0, 0.69, 0.5),
        (0.65, 0.1, 0.7, 0.69, 0.6),
        (0.65, 0.1, 0.5, 0.68, 0.6),
    )[severity - 1]
    liquid = _blurred(generator.normal(mean, spread, image.shape[:2]), width)
    drops = np.where(liquid > least, liquid, 0.0)
    mud = severity >= 4
    colour = np.array((63, 42, 20) if mud else (175, 238, 238)) / 255
    if image.shape[2] == 1:
        colour = grey(colour[None, None])[0, 0]
    if mud:
        cover = _blurred((drops > 0).astype(float), strength)
        cover = np.where(cover < 0.8, 0.0, cover)[:, :, None]
        return image * (1 - cover) + colour * cover
    cover = ndimage.uniform_filter(drops, 3)[:, :, None]
    splashed: Image = image + strength * colour * cover / max(float(cover.max()), 1e-12)
    return splashed


def brightness(image: Image, severity: int, _: np.random.Generator) -> Image:
    """Make everything brighter."""
    top = image.max(axis=2, keepdims=True)  # the value of hue, saturation and value
    brighter = np.minimum(top + (0.05, 0.1, 0.15, 0.2, 0.3)[severity - 1], 1)
    return np.asarray(np.where(top > 0, image / np.maximum(top, 1e-12), 1) * brighter)


def saturate(image: Image, severity: int, _: np.random.Generator) -> Image:
    """Make colours paler or stronger; grey images have none."""
    times, more = ((0.3, 0.0), (0.1, 0.0), (1.5, 0.0), (2.0, 0.1), (2.5, 0.2))[severity - 1]
    top = image.max(axis=2, keepdims=True)
    away = top - image
    saturation = away.max(axis=2, keepdims=True) / np.maximum(top, 1e-12)
    wanted = np.clip(saturation * times + more, 0, 1)
    # greys turn to red, as the hue of a grey is 0
    red = top * np.array([0.0, 1.0, 1.0])[: image.shape[2]]
    lowered = np.where(saturation > 0, away / np.maximum(saturation, 1e-12), red) * wanted
    return np.asarray(top - lowered)


def contrast(image: Image, severity: int, _: np.random.Generator) -> Image:
    """Reduce the contrast."""
    mean = image.mean(axis=(0, 1), keepdims=True)
    return np.asarray(mean + (image - mean) * (0.75, 0.5, 0.4, 0.3, 0.15)[severity - 1])


def pixelate(image: Image, severity: int, _: np.random.Generator) -> Image:
    """Reduce the resolution."""
    size = max(2, int(image.shape[0] * (0.95, 0.9, 0.85, 0.75, 0.65)[severity - 1]))
    place = (np.arange(image.shape[0]) * size) // image.shape[0]
    blocks = np.stack([image[place == row].mean(axis=0) for row in range(size)])
    place = (np.arange(image.shape[1]) * size) // image.shape[1]
    cells = np.stack([blocks[:, place == column].mean(axis=1) for column in range(size)], axis=1)
    rows = (np.arange(image.shape[0]) * size) // image.shape[0]
    return np.asarray(cells[rows][:, place])


def jpeg_compression(image: Image, severity: int, _: np.random.Generator) -> Image:
    """Compress as JPEG."""
    from PIL import Image as Pillow

    pixels = to_bytes(image)
    grey = pixels.shape[2] == 1
    stream = io.BytesIO()
    made = Pillow.fromarray(pixels[:, :, 0] if grey else pixels)
    made.save(stream, "JPEG", quality=(80, 65, 58, 50, 40)[severity - 1])
    again = np.asarray(Pillow.open(stream), np.float64) / 255
    return again[:, :, None] if grey else again


def elastic_transform(image: Image, severity: int, generator: np.random.Generator) -> Image:
    """Distort the image smoothly."""
    size = image.shape[0]
    strength, width, skew = size * np.array(
        ((0, 0, 0.08), (0.05, 0.2, 0.07), (0.08, 0.06, 0.06), (0.1, 0.04, 0.05), (0.1, 0.03, 0.03))[
            severity - 1
        ]
    )
    pull = generator.uniform(-1, 1, (2, *image.shape[:2]))
    smooth = strength * np.stack([ndimage.gaussian_filter(one, width) for one in pull])
    places = np.mgrid[: image.shape[0], : image.shape[1]] - size / 2
    # three corners of a square of two thirds of the image move by up to ``skew`` pixels
    across, down, shift = generator.uniform(-skew, skew, (3, 2, 1, 1)) * np.array(1.5 / size)
    skewed = across * places[1] + down * places[0] + shift * size / 1.5
    return _warped(image, smooth + skewed)


CORRUPTIONS: Mapping[str, Corruption] = {
    one.__name__: one
    for one in (
        gaussian_noise,
        shot_noise,
        impulse_noise,
        speckle_noise,
        gaussian_blur,
        defocus_blur,
        glass_blur,
        motion_blur,
        zoom_blur,
        snow,
        frost,
        fog,
        brightness,
        contrast,
        pixelate,
        jpeg_compression,
        elastic_transform,
        spatter,
        saturate,
    )
}
COLOURED = ("saturate",)  # those that leave grey images as they are


def named_for(images: NDArray[np.uint8]) -> list[str]:
    """Return the corruptions that apply to such images (n, height, width, channels)."""
    return [name for name in CORRUPTIONS if images.shape[3] == 3 or name not in COLOURED]


def corrupted(image: NDArray[np.uint8], name: str, severity: int, seed: int) -> NDArray[np.uint8]:
    """Return an image (height, width, channels) with one corruption; the same seed gives the same."""
    generator = np.random.default_rng(seed)
    return to_bytes(CORRUPTIONS[name](image.astype(np.float64) / 255, severity, generator))


def drawn(n: int, names: list[str], seed: int) -> NDArray[np.object_]:
    """Return a random corruption for each of ``n`` images, all equally often."""
    return np.random.default_rng(seed).permutation(np.array(names, object)[np.arange(n) % len(names)])


def every(images: NDArray[np.uint8], name: str, severity: int, seed: int) -> NDArray[np.uint8]:
    """Return all images with the same corruption, drawn independently."""
    return _each(images, [name] * len(images), severity, seed)


def _each(
    images: NDArray[np.uint8], names: Sequence[str], severity: int, seed: int
) -> NDArray[np.uint8]:
    seeds = np.random.default_rng([seed, severity]).integers(2**63, size=len(images))
    return np.stack(
        [
            corrupted(image, str(name), severity, int(own))
            for image, name, own in zip(images, names, seeds, strict=True)
        ]
    )


def merged(
    images: NDArray[np.uint8], severity: int, seed: int
) -> tuple[NDArray[np.uint8], NDArray[np.object_]]:
    """Return all images (n, height, width, channels), each with one corruption, and which it is."""
    names = drawn(len(images), named_for(images), seed)
    return _each(images, [str(name) for name in names], severity, seed), names


def to_bytes(image: Image) -> NDArray[np.uint8]:
    """Return numbers from 0 to 1 as bytes."""
    return np.asarray(np.clip(image * 255 + 0.5, 0, 255), np.uint8)


def grey(image: Image) -> Image:
    """Return the brightness of an image (height, width, 1)."""
    weights = (0.299, 0.587, 0.114) if image.shape[2] == 3 else (1.0,)
    return np.asarray(image @ np.array(weights))[:, :, None]


def _clouds(shape: tuple[int, ...], width: float, generator: np.random.Generator) -> Image:
    """Return smooth noise (height, width) from 0 to 1."""
    smooth = ndimage.gaussian_filter(generator.random(shape[:2]), width, mode="wrap")
    return np.asarray((smooth - smooth.min()) / max(float(np.ptp(smooth)), 1e-12))


def _blurred(image: Image, width: float) -> Image:
    """Return an image blurred by a Gaussian with this standard deviation in pixels."""
    return np.asarray(ndimage.gaussian_filter(image, (width, width, *(0,) * (image.ndim - 2))))


def _smeared(image: Image, radius: int, width: float, angle: float) -> Image:
    """Return an image blurred along one direction, with decreasing weights."""
    steps = np.arange(min(2 * radius, int(np.ceil(3 * width))) + 1)
    weights = np.exp(-((steps / width) ** 2) / 2)
    moved = [
        weight
        * ndimage.shift(image, (step * np.sin(angle), step * np.cos(angle), 0), order=1, mode="nearest")
        for step, weight in zip(steps.tolist(), weights.tolist(), strict=True)
    ]
    return np.asarray(np.sum(moved, axis=0) / weights.sum())


def _warped(image: Image, moves: NDArray[np.float64]) -> Image:
    """Return each pixel from where ``moves`` (2, height, width) points, interpolated."""
    y, x = np.mgrid[: image.shape[0], : image.shape[1]]
    places = np.array([y, x]) + moves
    layers = [
        ndimage.map_coordinates(image[:, :, layer], places, order=1, mode="nearest")
        for layer in range(image.shape[2])
    ]
    return np.stack(layers, axis=-1)
