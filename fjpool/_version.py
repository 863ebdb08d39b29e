"""The version of the package; setup reads it from here too."""

__version__ = "0.1.0"
