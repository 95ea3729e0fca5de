"""A base that is one of our accepted adapters: the whole model as exported, or base and adapter merged."""

from ft_assets.workers.base_models.base_lock import BaseLock
from ft_assets.workers.base_models.contents import (
    INDEX,
    PROCESSOR_FILES,
    SINGLE,
    TEMPLATE,
    TOKENIZER_FILES,
    base_json,
    weight_files,
)
from ft_assets.workers.base_models.merge import CONFIG, WEIGHTS, merge_adapter
from ft_assets.workers.base_models.placing import place, replace_text
from ft_assets.workers.templates.source import own_template
from ft_resources.artifacts import MANIFEST, Artifact
from ft_resources.errors import BadBase, CorruptArtifact
from ft_resources.worker_context import WorkContext

# Files of an exported whole model. All others in the folder describe the adapter, not the base.
_OF_A_MODEL = ("config.json", "generation_config.json", TEMPLATE, SINGLE, INDEX, *TOKENIZER_FILES, *PROCESSOR_FILES)


def take_accepted(context: WorkContext, lock: BaseLock) -> None:
    """Lay out the base that ``lock`` (of kind ``artifact``) names in ``context.output``.

    Inputs: ``adapter`` and, if the adapter is not a whole model, ``base``, which it depends on. Raises CorruptArtifact
    if the inputs do not match the lock, BadBase for an adapter that cannot be merged.
    """
    adapter = unchanged_input(context, "adapter")
    if "base" not in context.spec.inputs:
        for done, name in enumerate(names := _model_files(adapter)):
            context.progress("copying", done, len(names))
            place(adapter.path(name, context.scratch / "adapter"), context.output / name)
        return
    base = unchanged_input(context, "base")
    if adapter.manifest.inputs["base"].digest != base.digest:
        raise BadBase(
            f"{lock.source} was not trained on {base.address}",
            where=lock.source,
            remedy="Register the recipe again under its next version.",
        )
    lay_out_merged(context, adapter, base)


def lay_out_merged(context: WorkContext, adapter: Artifact, base: Artifact) -> None:
    """Lay out in ``context.output`` the files of the input ``base`` with the adapter merged into the weights, and the
    template that the adapter was trained with. Raises BadBase for an adapter that cannot be merged."""
    output, files = context.output, context.folder("base")
    for done, name in enumerate(base.manifest.files):
        context.progress("copying", done, len(base.manifest.files))
        # A model card describes the unmerged weights; licences are kept.
        if not name.startswith("README"):
            place(files / name, output / name, own=name.endswith(".safetensors"))
    shards = [output / name for name in weight_files(output, str(base.address))]
    config = base_json(output / "config.json", str(base.address))
    merge_adapter(
        adapter.read_json(CONFIG),
        adapter.path(WEIGHTS, context.scratch / "adapter"),
        shards,
        tied=bool(config.get("tie_word_embeddings")),
        report=lambda done, total: context.progress("merging", done, total),
    )
    # An adapter that learned texts has no template where its base has none.
    if TEMPLATE in adapter.manifest.files and (template := adapter.read(TEMPLATE).decode()) != own_template(output):
        replace_text(output / TEMPLATE, template)


def _model_files(adapter: Artifact) -> list[str]:
    def belongs(name: str) -> bool:
        return name in _OF_A_MODEL or (name.endswith(".safetensors") and name != WEIGHTS)

    return [name for name in adapter.manifest.files if belongs(name)]


def unchanged_input(context: WorkContext, name: str) -> Artifact:
    """The input, if its manifest still lists what was asked for; reading it verifies the bytes. Raises CorruptArtifact
    if it does not."""
    artifact = context.input(name)
    if artifact.digest != context.spec.inputs[name].digest:
        raise CorruptArtifact(
            f"{artifact.address} has changed since this work was requested",
            where=f"{artifact.address}/{MANIFEST}",
            remedy="Restore the manifest from the bucket's versions or a backup.",
        )
    return artifact
