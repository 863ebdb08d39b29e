from abc import ABCMeta

# threadpoolctl has no types of its own.
from threadpoolctl import LibController  # type: ignore[import-untyped]

__all__ = ["CommonPoolController", "register"]

class CommonPoolController(LibController, metaclass=ABCMeta):  # type: ignore[misc]
    user_api: str
    internal_api: str
    filename_prefixes: tuple[str, ...]
    check_symbols: tuple[str, ...]
    def get_num_threads(self) -> int: ...
    def set_num_threads(self, num_threads: int) -> None: ...
    def get_version(self) -> str: ...

def register() -> None: ...
