"""``python -m benchmarks quantized``: each quantised format made of an accepted adapter and gated again, and whether
one that forgot is rejected.

The base is the demo's, trained on a small dataset by the whole graph. A format whose tool this machine lacks
(``FT_LLAMA_CPP``, ``FT_LLM_COMPRESSOR``) is named and not counted.
"""

import os
import tempfile
from dataclasses import replace
from pathlib import Path
from shutil import copytree, rmtree

import ft_assets.demo
from benchmarks.table import Figure, goal_figure
from ft_assets import api
from ft_assets.control import identity
from ft_assets.control.exports.judging import judge_export, require_as_good
from ft_assets.graph.orchestrator import Dagster
from ft_assets.settings.catalogue.exports import EXPORTS, formats_of
from ft_assets.settings.catalogue.exports.compressed import LLM_COMPRESSOR
from ft_assets.settings.catalogue.exports.gguf import LLAMA_CPP
from ft_assets.workers.evals.gguf_weights import GGUF
from ft_assets.workers.exports.llama_cpp import LlamaCpp
from ft_resources import environment
from ft_resources.artifacts import Address, Artifact, Artifacts
from ft_resources.errors import GateRejected, UserError
from ft_resources.execution import Execution
from ft_resources.launchers.choice import make_launcher
from tests.e2e.project import Project, make_project

_DEMO_BASE = Path(ft_assets.demo.__file__).parent / "base"
_TOOLS = {LLAMA_CPP: environment.LLAMA_CPP, LLM_COMPRESSOR: environment.LLM_COMPRESSOR}
_FORGETS = EXPORTS["gguf-q8_0"]


def measure() -> list[Figure]:
    """How many formats came out of their gates with a verdict, and whether the planted one was rejected."""
    formats = formats_of("quantized_model")
    here = [each for each in formats if os.environ.get(_TOOLS[each.settings["tool"]])]
    for each in formats:
        if each not in here:
            print(f"{each.name}: left out, as {_TOOLS[each.settings['tool']]} is not set")
    if not here:
        return _figures(len(formats), verdicts=None, as_good=None, rejected=None)
    with tempfile.TemporaryDirectory(prefix="ft-quantized-") as scratch:
        folder = Path(scratch)
        project = _project(folder)
        adapter = _accepted(project)
        found = [_as_good(project, adapter, each.name, folder / each.name) for each in here]
        rejected = _forgot_rejected(project, adapter, folder) if _FORGETS in here else None
    verdicts = sum(each is not None for each in found)
    return _figures(len(formats), verdicts=verdicts, as_good=found.count(True), rejected=rejected)


def _project(folder: Path) -> Project:
    project = make_project(folder / "project")
    rmtree(project.folder / "base")
    copytree(_DEMO_BASE, project.folder / "base")
    os.environ.update(
        FT_STORE=project.store_url,
        FT_STATE=str(project.folder / "state"),
        FT_CACHE=str(folder / "cache"),
        FT_TENANTS=str(project.folder / "tenants.yaml"),
        DAGSTER_HOME=str(project.folder),
        FT_TRACKING="off",
        OMP_NUM_THREADS="1",
    )
    return project


def _accepted(project: Project) -> Artifact:
    gates = {
        # The suite is of this dataset: what is learned changes its answers.
        "benchmark_regression": {"max_drop_points": 5.0, "margin_points": 100.0},
        "task_gain": {"metric": "perplexity", "min_relative": 0.1},
    }
    recipe = project.recipe(
        "small.v1",
        steps=120,
        training={"learning_rate": 0.002},
        evaluation={"holdout": {"max_samples": 64, "max_new_tokens": 8}},
        gates=gates,
    )
    done = api.fine_tune(
        project.dataset(800),
        recipe,
        name="acme.things",
        store=project.store,
        orchestrator=Dagster(project.instance()),
        actor="bench",
    )
    if not done.outcome.adapter:
        raise RuntimeError(f"the adapter was not accepted: {done.outcome.reason}")
    return Artifacts(project.store).get(Address.parse(done.outcome.adapter))


def _as_good(project: Project, adapter: Artifact, name: str, target: Path) -> bool | None:
    """Whether the format is as good as the adapter by its gates; None where it could not be made or evaluated."""
    try:
        made = api.export(str(adapter.address), target, format=name, store=project.store, actor="bench")
    except GateRejected as error:
        print(f"{name}: rejected: {error}")
        return False
    except UserError as error:
        print(f"{name}: not made: {error}")
        return None
    verdicts = {each.gate: each.outcome for each in made.verdicts}
    print(f"{name}: {verdicts}; {made.artifact.facts['bytes']:,} bytes, {made.artifact.facts['changed']}")
    return True if verdicts else None


def _forgot_rejected(project: Project, adapter: Artifact, folder: Path) -> bool:
    """Whether a file in which nothing of the adapter is left, of the base alone, is rejected by the same gates."""
    artifacts, tools = Artifacts(project.store), LlamaCpp.of_environment()
    request = identity.export_request(artifacts, adapter, _FORGETS)
    good = artifacts.get(request.address)
    base = artifacts.get(Address.parse(adapter.manifest.inputs["base"].address)).folder(folder / "of-base")
    forgot = good.folder(folder / "forgot")
    (forgot / GGUF).unlink()
    whole = folder / "whole.gguf"
    tools.convert(base, whole, dtype="bf16", name="base", pre_tokenizer="gpt-2")
    tools.quantise(whole, forgot / GGUF, _FORGETS.settings["kind"])
    # An identity of its own, as the format's place is taken by the good one.
    planted = replace(request, params={**request.params, "planted": "the base alone"})
    made = artifacts.publish(
        planted.address,
        forgot,
        writer="bench",
        identity=planted.identity,
        inputs=planted.inputs,
        facts=good.facts,
        actor="bench",
    )
    execution = Execution(store=project.store, launcher=make_launcher())
    report = execution.run(identity.reevaluation_request(artifacts, adapter, made), actor="bench").artifact
    try:
        require_as_good(judge_export(artifacts, adapter, made, report), str(made.address))
    except GateRejected as error:
        print(f"one that forgot: rejected: {error}")
        return True
    return False


def _figures(formats: int, *, verdicts: int | None, as_good: int | None, rejected: bool | None) -> list[Figure]:
    return [
        _exactly("quantized_gated", f"formats gated again, with a verdict, of {formats}", verdicts, formats),
        goal_figure("quantized_as_good", "as good as the adapter, of these", as_good, None),
        _exactly("quantized_forgot_rejected", "a quantised model that forgot, rejected", rejected, 1),
    ]


def _exactly(key: str, what: str, ours: int | None, goal: int) -> Figure:
    met = None if ours is None else ours == goal
    value = None if ours is None else int(ours)
    return Figure(key=key, what=what, ours=value, peer=None, peer_is="", goal=f"= {goal}", met=met)
