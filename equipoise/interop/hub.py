"""Models of the Hugging Face hub, reached only where a name says so: hf-hub:ORG/NAME, or in `push` and `pull`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from equipoise.types import UserError

HUB = "hf-hub:"
PATTERNS = ("*.json", "*.txt", "*.safetensors")
PICKLES = ("*.bin",)
NETWORK = ("httpx", "requests")  # with which the package reaches the hub: their errors are no OSErrors


def download(name: str) -> Path:
    """Folder of the model, downloaded unless it is cached; pickles only where there are no safetensors."""
    model = name.removeprefix(HUB)
    folder = fetch(model, PATTERNS)
    return folder if any(folder.glob("*.safetensors")) else fetch(model, (*PATTERNS, *PICKLES))


def fetch(model: str, patterns: Sequence[str]) -> Path:
    """Folder with those files of ORG/NAME that fit a pattern, downloaded unless they are cached."""
    with _errors_of_the_hub(model, "fetched from") as hub:
        return Path(hub.snapshot_download(model, allow_patterns=list(patterns)))


def fetch_data(name: str, folder: Path) -> Path:
    """The test split of a data set in CLIP_benchmark's layout, downloaded into a folder, which is there when it is
    whole: a download that was stopped goes on in FOLDER.part."""
    part = folder.with_name(f"{folder.name}.part")
    with _errors_of_the_hub(name, "fetched from") as hub:
        patterns = ["test/*", "*.txt"]
        hub.snapshot_download(name, repo_type="dataset", local_dir=part, allow_patterns=patterns)
        part.rename(folder)
    return folder


def upload(folder: Path, model: str, private: bool) -> str:
    """Upload all files of a folder to ORG/NAME, which is made where it is not there; returns its address."""
    with _errors_of_the_hub(model, "uploaded to") as hub:
        api = hub.HfApi()
        address = api.create_repo(model, private=private, exist_ok=True)
        api.upload_folder(repo_id=model, folder_path=str(folder), commit_message="Upload a model of Equipoise")
        return str(address)


@contextmanager
def _errors_of_the_hub(model: str, verb: str) -> Iterator[Any]:
    """The package, whose errors become one sentence."""
    try:
        import huggingface_hub
        from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError
    except ImportError as error:
        raise UserError(
            f"{HUB}{model} needs huggingface_hub; pip install 'equipoise[hub]', or give a local folder"
        ) from error
    try:
        yield huggingface_hub
    except Exception as error:
        theirs = isinstance(error, (OSError, HfHubHTTPError, HFValidationError, LocalEntryNotFoundError))
        if not theirs and not type(error).__module__.startswith(NETWORK):
            raise
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise UserError(
            f"{HUB}{model} cannot be {verb} the hub ({reason}); check the name, the network and that you are logged in "
            "(`hf auth login`), or give a local folder"
        ) from error
