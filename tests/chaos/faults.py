"""The faults, each at a moment that its seed decides."""

import random
import time
from collections.abc import Callable

from tests.chaos.world import World, close_nodes
from tests.cluster.fixtures import until
from tests.cluster.objects import PODS
from tests.postgres import restart_postgres

Fault = Callable[[World, random.Random], int]
"""Makes it happen, and says how often it did before the run was over, which is not before it happened."""
_SPAN_S = 5.0
"""About as long as a quiet run takes."""


def kill_run_worker(world: World, draw: random.Random) -> int:
    killed = 0
    for _ in range(draw.randint(1, 3)):
        until(lambda: world.run_worker_lives() or world.run_over.is_set())
        time.sleep(draw.uniform(0.0, _SPAN_S / 2))
        killed += world.strikes(world.kill_run_worker())
    return killed


def kill_daemon(world: World, draw: random.Random) -> int:
    """Again and again, until the run is over and what it used is being counted."""
    killed = 0
    while not world.run_over.wait(draw.uniform(0.05, 1.0)):
        killed += world.strikes(world.kill_daemon())
    for _ in range(draw.randint(1, 5)):
        time.sleep(draw.uniform(0.0, 0.4))
        killed += world.kill_daemon()
    return killed


def lose_node(world: World, draw: random.Random) -> int:
    """The node of the pod is gone for good; its processes die with it, or go on where nobody hears of them."""
    node = _node(world)
    time.sleep(draw.uniform(0.0, _SPAN_S / 2))
    world.cluster.lose_node(node, removed_after_s=draw.uniform(0.2, 2.0), processes_die=draw.random() < 0.7)
    return world.strikes(True)


def delete_pod_before_start(world: World, draw: random.Random) -> int:
    """While no node has room for it: this world's nodes are closed from its beginning."""
    pod = until(lambda: next(iter(world.pods()), None))["metadata"]
    time.sleep(draw.uniform(0.0, 1.0))
    world.cluster.objects.delete(PODS, pod["namespace"], pod["name"])
    time.sleep(draw.uniform(0.0, 2.0))
    close_nodes(world.cluster, False)
    return world.strikes(True)


def restart_api_server(world: World, draw: random.Random) -> int:
    struck = 0
    for _ in range(draw.randint(1, 2)):
        time.sleep(draw.uniform(0.0, _SPAN_S / 2))
        world.cluster.restart_api_server(down_s=draw.uniform(0.1, 3.0))
        struck += world.strikes(True)
    return struck


def break_watches(world: World, draw: random.Random) -> int:
    broken = 0
    while not world.run_over.wait(draw.uniform(0.1, 1.5)):
        broken += world.strikes(world.cluster.server.break_watches())
    return broken


def restart_database(world: World, draw: random.Random) -> int:
    """At any time, as usage is counted after the run is over."""
    times = draw.randint(1, 3)
    for _ in range(times):
        time.sleep(draw.uniform(0.0, _SPAN_S / 2))
        restart_postgres(down_s=draw.uniform(0.0, 0.5))
        world.strikes(True)
    return times


def fail_requests(world: World, draw: random.Random) -> int:
    """The proxy in front of the store fails by itself until the run is over (see ``runs.py``, which counts)."""
    world.run_over.wait()
    return 0


KINDS: dict[str, Fault] = {
    "run_worker_killed": kill_run_worker,
    "daemon_killed": kill_daemon,
    "node_lost": lose_node,
    "pod_deleted_before_start": delete_pod_before_start,
    "api_server_restarted": restart_api_server,
    "watches_broken": break_watches,
    "postgres_restarted": restart_database,
    "s3_faults": fail_requests,
}


def _node(world: World) -> str:
    def bound() -> str:
        return next((pod["spec"]["nodeName"] for pod in world.pods() if pod["spec"].get("nodeName")), "")

    return until(bound)
