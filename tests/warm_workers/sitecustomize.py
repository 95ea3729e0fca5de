"""Imported by Python at its start: turns a worker into a client of ``server.py``, and leaves all else alone."""

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

    deadline = time.monotonic() + 180
    while line.connect_ex(place):
        if time.monotonic() > deadline:
            sys.exit(f"no process makes workers at {place}")
        time.sleep(0.02)
    asked = {"argv": sys.orig_argv[3:], "environment": dict(os.environ), "folder": os.getcwd()}
    outputs = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [0, 1, 2]))]
    line.sendmsg([json.dumps(asked).encode()], outputs)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, hand_on)
    os._exit(int(line.recv(16) or b"1"))


# A base's mirror asks a hub whose address the libraries read when they are imported.
_HEAVY = ("/baseline_report/", "/token_pack/", "/reference_logps/", "/checkpoint/", "/eval_report/")
if sys.orig_argv[1:3] == ["-m", "ft_assets.worker"] and any(asset in sys.orig_argv[-1] for asset in _HEAVY):
    import os

    if os.environ.get("TEST_WARM_WORKERS"):
        _become_a_fork(os.environ["TEST_WARM_WORKERS"])
