"""The jobs ``pause`` and ``resume``: a person stops a submission's work for a while."""

import dagster as dg
from pydantic import Field

from ft_assets import api
from ft_assets.graph.actors import launching
from ft_assets.graph.told import told
from ft_resources.dagster_resources import LauncherResource, StoreResource


class PauseConfig(dg.Config):
    """What is paused."""

    submission: str = Field(description="The submission's id, as in the tag ft/submission of its runs.")
    reason: str = Field(default="", description="Reason, shown by ft status.")


class ResumeConfig(dg.Config):
    """What goes on."""

    submission: str = Field(description="The submission's id.")


@dg.op
@told
def pause_submission(
    context: dg.OpExecutionContext, config: PauseConfig, store: StoreResource, launcher: LauncherResource
) -> dg.Output[bool]:
    """Stop the submission's work and launch nothing for it until it is resumed; True unless it was paused already."""
    paused = api.pause(
        config.submission,
        reason=config.reason,
        store=store.store,
        actor=launching(),
        launcher=launcher.launcher,
    )
    shared = ", ".join(map(str, paused.shared)) or "nothing"
    shown: dict[str, str | int] = {"runs": paused.runs, "workers": len(paused.workers), "goes on": shared}
    return dg.Output(paused.created, metadata=shown)


@dg.op
@told
def resume_submission(context: dg.OpExecutionContext, config: ResumeConfig, store: StoreResource) -> dg.Output[bool]:
    """Let the submission go on; True unless it was not paused."""
    resumed = api.resume(config.submission, store=store.store, actor=launching())
    return dg.Output(resumed.created, metadata={"go on with": resumed.command or "the submissions sensor"})


@dg.job(name="pause", executor_def=dg.in_process_executor, description="Pause a submission until it is resumed.")
def pause_job() -> None:
    pause_submission()


@dg.job(name="resume", executor_def=dg.in_process_executor, description="Resume a paused submission.")
def resume_job() -> None:
    resume_submission()


pause_jobs: list[dg.JobDefinition] = [pause_job, resume_job]
