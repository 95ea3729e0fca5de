"""Errors of model servers."""

from ft_resources.errors import TooManyRequests, UserError


class ServerUnavailable(UserError):
    """The server does not answer, ended in the middle of an answer, or failed."""


class NoServer(UserError):
    """No server with the model's base answers."""


class Starting(NoServer):
    """No server has the model's base yet, and one is starting."""


class ServerBusy(TooManyRequests):
    """The server's queue is full; a request may succeed after ``retry_s`` seconds."""


class NameTaken(UserError):
    """A model's name belongs to other bytes than those that it should be loaded with."""


class BadAdapter(UserError):
    """A folder without an adapter to the served base."""


class BadRequest(UserError):
    """A request that the server can never answer: ``code`` says why in one word, as OpenAI's errors do."""

    def __init__(self, what: str, *, where: str = "", remedy: str = "", code: str = "invalid_value") -> None:
        self.code = code
        super().__init__(what, where=where, remedy=remedy)


class FarTooLong(BadRequest):
    """A prompt whose beginning already fills the context; the rest was not read."""

    def __init__(self, context: int, where: str) -> None:
        super().__init__(
            f"the context holds {context} tokens, and the prompt has many more",
            where=where,
            remedy="Shorten the prompt.",
            code="context_length_exceeded",
        )


class PromptTooLong(BadRequest):
    """A prompt and its answer that are longer than the context."""

    def __init__(self, prompt: int, answer: int, context: int) -> None:
        super().__init__(
            f"the context holds {context} tokens; the prompt has {prompt} and max_tokens asks for {answer}",
            where="prompt",
            remedy="Shorten the prompt, or lower max_tokens.",
            code="context_length_exceeded",
        )
