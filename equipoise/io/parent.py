"""Processes that end with the one that started them, however that died: nothing else would ever end them."""

from __future__ import annotations

import os
import threading
import time

SECONDS_BETWEEN_LOOKS = 1.0


def end_with(parent: int) -> None:
    """End this process when the one that started it, whose id is `parent`, is gone."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(SECONDS_BETWEEN_LOOKS)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
