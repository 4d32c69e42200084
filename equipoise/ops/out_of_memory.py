"""Want of memory, whoever reports it: Python by MemoryError, torch by RuntimeError in the words of its allocators, the
system by OSError."""

from __future__ import annotations

import errno
import re

MEMORY_ERRORS = (MemoryError, RuntimeError, OSError)  # what want of memory may raise; each may mean something else
SIGNS = (
    "out of memory",  # CUDA and other accelerators
    "ALLOC_FAILED",  # cuBLAS and cuDNN
    "DefaultCPUAllocator",
    "bad_alloc",
    "annot allocate memory",
    "Storage size calculation overflowed",  # more than any machine has
    "integer multiplication overflow",
)
ASKED = re.compile(r"allocate ([\d.]+) ?(bytes|[KMGTPE]iB)")


def lacks_memory(error: BaseException) -> bool:
    """Whether an error says that there is not enough memory."""
    if isinstance(error, MemoryError):
        return True
    if isinstance(error, OSError):
        return error.errno == errno.ENOMEM
    return isinstance(error, RuntimeError) and any(sign in str(error) for sign in SIGNS)


def memory_phrase(error: BaseException) -> str:
    """Describe want of memory as the start of a sentence: whose, and how much was asked for at last."""
    text = str(error)
    whose = "the GPU's memory" if re.search("CUDA|CUBLAS|CUDNN", text) else "memory"
    asked = ASKED.search(text)
    return f"{whose} ran out" + (f" ({_readable(*asked.groups())} more were asked for)" if asked else "")


def _readable(number: str, unit: str) -> str:
    return f"{int(number) / 2**30:,.2f} GiB" if unit == "bytes" else f"{number} {unit}"
