"""Fetching the real CUB-200-2011; never done unasked."""

import tarfile
import tempfile
from pathlib import Path

from xaihelpers.datasets.dataset import DatasetError

CUB_URL = "https://data.caltech.edu/records/65de6-vp158/files/CUB_200_2011.tgz"
CUB_HASH = "md5:97eceeb196236b17998738112f37df78"
CUB_NAME = "CUB_200_2011"


def download_cub(folder: str | Path, url: str = CUB_URL, known_hash: str = CUB_HASH) -> Path:
    """Download CUB-200-2011 (1.2 GB) into `folder` and unpack it there; returns `folder`/CUB_200_2011.

    A data set that is there already is kept. The archive is checked by its hash, no member may lie outside
    the folder, and the data set takes its name only when whole: a killed call leaves nothing that could be
    taken for it (only a folder `.CUB_200_2011-unfinished-…`, which may be deleted).

    Raises DatasetError saying what failed and what to do.
    """
    import pooch  # imports requests; only the download needs it

    folder = Path(folder)
    target = folder / CUB_NAME
    if (target / "images.txt").is_file():
        return target
    if target.exists():
        raise DatasetError(f"{target}: exists but has no images.txt. Move it away, then download again.")
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{CUB_NAME}-unfinished-", dir=folder) as temporary:
        unpacked = Path(temporary) / "unpacked"
        try:
            archive = pooch.retrieve(url, known_hash, fname="archive.tgz", path=temporary, progressbar=True)
            with tarfile.open(archive) as tar:
                tar.extractall(unpacked, filter="data")
            beside = unpacked / "attributes.txt"  # CUB's archive keeps this file one folder up
            if beside.is_file() and not (unpacked / CUB_NAME / "attributes/attributes.txt").exists():
                (unpacked / CUB_NAME / "attributes").mkdir(parents=True, exist_ok=True)
                beside.rename(unpacked / CUB_NAME / "attributes/attributes.txt")
            if not (unpacked / CUB_NAME / "images.txt").is_file():
                raise ValueError(f"it holds no {CUB_NAME}/images.txt")
        except (OSError, ValueError, EOFError, tarfile.TarError) as error:  # requests' errors are OSErrors
            raise DatasetError(
                f"{url}: the download failed, or is not the whole archive ({type(error).__name__}: {error}). "
                "Nothing was kept. Try again with a network and room on the disk, or unpack the archive "
                f"yourself to {target}."
            ) from error
        (unpacked / CUB_NAME).replace(target)
    return target
