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

    target = Path(folder) / CUB_NAME
    if target.exists():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{CUB_NAME}-unfinished-", dir=folder) as unpacked:
        whole = Path(unpacked) / CUB_NAME
        try:
            archive = pooch.retrieve(url, known_hash, fname="archive.tgz", path=unpacked, progressbar=True)
            with tarfile.open(archive) as tar:
                tar.extractall(unpacked, filter="data")
            # CUB's archive keeps this file one folder up
            (Path(unpacked) / "attributes.txt").rename(whole / "attributes/attributes.txt")
        except (OSError, ValueError, EOFError, tarfile.TarError) as error:  # requests' errors are OSErrors
            raise DatasetError(
                f"{url}: the download failed, or is not the whole archive ({type(error).__name__}: {error}). "
                "Nothing was kept. Try again with a network and room on the disk, or unpack the archive "
                f"yourself to {target}."
            ) from error
        whole.replace(target)
    return target
