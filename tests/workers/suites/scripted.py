"""A model for lm-eval that writes scripted answers."""

from collections.abc import Callable
from typing import Any

from lm_eval.api.model import LM


class Scripted(LM):
    """Writes what ``write`` says to each document; ``asked`` are the texts and settings, in the documents' order."""

    def __init__(self, write: Callable[[dict[str, Any]], str]) -> None:
        super().__init__()
        self.write = write
        self.asked: list[tuple[str, dict[str, Any]]] = []

    def generate_until(self, requests: list[Any]) -> list[str]:
        self.asked += [(each.args[0], {**each.args[1]}) for each in requests]
        return [self.write(each.doc) for each in requests]

    def loglikelihood(self, requests: list[Any]) -> list[tuple[float, bool]]:
        raise NotImplementedError

    def loglikelihood_rolling(self, requests: list[Any]) -> list[float]:
        raise NotImplementedError
