"""Parity: whether a server, with the settings it runs with, gives the results of the evaluation."""
