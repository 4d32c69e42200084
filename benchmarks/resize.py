"""What a core takes to shrink a photograph, by every library at hand, and how far from Pillow's pixels each comes:
`python benchmarks/resize.py`.

A photograph that comes with scikit-learn, 500 x 375, to 224 x 224, bicubic and antialiased where a library can. Seconds
are the core's own, the best of rounds. pyvips, kornia-rs and OpenCV are asked where they are installed. "forked": the
same call in a process forked from one that made it before, as a loader's are, or what became of it in five seconds.
"""

from __future__ import annotations

import argparse
import io
import os
import signal
from collections.abc import Callable, Iterator

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image
from scenes import best_seconds

from equipoise.data.encoded_image import encoded
from equipoise.data.resize import BY_TORCH, resize_pixels

SIDE, PATIENCE = 224, 5
Resize = Callable[[np.ndarray], np.ndarray]


def by_pillow(pixels: np.ndarray) -> np.ndarray:
    return np.array(Image.fromarray(pixels).resize((SIDE, SIDE), Image.Resampling.BICUBIC))


def by_torch(pixels: np.ndarray) -> np.ndarray:
    planes = torch.from_numpy(pixels).permute(2, 0, 1).contiguous()[None]
    return F.interpolate(planes, (SIDE, SIDE), mode="bicubic", antialias=True)[0].permute(1, 2, 0).numpy()


def by_torch_float(pixels: np.ndarray) -> np.ndarray:
    planes = torch.from_numpy(pixels).permute(2, 0, 1).float()[None]
    resized = F.interpolate(planes, (SIDE, SIDE), mode="bicubic", antialias=True)[0].permute(1, 2, 0)
    return resized.add_(0.5).clamp_(0, 255).to(torch.uint8).numpy()


def matrix(length: int) -> torch.Tensor:
    """Sparse [SIDE, length]: what each output takes of each input; read off by resizing unit vectors."""
    one_each = torch.eye(length)[None, None]  # of column j, the j-th input alone
    taken = F.interpolate(one_each, (SIDE, length), mode="bicubic", antialias=True)[0, 0]
    return torch.where(taken.abs() > 1e-9, taken, 0.0).to_sparse_coo()


def by_products(pixels: np.ndarray) -> Resize:
    """Two sparse matrix products, down and then across."""
    height, width, _ = pixels.shape
    with torch.sparse.check_sparse_tensor_invariants():
        down, across = matrix(height), matrix(width)

    def resize(pixels: np.ndarray) -> np.ndarray:
        rows = torch.sparse.mm(down, torch.from_numpy(pixels).reshape(height, -1).float())  # [SIDE, width * 3]
        columns = rows.view(SIDE, width, 3).permute(1, 0, 2).reshape(width, -1)
        found = torch.sparse.mm(across, columns).add_(0.5).clamp_(0, 255).to(torch.uint8)
        return found.view(SIDE, SIDE, 3).permute(1, 0, 2).numpy()

    return resize


def others() -> Iterator[tuple[str, Resize]]:
    """Libraries that are no part of Equipoise, where they are installed."""
    try:
        import pyvips

        pyvips.cache_set_max(0)

        def by_vips(pixels: np.ndarray) -> np.ndarray:
            height, width, _ = pixels.shape
            image = pyvips.Image.new_from_array(pixels)
            return image.resize(SIDE / width, vscale=SIDE / height, kernel="cubic").numpy()

        yield "libvips", by_vips
    except (ImportError, OSError) as error:
        print(f"pyvips: {error}")
    try:
        import kornia_rs.imgproc

        yield "kornia-rs", lambda pixels: kornia_rs.imgproc.resize(pixels, (SIDE, SIDE), "bicubic")
    except ImportError as error:
        print(f"kornia-rs: {error}")
    try:
        import cv2

        cv2.setNumThreads(1)
        yield "OpenCV, INTER_AREA", lambda pixels: cv2.resize(pixels, (SIDE, SIDE), interpolation=cv2.INTER_AREA)
    except ImportError as error:
        print(f"OpenCV: {error}")


def milliseconds(call: Callable[[], object], rounds: int) -> float:
    return 1000 * best_seconds(call, repeats=12 * rounds)


def forked(call: Callable[[], object]) -> str:
    child = os.fork()
    if child == 0:
        signal.alarm(PATIENCE)
        call()
        os._exit(0)
    status = os.waitpid(child, 0)[1]
    return "works" if status == 0 else "**hangs**" if os.WTERMSIG(status) == signal.SIGALRM else f"status {status}"


def photograph() -> bytes:
    from sklearn.datasets import load_sample_image

    picture = Image.fromarray(load_sample_image("china.jpg")).resize((500, 375))
    file = io.BytesIO()
    picture.save(file, "JPEG", quality=90)
    return file.getvalue()


def main() -> None:
    parser = argparse.ArgumentParser(description="Time of resizing a photograph, by library.")
    parser.add_argument("--rounds", type=int, default=10)
    options = parser.parse_args()
    torch.set_num_threads(1)
    image = encoded(photograph(), "china.jpg")
    pixels = image.pixels()
    wanted = by_pillow(pixels).astype(int)
    ways: dict[str, Resize] = {
        f"in use here: {'torch' if BY_TORCH else 'Pillow'}": lambda given: resize_pixels(given, SIDE, SIDE),
        "Pillow": by_pillow,
        "torch, uint8": by_torch,
        "torch, float32": by_torch_float,
        "two sparse products": by_products(pixels),
        **dict(others()),
    }
    print("| | ms | largest difference, levels | forked |\n|---|---:|---:|---|")
    print(f"| decoding it | {milliseconds(image.pixels, options.rounds):.2f} | | |")
    for name, way in ways.items():
        taken = milliseconds(lambda way=way: way(pixels), options.rounds)
        largest = abs(way(pixels).astype(int) - wanted).max()
        print(f"| {name} | {taken:.2f} | {largest} | {forked(lambda way=way: way(pixels))} |", flush=True)


if __name__ == "__main__":
    main()
