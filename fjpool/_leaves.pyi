from ._parallel import _Data

__all__ = ["Native", "resolve"]

class Native:
    kind: int
    signature: str
    address: int
    context: int
    owner: object
    def __init__(
        self,
        result: str,
        arguments: list[str],
        address: int,
        owner: object,
        context: int = 0,
        into_python: bool = False,
    ) -> None: ...
    @property
    def has_value(self) -> bool: ...
    def data_for(self, data: _Data | None) -> _Data | int | None: ...

def resolve(leaf: object) -> Native | None: ...
