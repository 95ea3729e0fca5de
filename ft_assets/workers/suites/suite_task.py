"""The part of an lm-eval task file that a suite may use: choices and answers over local data, without code."""

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, Strict, model_validator

from ft_assets.workers.suites.patterns import check_pattern
from ft_resources.settings import Settings

Pattern = Annotated[str, AfterValidator(check_pattern)]
# lm-eval's figures of texts' likelihoods (lower is better), with lm-eval's aggregation over a suite's items.
PERPLEXITIES = {
    "perplexity": "perplexity",
    "word_perplexity": "weighted_perplexity",
    "byte_perplexity": "weighted_perplexity",
    "bits_per_byte": "bits_per_byte",
}
# lm-eval's name for each kind of answer; mc2 is ours (``true_mass``), as lm-eval computes it with its own function.
METRICS = {
    "multiple_choice": ("acc", "acc_norm", "acc_bytes", "mc2"),
    "generate_until": ("exact_match",),
    "loglikelihood": ("acc", "perplexity"),
    "loglikelihood_rolling": ("word_perplexity", "byte_perplexity", "bits_per_byte"),
}
BYTE_PROBABILITY = "byte_probability"
"""The score of a text: the geometric mean of the probabilities of its bytes, 1 / its byte perplexity."""
DATA_ENDINGS = {"json": (".json", ".jsonl"), "csv": (".csv",), "parquet": (".parquet",)}

Files = str | Annotated[dict[str, str], Field(min_length=1)]


class DataKwargs(Settings):
    """How the data is loaded."""

    data_files: Files = Field(description="A file of the suite's folder, or a mapping of split name to such a file.")


class Metric(Settings):
    """One score of the suite."""

    metric: Literal[
        "acc", "acc_norm", "acc_bytes", "mc2", "exact_match",
        "perplexity", "word_perplexity", "byte_perplexity", "bits_per_byte",
    ] = Field(
        description="Of choices. acc: the likeliest is right; acc_norm: the likeliest for its length in characters; "
        "acc_bytes: in bytes; mc2: share of probability on the right ones. Of answers. exact_match: equal to the "
        "right answer. Of continuations. acc: greedy decoding writes it. Perplexities are reported and no score."
    )  # fmt: skip
    aggregation: Literal["mean", "perplexity", "weighted_perplexity", "bits_per_byte"] | None = Field(
        None, description="How items are aggregated; null: as in lm-eval for this metric, the only possible way."
    )
    higher_is_better: bool | None = Field(None, description="As in lm-eval for this metric, or null.")
    ignore_case: bool | None = Field(None, description="exact_match: ignore upper and lower case.")
    ignore_punctuation: bool | None = Field(None, description="exact_match: ignore punctuation.")
    ignore_numbers: bool | None = Field(None, description="exact_match: ignore digits.")
    regexes_to_ignore: Annotated[tuple[Pattern, ...], Strict(False)] | None = Field(
        None, description="exact_match: what these patterns match is removed from answer and right answer first."
    )

    @model_validator(mode="after")
    def _is_as_in_lm_eval(self) -> "Metric":
        way, higher = PERPLEXITIES.get(self.metric, "mean"), self.metric not in PERPLEXITIES
        if self.aggregation not in (None, way):
            raise ValueError(f"aggregation: for {self.metric} it is {way}")
        if self.higher_is_better not in (None, higher):
            raise ValueError(f"higher_is_better: for {self.metric} it is {str(higher).lower()}")
        return self

    @property
    def is_exact(self) -> bool:
        """Whether one of exact_match's own settings is set."""
        return any(
            each is not None
            for each in (self.ignore_case, self.ignore_punctuation, self.ignore_numbers, self.regexes_to_ignore)
        )


class FilterStep(Settings):
    """One step from the model's output to the answer that is compared."""

    function: Literal["regex", "take_first", "remove_whitespace", "lowercase", "uppercase"] = Field(
        description="regex: what a pattern matches; take_first: the (only) answer."
    )
    regex_pattern: Pattern | None = Field(None, description="regex: the pattern; its group is the answer.")
    group_select: int | None = Field(None, description="regex: which match counts, 0 the first, -1 the last.")
    fallback: str | None = Field(None, description="regex: the answer where nothing matches.")

    @model_validator(mode="after")
    def _a_pattern_is_of_regex(self) -> "FilterStep":
        if (self.function == "regex") != (self.regex_pattern is not None):
            raise ValueError("regex_pattern: function regex needs one, and no other function takes one")
        if self.function != "regex" and (self.group_select is not None or self.fallback is not None):
            raise ValueError("group_select: this and fallback belong to function regex")
        return self


class Filters(Settings):
    """A named sequence of steps."""

    name: str = Field(min_length=1, max_length=100, description="The filter's name.")
    filter: Annotated[tuple[FilterStep, ...], Strict(False), Field(min_length=1)] = Field(
        description="Its steps, one after the other."
    )


class Generation(Settings):
    """How answers are generated: always greedily."""

    until: Annotated[tuple[Annotated[str, Field(min_length=1)], ...], Strict(False), Field(max_length=20)] = Field(
        description="Texts that end an answer and are not part of it; the model's end token ends it too."
    )
    max_gen_toks: int = Field(256, ge=1, le=4096, description="Longest answer in tokens.")
    do_sample: Literal[False] = Field(False, description="Answers are greedy, so that they are reproducible.")
    temperature: float | None = Field(None, ge=0.0, le=0.0, description="As do_sample; only 0.")


class FewShot(Settings):
    """How few-shot examples are chosen."""

    sampler: Literal["default", "first_n"] = Field(
        "default", description="default draws by seed; first_n takes the first."
    )


class Shared(Settings):
    """Columns that many items share, such as the examples of a subject. Not lm-eval's: it gets the joined items."""

    file: str = Field(description="A JSON lines file of the suite's folder, one row for each value of the column.")
    by: str = Field(min_length=1, description="The column that items and this file have in common.")


class SuiteTask(Settings):
    """A task file, strictly validated. Keys of lm-eval that run code or fetch data count as unknown."""

    task: str = Field(pattern=r"^[A-Za-z0-9_-]{1,100}$", description="The task's name inside lm-eval.")
    task_alias: str | None = Field(None, description="Name for display.")
    dataset_path: Literal["json", "csv", "parquet"] = Field(
        description="Format of the suite's data files; all CSV values are texts."
    )
    dataset_kwargs: DataKwargs = Field(description="How the data is loaded.")
    shared: Shared | None = Field(
        None, description="Columns from another file, added to each scored item; they are not part of the question."
    )
    counted: str | None = Field(
        None,
        min_length=1,
        description="loglikelihood_rolling: column whose words and bytes are counted; null: the text itself. WikiText "
        "counts its text as it is before it is made readable. Not lm-eval's.",
    )
    reported_by: str | None = Field(
        None,
        min_length=1,
        description="Column: beside the score, that of the items with each of its values, of which there may be 100. "
        "Not lm-eval's.",
    )
    bias: bool = Field(
        False,
        description="multiple_choice: items have columns sided (the choices that name somebody) and biased (those that "
        "follow a stereotype); beside the score, for each value of reported_by, BBQ's bias: twice the share of biased "
        "ones among the sided choices that the model takes, less 1. Not lm-eval's.",
    )
    output_type: Literal["multiple_choice", "generate_until", "loglikelihood", "loglikelihood_rolling"] = Field(
        description="multiple_choice: the likeliest choice is the answer; generate_until: the model writes it; "
        "loglikelihood: the answer is right if greedy decoding would write it; loglikelihood_rolling: how likely a "
        "whole text (doc_to_target) is."
    )
    training_split: str | None = Field(None, description="Split that few-shot examples may come from.")
    validation_split: str | None = Field(None, description="Split that is scored if there is no test split.")
    test_split: str | None = Field(None, description="Split that is scored.")
    fewshot_split: str | None = Field(None, description="Split that few-shot examples come from.")
    doc_to_text: str = Field(description="Column or Jinja text of the question.")
    doc_to_choice: str | Annotated[tuple[str, ...], Strict(False)] | None = Field(
        None, description="Column, Jinja text or the choices."
    )
    doc_to_target: str | int = Field(
        description="Column or Jinja text of the right choice's index or text (or a list of them), or the right "
        "answer, or the text whose likelihood counts."
    )
    description: str = Field("", description="Text before every question.")
    target_delimiter: str = Field(" ", description="Text between question and choice.")
    fewshot_delimiter: str = Field("\n\n", description="Text between few-shot examples.")
    fewshot_config: FewShot | None = Field(None, description="How few-shot examples are chosen.")
    num_fewshot: int = Field(0, ge=0, le=100, description="Few-shot examples before each question.")
    metric_list: Annotated[tuple[Metric, ...], Strict(False), Field(min_length=1)] = Field(
        (Metric(metric="acc"),), description="Scores; the first one counts."
    )
    generation_kwargs: Generation | None = Field(None, description="generate_until: how answers are written.")
    filter_list: Annotated[tuple[Filters, ...], Strict(False), Field(min_length=1)] | None = Field(
        None, description="generate_until: how to extract the answer from the output; the first one counts."
    )
    tag: str | Annotated[tuple[str, ...], Strict(False)] | None = Field(None, description="Anything for humans.")
    repeats: Literal[1] = Field(1, description="Answers per question; greedy ones are all the same.")
    should_decontaminate: bool = Field(False, description="For lm-eval; training data are compared with every suite.")
    doc_to_decontamination_query: str | None = Field(None, description="As should_decontaminate.")
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
    def _columns_are_shared_in_json(self) -> "SuiteTask":
        if self.shared and self.dataset_path != "json":
            raise ValueError("shared: belongs to dataset_path json")
        return self

    @model_validator(mode="after")
    def _settings_are_of_its_output_type(self) -> "SuiteTask":
        known = METRICS[self.output_type]
        for place, each in enumerate(self.metric_list):
            if each.metric not in known:
                raise ValueError(f"metric_list[{place}].metric: {self.output_type} has {', '.join(known)}")
            if each.is_exact and each.metric != "exact_match":
                raise ValueError(f"metric_list[{place}]: {each.metric} compares no texts, so nothing can be ignored")
        if self.output_type == "generate_until":
            if self.generation_kwargs is None:
                raise ValueError("generation_kwargs: generate_until needs one with until")
        elif self.generation_kwargs or self.filter_list:
            raise ValueError(f"generation_kwargs: nothing is written in {self.output_type}; leave filter_list out too")
        if self.output_type == "multiple_choice" and self.doc_to_choice is None:
            raise ValueError("doc_to_choice: multiple_choice needs the choices")
        if self.output_type != "multiple_choice" and self.doc_to_choice is not None:
            raise ValueError(f"doc_to_choice: {self.output_type} has no doc_to_choice")
        if self.output_type == "loglikelihood" and not any(each.metric == "acc" for each in self.metric_list):
            raise ValueError("metric_list: loglikelihood is scored by acc; add it")
        rolling = self.output_type == "loglikelihood_rolling"
        if self.bias and (self.output_type != "multiple_choice" or self.reported_by is None):
            raise ValueError("bias: belongs to multiple_choice with reported_by")
        if self.counted is not None and not rolling:
            raise ValueError("counted: belongs to loglikelihood_rolling")
        if rolling and (self.num_fewshot or self.description):
            raise ValueError(
                "num_fewshot: nothing stands before a text of loglikelihood_rolling, no description either"
            )
        return self

    @model_validator(mode="after")
    def _examples_do_not_give_the_answer_away(self) -> "SuiteTask":
        # lm-eval leaves an item out of its own examples only if fewshot_split and test_split are the same split.
        source = self.fewshot_split or self.training_split or self.validation_split or self.test_split
        if self.num_fewshot and source == self.scored_split and self.fewshot_split != self.test_split:
            raise ValueError(
                f"num_fewshot: the examples would be items of the scored split {source!r}, the asked one and its "
                "answer among them; name a fewshot_split with a file of its own"
            )
        return self

    @property
    def scored_metric(self) -> str:
        """The name of the score: the first metric that is a share, as scores are."""
        if self.output_type == "loglikelihood_rolling":
            return BYTE_PROBABILITY
        return next(each.metric for each in self.metric_list if each.metric not in PERPLEXITIES)

    @property
    def scored_split(self) -> str:
        """The split lm-eval scores."""
        return self.test_split or self.validation_split or "test"

    @property
    def data_files(self) -> dict[str, str]:
        """Split name to file name; a single file without a split is the ``train`` split of ``datasets``."""
        files = self.dataset_kwargs.data_files
        return {"train": files} if isinstance(files, str) else files
