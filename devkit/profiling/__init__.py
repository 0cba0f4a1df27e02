"""Profiles: where a program's time goes, recorded on the phone or here, and the reports made of it."""

from devkit.profiling.builder import ProfileBuilder
from devkit.profiling.model import Event, Frame, Meta, Module, Profile, Series, Span, Thread
from devkit.profiling.store import load_profile, save_profile

__all__ = [
    "Event",
    "Frame",
    "Meta",
    "Module",
    "Profile",
    "ProfileBuilder",
    "Series",
    "Span",
    "Thread",
    "load_profile",
    "save_profile",
]
