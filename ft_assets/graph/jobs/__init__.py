"""The jobs that people and sensors launch."""
