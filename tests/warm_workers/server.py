"""``python -m tests.warm_workers.server SOCKET SESSION``: imports what they need, then forks one for each client.

It goes into the background, and ends with the process SESSION.
"""

import array
import contextlib
import gc
import json
import os
import select
import signal
import socket
import sys
import traceback
from importlib import import_module
from typing import Any

from ft_assets.workers.libraries import UNUSED, absent, keep_offline

_MODULES = (
    "ft_assets.worker",
    "ft_assets.workers.datasets.curate",
    "ft_assets.workers.base_models.mirror",
    "ft_assets.workers.packs.build",
    "ft_assets.workers.training.training_loop",
    "ft_assets.workers.training.trainer",
    "ft_assets.workers.training.train",
    "ft_assets.workers.training.reference",
    "ft_assets.workers.evals.evaluate",
    "ft_assets.workers.evals.baseline",
    "ft_assets.workers.adapters.export",
    "ft_assets.workers.evals.suite_process",
    "ft_assets.workers.serving.main",
    "transformers.models.llama.modeling_llama",
    "transformers.models.gemma3.modeling_gemma3",
    "transformers.models.siglip.modeling_siglip",
    "lm_eval.tasks",
    "lm_eval.evaluator",
)
# Of the commands of the guides.
_COMMANDS = ("ft_assets.cli.main", "ft_assets.graph.orchestrator", "kubernetes.client", "boto3")


def main() -> None:
    if os.fork():
        os._exit(0)
    session = os.pidfd_open(int(sys.argv[2]))
    keep_offline()
    with absent(*UNUSED):
        for module in _MODULES:
            import_module(module)
    for module in _COMMANDS:
        import_module(module)
    # What each worker would else work out anew, in half a second: names of weights, fonts, what is garbage.
    import_module("transformers.conversion_mapping").get_checkpoint_conversion_mapping("llama")
    import_module("ft_assets.workers.training.telemetry.report").loss_curve([], "")
    gc.freeze()
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as door:
        door.bind(sys.argv[1])
        door.listen(64)
        # Whoever looks after a worker is waited for by nobody.
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        while session not in select.select([door, session], [], [])[0]:
            client, _ = door.accept()
            if not os.fork():
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                door.close()
                _look_after(client)
            client.close()


def _look_after(client: socket.socket) -> None:
    """Fork the worker that the client asks for, hand its signals on, and end it with its client."""
    said, rights, _, _ = client.recvmsg(1 << 20, socket.CMSG_SPACE(12))
    outputs = array.array("i", rights[0][2])
    worker = os.fork()
    if not worker:
        client.close()
        _work(json.loads(said), outputs)
    for output in outputs:
        os.close(output)
    ended = os.pidfd_open(worker)
    while True:
        ready, _, _ = select.select([client, ended], [], [])
        if ended in ready:
            status = os.waitstatus_to_exitcode(os.waitpid(worker, 0)[1])
            with contextlib.suppress(OSError):
                client.send(str(status if status >= 0 else 128 - status).encode())
            os._exit(0)
        number = client.recv(1)
        if number:
            os.kill(worker, number[0])
        else:
            os.kill(worker, signal.SIGKILL)
            with contextlib.suppress(ProcessLookupError):
                os.killpg(worker, signal.SIGKILL)
            os._exit(0)


def _work(asked: dict[str, Any], outputs: "array.array[int]") -> None:
    """Be the worker, in its environment."""
    os.setsid()
    for number, output in enumerate(outputs):
        os.dup2(output, number)
        os.close(output)
    os.chdir(asked["folder"])
    os.environ.clear()
    os.environ.update(asked["environment"])
    sys.argv = [asked["module"], *asked["argv"]]
    code = 1
    try:
        import_module(asked["module"]).main()
        code = 0
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    main()
