"""The embedded server: one base with several adapters, on this machine, in vLLM's dialect of OpenAI's API.

From the outside in: ``main`` starts it, ``app`` answers HTTP in the format of ``dialect``, ``engine`` schedules the
requests, ``batch`` computes them together, ``adapters`` and ``tuned`` hold the adapters, ``sampling`` chooses tokens.
"""
