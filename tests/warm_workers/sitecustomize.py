"""Imported by Python at its start: turns a worker, its ranks and the commands of the guides into clients of
``server.py``, lets Dagster's code server fork runs and its daemon look often, and leaves all else alone."""

import sys


def _become_a_fork(place: str) -> None:
    import array
    import json
    import os
    import signal
    import socket
    import time

    line = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)

    def hand_on(number: int, _: object) -> None:
        line.send(bytes([number]))

    deadline = time.monotonic() + 600
    while line.connect_ex(place):
        if time.monotonic() > deadline:
            sys.exit(f"no process makes workers at {place}")
        time.sleep(0.02)
    _, module, *argv = sys.orig_argv[sys.orig_argv.index("-m") :]
    asked = {"module": module, "argv": argv, "environment": dict(os.environ), "folder": os.getcwd()}
    outputs = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [0, 1, 2]))]
    line.sendmsg([json.dumps(asked).encode()], outputs)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, hand_on)
    os._exit(int(line.recv(16) or b"1"))


def _fork_runs() -> None:
    """Dagster's code server spawns a process for each run, which imports the definitions: let it fork them."""
    import multiprocessing
    from multiprocessing.context import BaseContext

    get = multiprocessing.get_context

    def get_context(method: str | None = None) -> BaseContext:
        if method != "spawn":
            return get(method)
        context = get("forkserver")
        context.set_forkserver_preload(["dagster._grpc.server", "ft_assets.definitions"])
        return context

    multiprocessing.get_context = get_context


def _look_often() -> None:
    """Dagster's daemon looks at sensors and its queue every five seconds, and at backfills every thirty: no test is
    about how long it sleeps."""
    from tests.dagster_private import QueuedRunCoordinator, controller, sensor

    controller.DEFAULT_DAEMON_INTERVAL_SECONDS = sensor.MIN_INTERVAL_LOOP_TIME = 1
    QueuedRunCoordinator.dequeue_interval_seconds = 1  # type: ignore[assignment,method-assign]


_HEAVY = (
    "/dataset/",
    "/base_model/",
    "/baseline_report/",
    "/token_pack/",
    "/reference_logps/",
    "/checkpoint/",
    "/eval_report/",
    "/adapter/",
)
_MODULES = {
    "ft_assets.fetch",
    "ft_assets.workers.evals.suite_process",
    "ft_assets.workers.serving.main",
    "tests.fake_worker",
    "torch.distributed.run",
    "ft_assets.workers.training.rank",
    "tests.e2e.cluster_guide.aws",
    "tests.warm_workers.ft",
}
if len(sys.orig_argv) > 2:
    import os

    if place := os.environ.get("TEST_WARM_WORKERS"):
        if sys.orig_argv[2:5] == ["dagster", "api", "grpc"]:
            _fork_runs()
        elif "dagster._daemon" in sys.orig_argv or sys.orig_argv[1].endswith("/dagster-daemon"):
            _look_often()
        elif sys.orig_argv[2] == "ft_assets.worker":
            # A base's mirror asks a hub whose address the libraries read when they are imported.
            asks_a_hub = "/base_model/" in sys.orig_argv[-1] and "HF_ENDPOINT" in os.environ
            if any(asset in sys.orig_argv[-1] for asset in _HEAVY) and not asks_a_hub:
                _become_a_fork(place)
        # A fork's parent is not the process that it is told to end with.
        elif not _MODULES.isdisjoint(sys.orig_argv[2:4]) and "--parent" not in sys.orig_argv:
            _become_a_fork(place)
