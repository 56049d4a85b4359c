"""JAX functions as graphs: to run on other backends, to rewrite, to explain, to export."""

from __future__ import annotations

from typing import Any


def from_jaxpr(function: Any, *args: Any, **kwargs: Any) -> Any:
    """Convert a JAX function of symbolic arrays to a graph of graphc's operations.

    JAX traces the function, and each of its primitives becomes the operations that mean the same:
    the graph is compiled for every backend, differentiated, batched, rewritten and explained like
    any other, and nothing of JAX is left in it. Loops stay loops, branches branches, and a
    function with ``jax.custom_jvp`` or ``custom_vjp`` keeps its derivative. What graphc has no
    operations for stays JAX's, as by ``wrap_jax``: that graph runs with ``mode="JAX"`` and
    ``"NUMPY"``; ``f.plan()`` and the error of another backend name it.

    64-bit dtypes are enabled while it is traced where an argument has one; otherwise as
    ``jax_enable_x64`` says. Arrays that the function captures are constants of the graph: large
    ones are passed to the compiled program, and are no part of it.

    Args:
        function: A function of JAX arrays nested in pytrees, or a program that
            ``jax.make_jaxpr`` traced.
        args: Positional arguments. Symbolic arrays in them, also nested in pytrees, are inputs of
            the graph; NumPy and JAX arrays are constants; everything else is passed on unchanged.
            Lengths that are unknown are symbols for JAX, see ``jax.export``; an array whose dtype
            is uint32 and whose shape is ``(2,)`` is a random key, as in JAX.
        kwargs: Keyword arguments, treated likewise.

    Returns:
        Symbolic arrays, nested as the function nests its results.

    Raises:
        OperationError: If JAX cannot trace the function with such arguments.
        ArgumentError: If no argument is a symbolic array, or a program gets too many or few.

    Example:
        >>> import graphc, graphc.tensor as gt, jax
        >>> from graphc.interop.jax import from_jaxpr
        >>> x = gt.vector("x")
        >>> y = from_jaxpr(lambda x: jax.nn.softplus(x).sum(), x)
        >>> f = graphc.function([x], [y, graphc.grad(y, x)], mode="NUMPY")
        >>> [v.round(3).tolist() for v in f([0.0, 1.0])]
        [2.006, [0.5, 0.731]]
    """
    # A program that converts no JAX functions does not load JAX.
    from graphc.link.jax.from_jaxpr import convert  # noqa: PLC0415

    return convert(function, args, kwargs)
