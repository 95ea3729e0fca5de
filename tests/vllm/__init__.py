"""Tests beside a real vLLM: FT_VLLM_PYTHON names the Python that has it. docs/how-to/vllm.md says what to install."""
