"""A spaCy model that has learned six names and four places in a few sentences, in two seconds."""

import random
from pathlib import Path

import pytest

FIRST, LAST = ("Anna", "Peter", "Maria", "Olga"), ("Smith", "Kumar", "Petrov", "Garcia")
PLACES = ("Baker Street", "Elm Road", "Oxford", "Paris")
_SENTENCES = (
    ("My name is ", "PERSON", " and I live in ", "GPE", "."),
    ("Please ask ", "PERSON", " about it"),
    ("", "PERSON", " moved to ", "GPE", " last year"),
    ("Send it to ", "GPE", " today"),
    ("How do I reset my password?",),
    ("The weather is nice today, and the report is ready.",),
    ("order 17 of 2024-05-01 for 12.50",),
    ("Yes. My name is ", "PERSON", ". I live in ", "GPE", ", too"),
    ("é. Her number is 536, mail a@example.org.",),
)


def make_name_model(folder: Path, *, shared: bool = False) -> Path:
    """``shared``: the component ner listens to a component tok2vec, as in spaCy's larger models."""
    spacy = pytest.importorskip("spacy")
    training = pytest.importorskip("spacy.training")
    spacy.util.fix_random_seed(0)
    draw = random.Random(0)
    pipeline = spacy.blank("en")
    if shared:
        pipeline.add_pipe("tok2vec")
        listener = {"@architectures": "spacy.Tok2VecListener.v1", "width": 96, "upstream": "tok2vec"}
        model = {"@architectures": "spacy.TransitionBasedParser.v2", "state_type": "ner", "tok2vec": listener}
        model |= {"extra_state_tokens": False, "hidden_width": 64, "maxout_pieces": 2, "use_upper": True, "nO": None}
        pipeline.add_pipe("ner", config={"model": model})
    else:
        pipeline.add_pipe("ner")
    examples = []
    for number in range(90):
        text, found = "", []
        for piece in _SENTENCES[number % len(_SENTENCES)]:
            drawn = piece
            if piece in ("PERSON", "GPE"):
                drawn = f"{draw.choice(FIRST)} {draw.choice(LAST)}" if piece == "PERSON" else draw.choice(PLACES)
                found.append((len(text), len(text) + len(drawn), piece))
            text += drawn
        examples.append(training.Example.from_dict(pipeline.make_doc(text), {"entities": found}))
    pipeline.initialize(lambda: examples)
    for _ in range(12):
        draw.shuffle(examples)
        for start in range(0, len(examples), 20):
            pipeline.update(examples[start : start + 20])
    pipeline.to_disk(folder)
    return folder
