"""A property that is computed once for each object."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar, overload

_T = TypeVar("_T")


class cached(Generic[_T]):  # noqa: N801 - used as property is
    """As functools.cached_property is from Python 3.12 on: before that it takes a lock, for each of some twenty values
    that are computed for each review."""

    def __init__(self, compute: Callable[[Any], _T]) -> None:
        self._compute = compute
        self.__doc__ = compute.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, instance: None, owner: type) -> cached[_T]: ...

    @overload
    def __get__(self, instance: object, owner: type) -> _T: ...

    def __get__(self, instance: object | None, owner: type) -> cached[_T] | _T:
        if instance is None:
            return self
        # From here on it is found there, and this is not called again.
        value = instance.__dict__[self._name] = self._compute(instance)
        return value
