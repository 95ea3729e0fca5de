"""What happened in a job, derived from records: the same records give the same events with the same ids."""

from collections.abc import Iterator
from datetime import datetime
from typing import Any

from ft_assets.api import JobState, JobWork
from ft_assets.server.names import model_name, uploaded

WORK = {
    "dataset": "Curating the dataset",
    "base_model": "Fetching the base model",
    "baseline_report": "Scoring the base model",
    "token_pack": "Packing tokens",
    "reference_logps": "Scoring with the reference",
    "checkpoint": "Training",
    "eval_report": "Evaluating the candidate",
    "adapter": "Judging and exporting",
}
_METRICS = {"loss": "train_loss", "validation_loss": "valid_loss", "learning_rate": "learning_rate", "tokens": "tokens"}


def events_of(state: JobState, work: JobWork) -> list[dict[str, Any]]:
    """The events of a job, the newest first."""
    found = list(_events(state, work))
    for number, event in enumerate(found):
        # By its place among events of one second, too.
        event["number"] = number
    found.sort(key=lambda event: (event["created_at"], event["number"]), reverse=True)
    for event in found:
        del event["number"]
    return found


def _events(state: JobState, work: JobWork) -> Iterator[dict[str, Any]]:
    job, settled = state.job, state.settled
    yield _event(job.id, "created", job.created_at, f"Created fine-tuning job: ftjob-{job.id}")
    if uploaded(job):
        yield _event(job.id, "validating", job.created_at, f"Validating training file: file-{job.training_file}")
    if settled is None:
        return
    if settled.cancelled_by:
        yield _event(job.id, "ended", settled.at, f"Cancelled by {settled.cancelled_by}")
        return
    if settled.error:
        yield _event(job.id, "ended", settled.at, settled.error, level="error")
        return
    done = "Files validated" if uploaded(job) else f"Submitted by {job.actor}"
    text = f"{done}: dataset {settled.dataset} with recipe {settled.recipe}"
    yield _event(job.id, "validated", settled.at, text)
    began = settled.at
    for each in work.works:
        if not each.attempt:
            continue
        # What another job had made before is told when this one came to it.
        at = max(each.claimed_at, settled.at)
        name = f"{each.asset}-{each.trial or 'main'}-{each.attempt}"
        yield _event(job.id, name, at, WORK.get(each.asset, each.asset) + (f" ({each.trial})" if each.trial else ""))
        if each.asset == "checkpoint" and not each.trial:
            began = at
    for row in work.steps:
        if "loss" not in row and "validation_loss" not in row:
            continue
        data = {new: row[old] for old, new in _METRICS.items() if old in row} | {"step": row["step"]}
        loss = row.get("loss", row.get("validation_loss"))
        text = f"Step {row['step']}: {'training' if 'loss' in row else 'validation'} loss={loss:.4f}"
        yield _event(job.id, f"step-{row['step']}", max(float(row.get("at", 0.0)), began), text, data=data)
    if state.outcome is not None and state.status is not None:
        at = datetime.fromisoformat(state.outcome.at).timestamp()
        name = model_name(state)
        if name:
            yield _event(job.id, "model", at, f"New fine-tuned model created: {name}")
            yield _event(job.id, "ended", at, "The job has successfully completed")
        else:
            level = "info" if state.outcome.status == "cancelled" else "error"
            said = state.status.detail or f"The job was {state.outcome.status}"
            yield _event(job.id, "ended", at, said, level=level)


def _event(
    job: str, name: str, at: float, message: str, *, level: str = "info", data: dict[str, Any] | None = None
) -> dict[str, Any]:
    return {
        "id": f"ftevent-{job}-{name}",
        "object": "fine_tuning.job.event",
        "created_at": int(at),
        "level": level,
        "message": message,
        "type": "metrics" if data else "message",
        "data": data,
    }
