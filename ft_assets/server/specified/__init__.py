"""The addresses of the specification, beside OpenAI's dialect and over the same functions. They keep nothing of their
own. Times are seconds since the epoch, lists are pages as in ``ft_assets.server.pages``."""

from fastapi import FastAPI

from ft_assets.server.specified import datasets, jobs, models


def include(app: FastAPI) -> None:
    """Answer at these addresses too."""
    for part in (
        jobs,
        datasets,
        models,
    ):
        app.include_router(part.router)
