"""The embedded server as a process: ``python -m ft_assets.workers.serving.main --base FOLDER --port N``.

It answers on this machine only. Clients send the key in ``FT_SERVING_KEY``.
"""

import argparse
import os
import threading
import time
from pathlib import Path

import uvicorn

from ft_assets.workers.evals.model import load_model
from ft_assets.workers.serving.app import make_app
from ft_assets.workers.serving.engine import Engine
from ft_resources.errors import Misconfigured

KEY = "FT_SERVING_KEY"
_LOOK_EVERY_S = 1.0


def main() -> None:
    """Serve until a signal ends the process."""
    parser = argparse.ArgumentParser(description="Serve a base model and adapters to it, on this machine.")
    parser.add_argument("--base", type=Path, required=True, help="folder of the base: safetensors, no code is run")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--served-model-name", help="the base's name in requests; its folder by default")
    parser.add_argument("--dtype", choices=("auto", "float32"), default="auto", help="auto: as adapters are evaluated")
    parser.add_argument("--max-adapters", type=int, default=8, help="most adapters in memory")
    parser.add_argument("--max-rows", type=int, default=32, help="most requests computed together")
    parser.add_argument("--max-waiting", type=int, default=256, help="most requests in the queue")
    parser.add_argument("--parent", type=int, help="id of the process that started this one; it ends with it")
    asked = parser.parse_args()
    if asked.parent is not None:
        threading.Thread(target=_end_with, args=(asked.parent,), daemon=True).start()
    key = os.environ.get(KEY, "")
    if not key:
        raise Misconfigured("there is no key", where=KEY, remedy="Set it to a secret that clients send too.")
    loaded = load_model(asked.base)
    if asked.dtype == "float32":
        loaded.model.float()
    engine = Engine(
        loaded,
        name=asked.served_model_name or str(asked.base),
        max_adapters=asked.max_adapters,
        max_rows=asked.max_rows,
        max_waiting=asked.max_waiting,
    )
    try:
        uvicorn.run(make_app(engine, key), host="127.0.0.1", port=asked.port, log_level="warning", access_log=False)
    finally:
        engine.close()


def _end_with(parent: int) -> None:
    """End this process once ``parent`` is gone, however it ended."""
    while os.getppid() == parent:
        time.sleep(_LOOK_EVERY_S)
    os._exit(1)


if __name__ == "__main__":
    main()
