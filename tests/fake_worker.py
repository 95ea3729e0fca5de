"""A worker process with small kinds of work, for tests of launchers and of execution: the real loop, fake deeds."""

import ctypes
import errno
import json
import os
import subprocess
import time

from ft_assets import worker
from ft_resources import worker_context
from ft_resources.canonical import sha256_bytes
from ft_resources.errors import BadData
from ft_resources.outcomes import EXIT_CODES, Outcome
from ft_resources.worker_context import Preempted, WorkContext, WorkResult

LET_GO = "let-go"
"""Where a test writes in the store to let go of held work."""
_BEAT_S = 0.2
# Nobody else ends work whose test was killed.
_LONGEST_S = 600.0


def write(context: WorkContext) -> WorkResult:
    """Write ``params.text`` after ``runtime.seconds``, a step row each tenth of a second; attempts up to
    ``runtime.held`` once the test has let go of them. With ``runtime.trained`` it says all the while that it is a
    training that has come so many percent."""
    held = context.spec.attempt <= context.runtime.get("held", 0)
    deadline = time.monotonic() + (_LONGEST_S if held else context.runtime.get("seconds", 0.0))
    step = 0
    while time.monotonic() < deadline and not (held and context.store.exists(LET_GO)):
        step += 1
        context.step(step=step, loss=1.0 / step)
        if "trained" in context.runtime:
            context.progress(
                "training", done=context.runtime["trained"], total=100, eta_s=context.runtime.get("eta_s", 60.0)
            )
        else:
            context.progress("writing", done=step, total=100, loss=1.0 / step)
        time.sleep(0.1)
    (context.output / "text.txt").write_text(context.params["text"])
    return WorkResult(folder=context.output, facts={"attempt": context.spec.attempt})


def fail(context: WorkContext) -> WorkResult:
    """End as ``params.how`` says, on the first attempts numbered up to ``params.times``."""
    if context.spec.attempt <= context.params["times"]:
        if context.params["how"] == "bad_data":
            raise BadData("a row is wrong", where="row 7", remedy="fix it")
        if context.params["how"] == "out_of_memory":
            raise worker.OutOfMemory("too large")
        if context.params["how"] == "diverged":
            raise worker.Diverged("NaN at step 3")
        if context.params["how"] == "platform":
            raise RuntimeError("the disk hiccuped")
        if context.params["how"] == "disk_full":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        if context.params["how"] == "resized":
            os._exit(EXIT_CODES[Outcome.RESIZED])
        if context.params["how"] == "killed":
            print("last words", flush=True)
            os.kill(os.getpid(), 9)
    (context.output / "runtime.txt").write_text(str(context.runtime))
    return WorkResult(folder=context.output)


def train(context: WorkContext) -> WorkResult:
    """Be stopped from outside at step ``params.reached[attempt - 1]``, and end once there is none."""
    reached = context.params["reached"]
    if context.spec.attempt <= len(reached):
        context.progress("training", done=reached[context.spec.attempt - 1], total=100)
        raise Preempted
    (context.output / "text.txt").write_text("done")
    return WorkResult(folder=context.output)


def save(context: WorkContext) -> WorkResult:
    """Leave a save in the store, as a training does, and an artifact."""
    context.store.put(f"{context.spec.attempt_path}/saves/000001/model.safetensors", b"weights")
    (context.output / "text.txt").write_text("done")
    return WorkResult(folder=context.output)


def hang(context: WorkContext) -> WorkResult:
    """Be in a library that never comes back, and in which Python hears of no signal: a mutex locked twice."""
    library = ctypes.CDLL(None)
    mutex = ctypes.create_string_buffer(64)
    context.grace_s = 10.0
    with context.graceful():
        context.progress("hanging")
        library.pthread_mutex_lock(mutex)
        library.pthread_mutex_lock(mutex)
    return WorkResult(folder=context.output)


def dawdle(context: WorkContext) -> WorkResult:
    """Take longer than allowed, in a process of its own too, whose number is the progress."""
    with context.at_most(0.5, BadData("it takes too long", where="rows", remedy="send fewer")):
        child = subprocess.Popen(["sleep", "600"])
        context.progress("dawdling", done=child.pid)
        (context.output / "half.txt").write_text("half of it")
        child.wait()
    return WorkResult(folder=context.output)


def told(context: WorkContext) -> WorkResult:
    """Leave the SHA-256 of the variables that ``params.names`` names, as far as they are set."""
    found = {name: os.environ.get(name) for name in context.params["names"]}
    digests = {name: sha256_bytes(value.encode()) for name, value in found.items() if value is not None}
    (context.output / "told.json").write_text(json.dumps(digests))
    return WorkResult(folder=context.output)


def main() -> None:
    worker_context.BEAT_S = _BEAT_S
    worker.WORK.update({"write": "tests.fake_worker:write", "fail": "tests.fake_worker:fail"})
    worker.WORK.update({"save": "tests.fake_worker:save", "hang": "tests.fake_worker:hang"})
    worker.WORK.update({"train": "tests.fake_worker:train", "told": "tests.fake_worker:told"})
    worker.WORK.update({"dawdle": "tests.fake_worker:dawdle"})
    worker.main()


if __name__ == "__main__":
    main()
