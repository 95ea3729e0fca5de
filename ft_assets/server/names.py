"""Ids as clients see them."""

from ft_assets.api import Job, JobState

JOB = "ftjob-"
_MODEL = "ft:"
_KEPT = ("accepted", "ungated")


def model_name(state: JobState) -> str:
    """``ft:<model>:<tenant>:<suffix>:<job>`` of what an accepted or ungated job made; "" for others."""
    if state.outcome is None or state.outcome.status not in _KEPT:
        return ""
    job = state.job
    return f"{_MODEL}{job.recipe or job.model}:{job.tenant}:{job.suffix}:{job.id}"


def uploaded(job: Job) -> bool:
    """Whether the request named an uploaded file; else a dataset version, or neither where no request was made."""
    return bool(job.training_file) and not job.dataset


def job_of_model(name: str) -> str:
    """The id of the job in a fine-tuned model's name; "" for other names."""
    return name.rpartition(":")[2] if name.startswith(_MODEL) else ""
