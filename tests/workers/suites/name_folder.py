"""The files of a spaCy model that finds names, as far as adding it reads them."""

import json
from pathlib import Path

CONFIG = """
[paths]
vectors = null

[nlp]
lang = "de"
pipeline = ["tok2vec", "tagger", "ner"]
disabled = []
before_creation = null
tokenizer = {"@tokenizers":"spacy.Tokenizer.v1"}

[training]
logger = {"@loggers":"weights-and-biases"}

[components.tok2vec]
factory = "tok2vec"

[components.tok2vec.model]
@architectures = "spacy.HashEmbedCNN.v2"
width = 96
pretrained_vectors = ${paths.vectors}

[components.tagger]
factory = "tagger"
label_smoothing = 0.0

[components.ner]
factory = "ner"
scorer = {"@scorers":"spacy.ner_scorer.v1"}

[components.ner.model]
@architectures = "spacy.TransitionBasedParser.v2"

[components.ner.model.tok2vec]
@architectures = "spacy.Tok2VecListener.v1"
width = ${components.tok2vec.model.width}
"""
KEPT = ("tokenizer", "vocab/lookups.bin", "vocab/strings.json", "ner/cfg", "ner/model", "ner/moves")
LISTENED = ("tok2vec/cfg", "tok2vec/model")


def write_name_folder(folder: Path, config: str = CONFIG, labels: tuple[str, ...] = ("LOC", "PER", "MISC")) -> Path:
    for name in (*KEPT, *LISTENED, "tagger/model"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(name.encode())
    (folder / "config.cfg").write_text(config)
    (folder / "meta.json").write_text(json.dumps({"lang": "de", "labels": {"ner": labels}}))
    return folder
