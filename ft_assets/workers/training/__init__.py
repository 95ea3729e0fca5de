"""The trainer: from a token pack and a base model to final weights, exactly, also when it is killed on the way."""
