"""Names of people and places, by a spaCy model that presidio's engine runs on this machine; it fetches none."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from ft_assets.settings.dataset.recogniser import ENTITY_TYPES
from ft_assets.workers.datasets.screening.boundaries import is_json
from ft_assets.workers.datasets.screening.found import Span
from ft_assets.workers.suites.name_models import LABELS
from ft_resources.errors import BadBase, UserError

# In JSON: escapes, and the signs outside its strings. The model gets line ends in their place.
_STRUCTURE = re.compile(r'\\u[0-9a-fA-F]{4}|\\.|["{}\[\]]')
# A name or an address is in one line, with a letter or digit at both ends.
_PIECE = re.compile(r"[^\W_](?:[^\r\n]*[^\W_])?")
_LETTER = re.compile(r"[^\W\d_]")


@dataclass(frozen=True, kw_only=True, slots=True)
class NameModel:
    """A registered name model, as files in ``folder`` of this machine; ``digest`` is of its content."""

    folder: str
    digest: str
    language: str


def find_names(raw: bytes, model: NameModel, types: tuple[str, ...]) -> Iterator[Span]:
    """What ``model`` takes for names and places in the text ``raw``, as ``types`` (of ``ENTITY_TYPES``).

    In JSON only the strings are read, so that it stays JSON when they are replaced.

    Raises:
        UserError: if presidio-analyzer is not installed.
        BadBase: if spaCy cannot load the model.
    """
    text = raw.decode()
    engine, recogniser = _engine(model.folder, model.language)
    read = _in_json(text) if is_json(raw) else text
    wanted = [entity for entity, kind in ENTITY_TYPES.items() if kind in types]
    for result in recogniser.analyze(read, wanted, engine.process_text(read, model.language)):
        for piece in _PIECE.finditer(read, result.start, result.end):
            if _LETTER.search(piece[0]):
                start, end = (len(text[:at].encode()) for at in piece.span())
                yield Span(start, end, ENTITY_TYPES[result.entity_type])


def _in_json(text: str) -> str:
    """The JSON ``text`` with line ends in place of everything outside its strings."""
    return _STRUCTURE.sub(lambda found: "\n" * len(found[0]), text)


@lru_cache(maxsize=2)
def _engine(folder: str, language: str) -> tuple[Any, Any]:
    """Presidio's engine with the model in ``folder``, and the recogniser that reads its results."""
    try:
        import spacy
        from presidio_analyzer.nlp_engine import NerModelConfiguration, SpacyNlpEngine
        from presidio_analyzer.predefined_recognizers import SpacyRecognizer
    except ImportError as error:
        raise UserError(
            "the policy searches for names with presidio, which is not installed in this environment",
            where="dataset.yaml: personal_data: names",
            remedy="Install ft-platform[presidio] where workers run, or leave names out.",
        ) from error
    try:
        pipeline = spacy.load(Path(folder))
    except Exception as error:
        raise BadBase(
            f"spaCy {spacy.__version__} cannot load the model: {error}",
            where="dataset.yaml: personal_data: names: model",
            remedy="Save the model with this version of spaCy (nlp.to_disk) and add it under another key.",
        ) from error
    labels = pipeline.pipe_labels.get(_finder(pipeline), [])
    engine: Any = SpacyNlpEngine(
        ner_model_configuration=NerModelConfiguration(
            model_to_presidio_entity_mapping={label: LABELS[label] for label in labels if label in LABELS},
            labels_to_ignore=[label for label in labels if label not in LABELS],
        )
    )
    # A loaded pipeline, since the engine would fetch what it does not find.
    engine.nlp = {language: pipeline}
    return engine, SpacyRecognizer(supported_language=language, supported_entities=list(ENTITY_TYPES))


def _finder(pipeline: Any) -> str:
    return next(name for name, factory in pipeline.pipe_factories.items() if factory == "ner")
