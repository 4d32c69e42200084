"""Models of the Hugging Face hub, downloaded only where a name says so: hf-hub:ORG/NAME."""

from __future__ import annotations

from pathlib import Path

from equipoise.types import UserError

HUB = "hf-hub:"
PATTERNS = ("*.json", "*.txt", "*.safetensors")
PICKLES = ("*.bin",)


def download(name: str) -> Path:
    """Folder of the model, downloaded unless it is cached; pickles only where there are no safetensors."""
    model = name.removeprefix(HUB)
    try:
        from huggingface_hub import snapshot_download
        from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError
    except ImportError as error:
        raise UserError(
            f"{name} needs huggingface_hub; pip install 'equipoise[hub]', or give a local folder"
        ) from error
    try:
        folder = Path(snapshot_download(model, allow_patterns=list(PATTERNS)))
        if not any(folder.glob("*.safetensors")):
            folder = Path(snapshot_download(model, allow_patterns=[*PATTERNS, *PICKLES]))
    except (OSError, HfHubHTTPError, HFValidationError, LocalEntryNotFoundError) as error:
        reason = str(error).strip().splitlines()[0]
        raise UserError(
            f"{name} cannot be fetched from the hub ({reason}); check the name and the network, or give a local folder"
        ) from error
    return folder
