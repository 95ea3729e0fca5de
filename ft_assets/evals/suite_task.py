"""The part of an lm-eval task file that a suite may use: multiple choice over local data, and no code."""

from typing import Annotated, Any, Literal

from pydantic import Field, Strict, model_validator

from ft_assets.recipes.settings import Settings

Files = str | Annotated[dict[str, str], Field(min_length=1)]


class DataKwargs(Settings):
    """How the data is loaded."""

    data_files: Files = Field(description="A file of the suite's folder, or a mapping of split name to such a file.")


class Metric(Settings):
    """One score of the suite."""

    metric: Literal["acc", "acc_norm"] = Field(description="acc: likeliest choice; acc_norm: likeliest for its length.")
    aggregation: Literal["mean"] = Field("mean", description="How items make one score.")
    higher_is_better: Literal[True] = Field(True, description="Scores are shares of right answers.")


class FewShot(Settings):
    """How few-shot examples are chosen."""

    sampler: Literal["default", "first_n"] = Field(
        "default", description="default draws by seed; first_n takes the first."
    )


class SuiteTask(Settings):
    """A task file, strictly read. Keys that lm-eval knows and that run code or fetch data are unknown here."""

    task: str = Field(pattern=r"^[A-Za-z0-9_-]{1,100}$", description="The task's name inside lm-eval.")
    task_alias: str | None = Field(None, description="Name for display.")
    dataset_path: Literal["json"] = Field(description="json: only local JSON lines are read.")
    dataset_kwargs: DataKwargs = Field(description="How the data is loaded.")
    output_type: Literal["multiple_choice"] = Field(description="multiple_choice: the likeliest choice is the answer.")
    training_split: str | None = Field(None, description="Split that few-shot examples may come from.")
    validation_split: str | None = Field(None, description="Split that is scored where there is no test split.")
    test_split: str | None = Field(None, description="Split that is scored.")
    fewshot_split: str | None = Field(None, description="Split that few-shot examples come from.")
    doc_to_text: str = Field(description="Column or Jinja text of the question.")
    doc_to_choice: str | Annotated[tuple[str, ...], Strict(False)] = Field(
        description="Column, Jinja text or the choices."
    )
    doc_to_target: str | int = Field(description="Column or Jinja text of the right choice's index or text.")
    description: str = Field("", description="Text before every question.")
    target_delimiter: str = Field(" ", description="Text between question and choice.")
    fewshot_delimiter: str = Field("\n\n", description="Text between few-shot examples.")
    fewshot_config: FewShot | None = Field(None, description="How few-shot examples are chosen.")
    num_fewshot: int = Field(0, ge=0, le=100, description="Few-shot examples before each question.")
    metric_list: Annotated[tuple[Metric, ...], Strict(False), Field(min_length=1)] = Field(
        (Metric(metric="acc"),), description="Scores; the first one counts."
    )
    metadata: dict[str, Any] = Field({}, description="Anything for humans, such as a version.")

    @model_validator(mode="after")
    def _scored_split_has_data(self) -> "SuiteTask":
        split, files = self.scored_split, self.data_files
        if split not in files:
            raise ValueError(f"dataset_kwargs.data_files: has no file for the scored split {split!r}")
        for name in ("training_split", "validation_split", "fewshot_split"):
            if (other := getattr(self, name)) is not None and other not in files:
                raise ValueError(f"{name}: dataset_kwargs.data_files has no file for {other!r}")
        return self

    @model_validator(mode="after")
    def _examples_do_not_give_the_answer_away(self) -> "SuiteTask":
        # lm-eval leaves an item out of its own examples only where fewshot_split and test_split are one split.
        source = self.fewshot_split or self.training_split or self.validation_split or self.test_split
        if self.num_fewshot and source == self.scored_split and self.fewshot_split != self.test_split:
            raise ValueError(
                f"num_fewshot: the examples would be items of the scored split {source!r}, the asked one and its "
                "answer among them; name a fewshot_split with a file of its own"
            )
        return self

    @property
    def scored_split(self) -> str:
        """The split lm-eval scores."""
        return self.test_split or self.validation_split or "test"

    @property
    def data_files(self) -> dict[str, str]:
        """Split name to file name; one file without a split is the ``train`` split of ``datasets``."""
        files = self.dataset_kwargs.data_files
        return {"train": files} if isinstance(files, str) else files
