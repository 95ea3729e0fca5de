"""Commands on the store itself say so where commands go to a server; another tenant's things are not there."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from ft_assets import cli
from ft_assets.remote.calls import CALLS
from ft_assets.remote.client import HERE, Remote
from tests.cli.conftest import DATASET
from tests.remote.conftest import Far

pytestmark = pytest.mark.dagster

COMMANDS = [
    ("ui",),
    ("init",),
    ("serve",),
    ("serve", "parity", "acme.colours.tiny"),
    ("demo",),
    ("doctor",),
    ("rebuild",),
    ("backfill", "--dataset", "acme.things.v1", "--recipe", "tiny.v1"),
    ("collect",),
    ("erase", "acme", "--reason", "x"),
    ("refund", "acme", "attempt", "--reason", "x"),
    ("cluster", "policy", "acme"),
    ("cluster", "manifests"),
    ("plan", "."),
    ("apply", "."),
    ("export", "acme.colours.tiny", "--out", "model"),
    ("suite", "add", ".", "--key", "own.v1"),
    ("suite", "install", "general"),
    ("dataset", "classifier", "add", ".", "own.v1"),
    ("dataset", "encoder", "add", ".", "own.v1"),
    ("dataset", "name-model", "add", ".", "own.v1"),
]
# What they call: it is about the store of all tenants, starts workers, or is about a machine that is no tenant's.
BESIDE = {
    *("add_classifier", "add_encoder", "add_name_model", "add_suite", "install_suites", "suites_left"),
    *("bucket_policy", "cluster_manifests", "cluster_plan", "doctor", "export", "open_access", "rebuild", "refund"),
    "backfill",
    *("apply_folder", "plan_folder"),
    *("check_servers", "follow_lines", "open_fleet", "watch_drift"),
    *("collect_deleted", "collect_leftovers", "collect_unreferenced", "erase_tenant"),
}
# The demo has files of its own, and a server's door is not behind another.
APART = {"door.py", "demo.py", "demo_serving.py"}


def _called() -> dict[str, str]:
    """Functions of the API that commands call, each with a file that does."""
    found = {}
    for file in (Path(cli.__file__).parent).glob("*.py"):
        if file.name not in APART:
            found.update(dict.fromkeys(re.findall(r"\bapi\.([a-z_]+)\(", file.read_text()), file.name))
    return found


def test_every_function_that_a_command_calls_is_asked_for_or_told_to_be_beside_the_store() -> None:
    known = {*CALLS, *HERE, *(name for name in vars(Remote) if not name.startswith("_"))}
    called = _called()
    assert {name: file for name, file in called.items() if name not in known | BESIDE} == {}
    assert called.keys() >= BESIDE
    assert not BESIDE & known


def test_every_command_goes_through_the_door() -> None:
    for file in (Path(cli.__file__).parent).glob("*.py"):
        if file.name not in APART:
            assert "from ft_assets import api" not in file.read_text(), file.name


def test_what_works_on_the_store_itself_says_so_in_one_error(far: Far) -> None:
    for command in COMMANDS:
        refused = far(*command)
        assert (refused.exit_code, refused.stdout) == (2, ""), (command, refused.exception)
        what, _, remedy = refused.stderr.splitlines()
        assert " beside the store only, and commands go to http://127.0.0.1:" in what, command
        assert remedy == "  what to do: Call it where FT_STORE is set, or after: ft logout", command


def test_all_of_a_store_is_not_verified_at_a_server(far: Far) -> None:
    refused = far("verify", "--all")
    assert (refused.exit_code, "several tenants" in refused.stderr) == (2, True)


def test_another_tenants_things_are_answered_as_what_is_not_there(
    far_as: Callable[..., Far], pair: tuple[str, str], tmp_path: Path
) -> None:
    globex = far_as("globex")
    for command in (
        ("dataset", "report", "{}.colours.v1"),
        ("dataset", "near", "{}.colours.v1", "--text", "thing"),
        ("dataset", "diff", "{}.colours.v1", "{}.colours.v1"),
        ("estimate", "{}.colours.v1", "tiny.v1"),
        ("submit", "{}.colours.v1", "tiny.v1"),
        ("gate", "show", "{}.colours.v1", "tiny.v1"),
        ("lineage", "{}.colours.v1"),
        ("lineage", "{}/dataset/0123"),
        ("lineage", "{}.colours.tiny"),
        ("verify", "{}.colours.v1|tiny.v1"),
        ("line", "{}.colours.tiny"),
        ("adapter", "download", "{}/adapter/0123", str(tmp_path / "home")),
        ("ledger", "{}.colours.v1", "tiny.v1"),
        ("recipe", "show", "{}.own.v1"),
        ("delete", "{}.colours.v1", "--reason", "x"),
    ):
        said = set()
        for tenant in ("acme", "nobody"):
            answer = globex(*(word.replace("{}", tenant) for word in command))
            said.add((answer.exit_code, answer.output.replace(tenant, "TENANT")))
        assert len(said) == 1, command
        assert said.pop()[0] == 2, command
    assert globex("dataset", "list").stdout == ""
    assert DATASET not in globex("status").output
