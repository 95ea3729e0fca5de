"""The trainer: from a token pack and a base model to final weights, reproducibly, even if it is killed on the way."""
