"""Accuracy and speed against references and peers: ``python -m bench.accuracy``, ``bench.pair``."""
