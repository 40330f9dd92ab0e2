"""What holds for every test."""

from hypothesis import settings

settings.register_profile("patient", deadline=None)  # how fast a busy machine is, is not what properties are about
settings.load_profile("patient")
