"""Methods of arrays with named dimensions, which are the functions of graphc.xtensor."""

from __future__ import annotations

from collections.abc import Sequence
from types import EllipsisType
from typing import TYPE_CHECKING, Any, Literal

from graphc.xtensor.table import TABLE

if TYPE_CHECKING:
    from graphc.xtensor.align import Dim
    from graphc.xtensor.type import XTensor

Missing = Literal["raise", "warn", "ignore"]
"""The reaction to a dimension that an array lacks."""


class Methods:
    """The methods with xarray's names."""

    __slots__ = ()

    # Elements.

    def astype(self, dtype: Any) -> XTensor:
        """Return the values in another dtype."""
        return TABLE["cast"](self, dtype)

    def clip(self, min: Any = None, max: Any = None) -> XTensor:
        """Return the values, none below ``min`` or above ``max``."""
        return TABLE["clip"](self, min, max)

    def conj(self) -> XTensor:
        """Return the complex conjugate."""
        return TABLE["conj"](self)

    def round(self, decimals: int = 0) -> XTensor:
        """Return the values rounded to a number of decimals."""
        return TABLE["round"](self, decimals)

    @property
    def real(self) -> XTensor:
        """The real part."""
        return TABLE["real"](self)

    @property
    def imag(self) -> XTensor:
        """The imaginary part."""
        return TABLE["imag"](self)

    def where(self, cond: Any, other: Any = None, drop: bool = False) -> XTensor:
        """Return the values where a condition holds, and others where it does not.

        Args:
            cond: The condition.
            other: The other values; NaN by default.
            drop: Accepted for PyTensor compatibility: nothing is dropped.

        Returns:
            An array whose first dimensions are this one's.
        """
        result = TABLE["where"](cond, self, float("nan") if other is None else other)
        return result.transpose(*self.dims, ...)  # type: ignore[attr-defined]

    # Reductions.

    def all(self, dim: Dim = None) -> XTensor:
        """Return whether all elements along dimensions are true; along all by default."""
        return TABLE["all"](self, dim)

    def any(self, dim: Dim = None) -> XTensor:
        """Return whether an element along dimensions is true; along all by default."""
        return TABLE["any"](self, dim)

    def max(self, dim: Dim = None) -> XTensor:
        """Return the largest element along dimensions; along all by default."""
        return TABLE["max"](self, dim)

    def min(self, dim: Dim = None) -> XTensor:
        """Return the smallest element along dimensions; along all by default."""
        return TABLE["min"](self, dim)

    def mean(self, dim: Dim = None) -> XTensor:
        """Return the mean along dimensions; along all by default."""
        return TABLE["mean"](self, dim)

    def prod(self, dim: Dim = None) -> XTensor:
        """Return the product along dimensions; along all by default."""
        return TABLE["prod"](self, dim)

    def sum(self, dim: Dim = None) -> XTensor:
        """Return the sum along dimensions; along all by default."""
        return TABLE["sum"](self, dim)

    def std(self, dim: Dim = None, ddof: int = 0) -> XTensor:
        """Return the standard deviation along dimensions; along all by default."""
        return TABLE["std"](self, dim, ddof=ddof)

    def var(self, dim: Dim = None, ddof: int = 0) -> XTensor:
        """Return the variance along dimensions; along all by default."""
        return TABLE["var"](self, dim, ddof=ddof)

    def cumsum(self, dim: Dim = None) -> XTensor:
        """Return cumulative sums along each of some dimensions, one after the other."""
        return TABLE["cumsum"](self, dim)

    def cumprod(self, dim: Dim = None) -> XTensor:
        """Return cumulative products along each of some dimensions, one after the other."""
        return TABLE["cumprod"](self, dim)

    def diff(self, dim: str, n: int = 1) -> XTensor:
        """Return the differences between neighbours along a dimension, taken n times."""
        return TABLE["diff"](self, dim, n)

    def dot(self, other: Any, dim: Dim = None) -> XTensor:
        """Return the products summed over dimensions; by default over the common ones."""
        return TABLE["dot"](self, other, dim)

    # Dimensions.

    @property
    def T(self) -> XTensor:  # noqa: N802 (NumPy's name)
        """The array with its dimensions in reverse order."""
        return TABLE["transpose"](self)

    def transpose(self, *dim: str | EllipsisType, missing_dims: Missing = "raise") -> XTensor:
        """Return the array with its dimensions in an order, reversed by default.

        Args:
            dim: The dimensions; ``...`` once, for all that are not named.
            missing_dims: The reaction to a dimension that the array lacks: ``"raise"``, ``"warn"``
                or ``"ignore"``.
        """
        return TABLE["transpose"](self, *dim, missing_dims=missing_dims)

    def stack(self, dim: Any = None, **dims: Any) -> XTensor:
        """Return the array with dimensions merged to one: ``x.stack(cell=("row", "column"))``."""
        return TABLE["stack"](self, dim, **dims)

    def unstack(self, dim: Any = None, **dims: Any) -> XTensor:
        """Return the array with a dimension split: ``x.unstack(cell={"row": 2, "column": 3})``."""
        return TABLE["unstack"](self, dim, **dims)

    def expand_dims(
        self,
        dim: Any = None,
        create_index_for_new_dim: bool | None = None,
        axis: int | Sequence[int] | None = None,
        **dim_kwargs: Any,
    ) -> XTensor:
        """Return the array with new dimensions in front: ``x.expand_dims(draw=100)``.

        Args:
            dim: A name or several, of length 1; or a dict of names and lengths.
            create_index_for_new_dim: Accepted for xarray compatibility: there are no coordinates.
            axis: Positions of the new dimensions in the result.
            dim_kwargs: Names and lengths.
        """
        return TABLE["expand_dims"](self, dim, axis=axis, **dim_kwargs)

    def squeeze(
        self, dim: Dim = None, drop: Any = None, axis: int | Sequence[int] | None = None
    ) -> XTensor:
        """Return the array without dimensions of length 1.

        Args:
            dim: The dimensions; by default all of static length 1.
            drop: Accepted for xarray compatibility: there are no coordinates.
            axis: The positions of the dimensions, instead of ``dim``.
        """
        return TABLE["squeeze"](self, dim, axis=axis)

    def broadcast_like(self, other: Any, exclude: Any = None) -> XTensor:
        """Return the array with the dimensions of another too, and its lengths.

        Args:
            other: The other array.
            exclude: Dimensions that are not broadcast.
        """
        return TABLE["broadcast_like"](self, other, exclude)

    # Parts.

    def __getitem__(self, index: Any) -> XTensor:
        if isinstance(index, dict):
            return TABLE["isel"](self, index)
        return TABLE["index"](self, *(index if isinstance(index, tuple) else (index,)))

    def isel(
        self,
        indexers: Any = None,
        drop: bool = False,
        missing_dims: Missing = "raise",
        **indexers_kwargs: Any,
    ) -> XTensor:
        """Return a part of the array by indices along dimensions: ``x.isel(city=0, year=years)``.

        An array of indices without names is along the dimension that it selects from. Arrays of
        indices that share a dimension select element by element; others select all combinations.

        Args:
            indexers: A dict of dimensions and indices: an integer, a slice, an integer or bool
                array, or a pair of names and an array.
            drop: Accepted for xarray compatibility: there are no coordinates.
            missing_dims: The reaction to a dimension that the array lacks: ``"raise"``, ``"warn"``
                or ``"ignore"``.
            indexers_kwargs: Dimensions and indices.
        """
        return TABLE["isel"](self, indexers, missing_dims=missing_dims, **indexers_kwargs)

    def head(self, indexers: Any = None, **indexers_kwargs: Any) -> XTensor:
        """Return the first elements along dimensions, ``x.head(year=3)``; 5 of all by default."""
        return TABLE["head"](self, indexers, **indexers_kwargs)

    def tail(self, indexers: Any = None, **indexers_kwargs: Any) -> XTensor:
        """Return the last elements along dimensions, ``x.tail(year=3)``; 5 of all by default."""
        return TABLE["tail"](self, indexers, **indexers_kwargs)

    def thin(self, indexers: Any = None, **indexers_kwargs: Any) -> XTensor:
        """Return every n-th element along dimensions: ``x.thin(year=10)``."""
        return TABLE["thin"](self, indexers, **indexers_kwargs)

    def set(self, value: Any) -> XTensor:
        """Return the array with this part of it, ``x[...]`` or ``x.isel(...)``, replaced."""
        return TABLE["set"](self, value)

    def inc(self, value: Any) -> XTensor:
        """Return the array with a value added to this part of it; repeated indices add up."""
        return TABLE["inc"](self, value)
