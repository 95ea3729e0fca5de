"""Metering: GPU-hours are checked against quotas before a training and billed after it."""
