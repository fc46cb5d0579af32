"""Corruptions of small images in the manner of ImageNet-C (Hendrycks and Dietterich, ICLR 2019).

Fifteen of its nineteen kinds, written for images of about 32 pixels: sizes are in pixels, so a blur that
is mild at 224 pixels would leave nothing here. Frost needs photographs, snow, spatter and saturation
large or coloured images; they are left out. Strengths are ours, not those of ImageNet-C.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

Image = NDArray[np.float64]  # (height, width, channels), from 0 to 1
Corruption = Callable[[Image, int, np.random.Generator], Image]
SEVERITIES = (1, 2, 3, 4, 5)


def gaussian_noise(image: Image, severity: int, generator: np.random.Generator) -> Image:
    """Add noise of equal strength everywhere, as in low light."""
    return image + generator.normal(0, 0.04 * severity, image.shape)


def shot_noise(image: Image, severity: int, generator: np.random.Generator) -> Image:
    """Count few photons."""
    photons = (100, 50, 25, 14, 8)[severity - 1]
    return generator.poisson(np.clip(image, 0, 1) * photons) / photons


def impulse_noise(image: Image, severity: int, generator: np.random.Generator) -> Image:
    """Turn some numbers black or white."""
    draw = generator.random(image.shape)
    share = 0.02 * severity
    return np.where(draw < share / 2, 0.0, np.where(draw > 1 - share / 2, 1.0, image))


def speckle_noise(image: Image, severity: int, generator: np.random.Generator) -> Image:
    """Add noise that is stronger where the image is brighter."""
    return image * (1 + generator.normal(0, 0.08 * severity, image.shape))


def gaussian_blur(image: Image, severity: int, _: np.random.Generator) -> Image:
    """Mix neighbours."""
    return np.asarray(ndimage.gaussian_filter(image, (0.3 + 0.2 * severity,) * 2 + (0,)))


def defocus_blur(image: Image, severity: int, _: np.random.Generator) -> Image:
    """Spread every point over a disc."""
    radius = 0.6 + 0.35 * severity
    reach = int(np.ceil(radius))
    y, x = np.mgrid[-reach : reach + 1, -reach : reach + 1]
    # soft at the edge, so that radii between whole pixels differ
    disc = np.clip(radius + 0.5 - np.hypot(x, y), 0, 1)
    return np.asarray(ndimage.convolve(image, (disc / disc.sum())[:, :, None], mode="nearest"))


def glass_blur(image: Image, severity: int, generator: np.random.Generator) -> Image:
    """Let neighbours change places, as behind rippled glass."""
    reach = (0.4, 0.7, 1.0, 1.4, 1.8)[severity - 1]
    return _warped(image, generator.uniform(-reach, reach, (2, *image.shape[:2])))


def motion_blur(image: Image, severity: int, generator: np.random.Generator) -> Image:
    """Average along a line in a random direction."""
    angle = generator.uniform(0, np.pi)
    steps = np.linspace(-0.5, 0.5, 9) * (1.2 + 1.1 * severity)
    moved = [
        ndimage.shift(image, (step * np.sin(angle), step * np.cos(angle), 0), order=1, mode="nearest")
        for step in steps
    ]
    return np.asarray(np.mean(moved, axis=0))


def zoom_blur(image: Image, severity: int, _: np.random.Generator) -> Image:
    """Average over a zoom towards the middle."""
    y, x = np.mgrid[: image.shape[0], : image.shape[1]]
    middle = (np.array(image.shape[:2]) - 1)[:, None, None] / 2
    away = np.array([y, x]) - middle
    zooms = 1 / np.linspace(1, 1 + 0.09 * severity, 6)
    return np.asarray(np.mean([_warped(image, away * (zoom - 1)) for zoom in zooms], axis=0))


def fog(image: Image, severity: int, generator: np.random.Generator) -> Image:
    """Lay clouds over the image and take contrast away."""
    clouds = np.zeros(image.shape[:2])
    for width in (8.0, 4.0, 2.0):
        smooth = ndimage.gaussian_filter(generator.random(image.shape[:2]), width, mode="wrap")
        clouds += width * (smooth - smooth.min()) / max(float(np.ptp(smooth)), 1e-12)
    strength = 0.25 + 0.2 * severity
    foggy: Image = (image + strength * (clouds / clouds.max())[:, :, None]) / (1 + strength)
    return foggy


def brightness(image: Image, severity: int, _: np.random.Generator) -> Image:
    """Make everything brighter."""
    return image + 0.1 * severity


def contrast(image: Image, severity: int, _: np.random.Generator) -> Image:
    """Bring everything close to the mean."""
    mean = image.mean(axis=(0, 1), keepdims=True)
    return np.asarray(mean + (image - mean) * (0.75, 0.55, 0.4, 0.25, 0.15)[severity - 1])


def pixelate(image: Image, severity: int, _: np.random.Generator) -> Image:
    """Show fewer pixels."""
    size = max(2, round(image.shape[0] * (0.8, 0.65, 0.5, 0.4, 0.3)[severity - 1]))
    place = (np.arange(image.shape[0]) * size) // image.shape[0]
    blocks = np.stack([image[place == row].mean(axis=0) for row in range(size)])
    place = (np.arange(image.shape[1]) * size) // image.shape[1]
    cells = np.stack([blocks[:, place == column].mean(axis=1) for column in range(size)], axis=1)
    rows = (np.arange(image.shape[0]) * size) // image.shape[0]
    return np.asarray(cells[rows][:, place])


def jpeg_compression(image: Image, severity: int, _: np.random.Generator) -> Image:
    """Compress, and lose what that loses."""
    from PIL import Image as Pillow

    pixels = to_bytes(image)
    grey = pixels.shape[2] == 1
    stream = io.BytesIO()
    made = Pillow.fromarray(pixels[:, :, 0] if grey else pixels)
    made.save(stream, "JPEG", quality=(35, 22, 14, 9, 5)[severity - 1])
    again = np.asarray(Pillow.open(stream), np.float64) / 255
    return again[:, :, None] if grey else again


def elastic_transform(image: Image, severity: int, generator: np.random.Generator) -> Image:
    """Pull the image about, smoothly."""
    pull = generator.uniform(-1, 1, (2, *image.shape[:2]))
    smooth = np.stack([ndimage.gaussian_filter(one, 2.5) for one in pull])
    return _warped(image, smooth * (0.5 + 0.5 * severity) / max(float(smooth.std()), 1e-12))


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
        fog,
        brightness,
        contrast,
        pixelate,
        jpeg_compression,
        elastic_transform,
    )
}


def corrupted(image: NDArray[np.uint8], name: str, severity: int, seed: int) -> NDArray[np.uint8]:
    """Return an image (height, width, channels) with one corruption; the same seed gives the same."""
    generator = np.random.default_rng(seed)
    return to_bytes(CORRUPTIONS[name](image.astype(np.float64) / 255, severity, generator))


def drawn(n: int, names: list[str], seed: int) -> NDArray[np.object_]:
    """Return a corruption for each of ``n`` images at random, each as often as the others."""
    return np.random.default_rng(seed).permutation(np.array(names, object)[np.arange(n) % len(names)])


def merged(
    images: NDArray[np.uint8], severity: int, seed: int
) -> tuple[NDArray[np.uint8], NDArray[np.object_]]:
    """Return all images (n, height, width, channels), each with one corruption, and which it is."""
    names = drawn(len(images), list(CORRUPTIONS), seed)
    seeds = np.random.default_rng([seed, severity]).integers(2**63, size=len(images))
    made = [
        corrupted(image, str(name), severity, int(own))
        for image, name, own in zip(images, names, seeds, strict=True)
    ]
    return np.stack(made), names


def to_bytes(image: Image) -> NDArray[np.uint8]:
    """Return numbers from 0 to 1 as bytes."""
    return np.asarray(np.clip(image * 255 + 0.5, 0, 255), np.uint8)


def _warped(image: Image, moves: NDArray[np.float64]) -> Image:
    """Return each pixel from where ``moves`` (2, height, width) points, in between by interpolation."""
    y, x = np.mgrid[: image.shape[0], : image.shape[1]]
    places = np.array([y, x]) + moves
    layers = [
        ndimage.map_coordinates(image[:, :, layer], places, order=1, mode="nearest")
        for layer in range(image.shape[2])
    ]
    return np.stack(layers, axis=-1)
