"""What the API's description says of OpenAI's own objects. Answers are made elsewhere; the tests compare the two."""
