"""What all tests share."""

from hypothesis import settings

# No deadline: a property test may meet a busy machine. Random on every run, also where CI is set
# in the environment (hypothesis would repeat the same examples there); a failure prints the line
# that reproduces it.
settings.register_profile("fjpool", deadline=None, print_blob=True, derandomize=False)
settings.load_profile("fjpool")
