"""Submissions that ended, and who is to be told."""

import json
from collections.abc import Callable
from pathlib import Path

from ft_assets.control.notices.deliver import Round
from ft_assets.records.failures import Failure
from ft_assets.records.submissions import Submission, SubmissionStatus, finish
from ft_resources.canonical import canonical_json
from ft_resources.messages import Message, Target
from ft_resources.notifier import Notifier
from ft_resources.store import Store
from tests.control.notices.servers import Hook
from tests.made import made_submission

SECRET = "a key of thirty-two characters.."
Tell = Callable[..., Round]


def tenants_file(folder: Path, hooks: dict[str, Hook], events: str = "") -> Path:
    def section(owner: str, indent: str) -> str:
        name = f"FT_WEBHOOK_{owner.upper()}"
        return f"{indent}notify: {{webhook: {{url: '{hooks[owner].url}', secret_env: {name}}}{events}}}\n"

    text = "tenants:\n"
    for tenant in ("acme", "other"):
        text += f"  {tenant}:\n" + section(tenant, "    ")
    path = folder / "tenants.yaml"
    path.write_text(section("platform", "") + text)
    return path


def send_for(hosts: str = "127.0.0.1") -> Callable[[Target, Message], None]:
    environment = {f"FT_WEBHOOK_{name}": SECRET for name in ("ACME", "OTHER", "PLATFORM")} | {"FT_NOTIFY_HOSTS": hosts}
    return Notifier(environment=environment.get, timeout_s=600.0).send


def ended(
    store: Store,
    tenant: str = "acme",
    status: SubmissionStatus = SubmissionStatus.ACCEPTED,
    reason: str = "",
    n: int = 0,
    failure: Failure | None = None,
) -> Submission:
    """A submission that ended; only its records."""
    submission = made_submission(id=f"{n:016x}", dataset=f"{tenant}.things.v1")
    store.put(submission.path, canonical_json(submission.model_dump(mode="json")))
    adapter = "acme/adapter/a" if status == "accepted" else ""
    tried = ["train for fewer epochs"] if status == "rejected" else []
    finish(store, submission, status, reason=reason, adapter=adapter, suggestions=tried, failure=failure)
    return submission


def bodies(hook: Hook) -> list[dict]:
    return [json.loads(body) for _, body in hook.got]


def kinds(hook: Hook) -> list[str]:
    return [body["kind"] for body in bodies(hook)]
