"""Settings for the whole suite."""

import os

from hypothesis import settings

settings.register_profile("bandfall", deadline=None, max_examples=20, derandomize=True)
settings.register_profile("thorough", deadline=None, max_examples=200)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "bandfall"))
