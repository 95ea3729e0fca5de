"""Score a model on general suites, from local task files and offline: through lm-eval, or by the suite's kind.

Tasks of lm-eval whose answers are written are asked through the chat template of a base that has one, as by lm-eval
with ``apply_chat_template`` and ``fewshot_as_multiturn``. Where likelihoods of given texts are compared, the prompt is
the suite's plain text. Our own kinds mostly ask as a server does.
"""

import json
import logging
import tempfile
from collections.abc import Callable
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

from ft_assets.workers.evals.asking import AskModel, Chat
from ft_assets.workers.evals.chat_prompts import ChatPrompts
from ft_assets.workers.evals.lm_eval_samples import bias_by, perplexity, said_of, score_by, score_texts, true_mass
from ft_assets.workers.evals.model import LoadedModel, seeded
from ft_assets.workers.evals.suite_saves import SuiteSaves
from ft_assets.workers.libraries import keep_offline
from ft_assets.workers.suites.kinds.registry import kind_of, require_ready
from ft_assets.workers.suites.patterns import TimedPatterns
from ft_assets.workers.suites.score import SuiteScore, suite_score
from ft_assets.workers.suites.suite_items import check_task_items, unreadable
from ft_assets.workers.suites.suite_rows import csv_as_parquet, read_rows, with_shared
from ft_assets.workers.suites.suite_task import PERPLEXITIES, SuiteTask
from ft_assets.workers.suites.suite_templates import SuiteEnvironment
from ft_assets.workers.suites.suites import TASK_FILE, read_task, suite_files
from ft_assets.workers.templates.limits import WithoutEnd
from ft_resources.errors import BadRecipe

Progress = Callable[[str, int, int], None]


def score_loaded(
    loaded: LoadedModel,
    suites: dict[str, Path],
    *,
    seed: int,
    limit: int | None,
    progress: Progress,
    chat: Chat | None = None,
    saves: SuiteSaves | None = None,
) -> dict[str, SuiteScore]:
    """The score on each suite, by its key, the largest suite first.

    Args:
        suites: suite key to a folder with ``task.yaml`` and its data.
        seed: chooses few-shot examples. Every random generator's state is restored.
        limit: score only this many items, the first ones; None for all.
        progress: called with (suite key, items scored, items in all).
        chat: the chat template for kinds that ask through one.
        saves: storage of finished scores. Saved suites are not scored again; those taken by another process are left
            out.

    Raises BadRecipe for a suite that cannot be scored or whose scores are not finite, and, before any suite is scored,
    UserError if a requirement of a kind, such as a sandbox, is missing.
    """
    keep_offline()
    logging.getLogger("lm_eval").setLevel(logging.ERROR)
    require_ready(read_task(folder / TASK_FILE) for folder in suites.values())
    scores: dict[str, SuiteScore] = {}
    sizes = {key: sum(path.stat().st_size for path in folder.iterdir()) for key, folder in suites.items()}
    for key in sorted(suites, key=lambda key: (-sizes[key], key)):
        saved = saves.find(key) if saves else None
        if saved is not None:
            scores[key] = saved
        elif saves is None or saves.claim(key):
            # Seeded for each suite, so that a score does not depend on what was scored before.
            with tempfile.TemporaryDirectory(prefix="ft-suites-") as cache, seeded(seed, loaded.model):
                scores[key] = score_suite(loaded, key, suites[key], seed, limit, Path(cache) / key, progress, chat)
            if saves:
                saves.save(key, scores[key])
    return scores


def score_suite(
    loaded: LoadedModel,
    key: str,
    folder: Path,
    seed: int,
    limit: int | None,
    cache: Path,
    progress: Progress,
    chat: Chat | None,
) -> SuiteScore:
    """The score on one suite of any kind; see ``score_loaded``. ``cache`` is a folder for lm-eval's tables."""
    settings = read_task(folder / TASK_FILE)
    if isinstance(settings, SuiteTask):
        asked = chat.of_tasks() if chat and settings.output_type == "generate_until" else None
        return _score(loaded, key, folder, settings, seed, limit, cache, progress, asked)
    kind = kind_of(settings)
    where = f"suite {key}"
    asking = AskModel(loaded=loaded, chat=chat, where=where, report=lambda done, total: progress(key, done, total))
    return kind.score(settings, kind.read(settings, suite_files(folder), where)[:limit], asking)


def _score(
    loaded: LoadedModel,
    key: str,
    folder: Path,
    settings: SuiteTask,
    seed: int,
    limit: int | None,
    cache: Path,
    progress: Progress,
    chat: ChatPrompts | None,
) -> SuiteScore:
    from jinja2 import TemplateError
    from lm_eval.evaluator import evaluate
    from lm_eval.tasks import TaskManager

    from ft_assets.workers.evals.shared_prefix import SharedPrefixLM

    where = f"suite {key}"
    _sandbox_templates()
    _time_patterns()
    # include_defaults would index lm-eval's own thousands of task files.
    try:
        loaded_tasks = TaskManager(include_defaults=False).load([_task_config(settings, folder, cache)])
    except (TemplateError, WithoutEnd, LookupError, TypeError, ValueError) as error:
        raise unreadable(error, where) from error  # lm-eval tries the settings on the first item.
    task = loaded_tasks["tasks"][settings.task]
    check_task_items(settings, task, islice(task.eval_docs, limit), key)
    task.set_fewshot_seed(seed=seed)
    if chat is not None:
        loaded = replace(loaded, think_end=chat.think_end)
    model = SharedPrefixLM(loaded, lambda done, total: progress(key, done, total), chat)
    through = chat is not None
    # Our intervals are paired; lm-eval's standard errors are not needed.
    try:
        results = evaluate(
            model,
            loaded_tasks,
            limit=limit,
            bootstrap_iters=0,
            apply_chat_template=through,
            fewshot_as_multiturn=through,
        )
    except WithoutEnd as error:
        raise unreadable(error, where) from error  # Of an example, which is of another split.
    except TimeoutError as error:
        remedy = "Write simpler patterns in filter_list and regexes_to_ignore."
        raise BadRecipe("a pattern takes too long on an answer", where=where, remedy=remedy) from error
    samples = sorted(results["samples"][settings.task], key=lambda sample: sample["doc_id"])
    # Each filter yields a sample per item; the first filter counts.
    first = settings.filter_list[0].name if settings.filter_list else samples[0]["filter"]
    samples = [sample for sample in samples if sample["filter"] == first]
    also: dict[str, float] = {}
    if settings.output_type == "loglikelihood_rolling":
        correct, also = score_texts(settings, task, samples)
    elif settings.scored_metric == "mc2":
        correct = [true_mass(sample) for sample in samples]
    else:
        correct = [float(sample[settings.scored_metric]) for sample in samples]
    if any(each.metric == "perplexity" for each in settings.metric_list):
        also = {"perplexity": perplexity([sample["perplexity"] for sample in samples], len(samples))}
    if settings.reported_by is not None:
        also |= score_by(settings.reported_by, correct, [sample["doc"] for sample in samples])
        also |= bias_by(settings.reported_by, task, samples) if settings.bias else {}
    return suite_score(
        settings.scored_metric,
        [str(sample["doc_id"] if (own := sample["doc"].get("id")) is None else own) for sample in samples],
        correct,
        [said_of(task, settings, sample) for sample in samples],
        where=where,
        also=also,
        through_template=through,
    )


def _task_config(settings: SuiteTask, folder: Path, cache: Path) -> dict[str, Any]:
    """lm-eval's configuration, reading the suite's own folder and caching only in ``cache``."""
    config = settings.model_dump(mode="json", exclude_none=True, exclude={"shared", "counted", "reported_by", "bias"})
    files = {split: str((folder / name).resolve()) for split, name in settings.data_files.items()}
    if settings.dataset_path == "csv":
        for split, name in settings.data_files.items():
            target = cache / f"{split}.parquet"
            csv_as_parquet(folder / name, target)
            files[split] = str(target)
        config["dataset_path"] = "parquet"
    if settings.shared:
        items = read_rows(Path(files[settings.scored_split]))
        joined = with_shared(items, folder / settings.shared.file, settings.shared.by)
        target = cache / f"{settings.scored_split}.jsonl"
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text("".join(json.dumps(row) + "\n" for _, row in joined), encoding="utf-8")
        files[settings.scored_split] = str(target)
    for metric in config["metric_list"]:
        metric["aggregation"] = PERPLEXITIES.get(metric["metric"], "mean")
        metric["higher_is_better"] = metric["metric"] not in PERPLEXITIES
        # Our own metric, computed from the same likelihoods.
        metric["metric"] = "acc" if metric["metric"] == "mc2" else metric["metric"]
    return {**config, "dataset_kwargs": {"data_files": files, "cache_dir": str(cache)}}


def _sandbox_templates() -> None:
    """Let lm-eval render the suites' Jinja in a sandbox with limits."""
    import lm_eval.utils

    if not isinstance(lm_eval.utils.env, SuiteEnvironment):
        lm_eval.utils.env = SuiteEnvironment()


def _time_patterns() -> None:
    """Let lm-eval match the suites' patterns with a time limit."""
    import lm_eval.api.metrics
    import lm_eval.filters.extraction

    for module in (lm_eval.api.metrics, lm_eval.filters.extraction):
        module.re = TimedPatterns()
