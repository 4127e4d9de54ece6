"""Diagnosis: the store, this machine, models, processes, and this interpreter."""

from tetris._doctor.diagnosis import Diagnosis, doctor

__all__ = ["Diagnosis", "doctor"]
