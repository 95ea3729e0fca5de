"""A tree of processes ends, whatever its members do with SIGTERM; workers of their own session stay."""

import subprocess
import sys

import psutil
import pytest

from ft_resources.process_trees import end_tree

pytestmark = pytest.mark.subprocess

# A parent that hears no SIGTERM, with a child of its own and a worker in another session.
TREE = """
import signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
sleep = [sys.executable, "-c", "import time; time.sleep(600)"]
children = [subprocess.Popen(sleep), subprocess.Popen(sleep, start_new_session=True)]
print(*(child.pid for child in children), flush=True)
time.sleep(600)
"""


def test_a_stubborn_tree_ends_and_leaves_workers_alone() -> None:
    parent = subprocess.Popen([sys.executable, "-c", TREE], stdout=subprocess.PIPE, text=True)
    assert parent.stdout
    child, worker = (int(word) for word in parent.stdout.readline().split())
    end_tree(parent.pid, grace_s=0.3)
    assert not psutil.pid_exists(parent.pid)
    assert not psutil.pid_exists(child) or psutil.Process(child).status() == psutil.STATUS_ZOMBIE
    assert psutil.Process(worker).is_running()
    psutil.Process(worker).kill()
    end_tree(parent.pid)
