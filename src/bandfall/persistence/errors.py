"""The one exception that every unusable model file ends in."""


class ModelFileError(ValueError):
    """A file is not a model this version can read, or a model cannot be put in a file."""
