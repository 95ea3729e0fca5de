"""What worker processes compute: datasets, base models, token packs, trainings, evaluations and adapters.

Imports ``records``, ``settings`` and ``ft_resources``; no Dagster and nothing of ``control``. The folders stand in one
order, each importing only what is below it: adapters, evals, training, packs, datasets, suites, base_models,
tokenizers, templates, model_size. Heavy libraries are imported inside functions where the code location loads a file.
"""
