"""Operators of ``ai.onnx.ml``: linear models, trees, scaling, as scikit-learn's are exported."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

import graphc
import graphc.tensor as gt
from graphc.interop.onnx.operation import Operation, register
from graphc.interop.onnx.values import Refusal
from graphc.tensor import Tensor
from graphc.tensor.core.shape import length, lengths

DOMAIN = "ai.onnx.ml"


def _numbers(op: Operation, name: str, dtype: str) -> np.ndarray[Any, Any]:
    return np.asarray(op.get(name, ()), dtype)


@register("Scaler", domain=DOMAIN)
def _scaler(op: Operation, x: Tensor) -> Tensor:
    return (x.astype("float32") - _numbers(op, "offset", "float32")) * _numbers(
        op, "scale", "float32"
    )


@register("Normalizer", domain=DOMAIN)
def _normalizer(op: Operation, x: Tensor) -> Tensor:
    x = x.astype("float32")
    norm = op.get("norm", "MAX")
    if norm == "MAX":
        size = gt.max(gt.abs(x), axis=-1, keepdims=True)
    elif norm == "L1":
        size = gt.sum(gt.abs(x), axis=-1, keepdims=True)
    else:
        size = gt.sqrt(gt.sum(gt.square(x), axis=-1, keepdims=True))
    return x / gt.where(gt.equal(size, 0), 1, size)


@register("Binarizer", domain=DOMAIN)
def _binarizer(op: Operation, x: Tensor) -> Tensor:
    return gt.greater(x, op["threshold"]).astype(x.dtype)


@register("Imputer", domain=DOMAIN)
def _imputer(op: Operation, x: Tensor) -> Tensor:
    kind = "float32" if op["imputed_value_floats"] is not None else "int64"
    values = _numbers(op, f"imputed_value_{'floats' if kind == 'float32' else 'int64s'}", kind)
    replaced = op["replaced_value_float"] if kind == "float32" else op["replaced_value_int64"]
    is_missing = gt.isnan(x) if np.isnan(replaced) else gt.equal(x, replaced)
    return gt.where(is_missing, values.astype(x.dtype), x)


@register("FeatureVectorizer", domain=DOMAIN)
def _features(_: Operation, *parts: Tensor) -> Tensor:
    return gt.concatenate([gt.reshape(x, (length(x, 0), -1)).astype("float32") for x in parts], 1)


def _transformed(scores: Tensor, how: str) -> Tensor:
    """Scores as probabilities."""
    if how == "NONE":
        return scores
    if how == "SOFTMAX":
        return gt.softmax(scores, axis=-1)
    if how == "SOFTMAX_ZERO":
        found = gt.softmax(gt.where(gt.equal(scores, 0), -np.inf, scores), axis=-1)
        return gt.where(gt.equal(scores, 0), 0, found)
    if how == "LOGISTIC":
        return gt.sigmoid(scores)
    raise Refusal(f"post_transform {how!r}")


def _batch(x: Tensor) -> Tensor:
    return x if x.ndim == 2 else gt.reshape(x, (1, -1))


@register("LinearRegressor", domain=DOMAIN)
def _linear_regressor(op: Operation, x: Tensor) -> Tensor:
    n = int(op["targets"])
    weights = _numbers(op, "coefficients", "float32").reshape(n, -1)
    y = gt.matmul(_batch(x).astype("float32"), gt.constant(weights.T))
    bias = _numbers(op, "intercepts", "float32")
    return _transformed(y + bias if bias.size else y, op["post_transform"])


def _labels(op: Operation, strings: str, integers: str) -> np.ndarray[Any, Any]:
    """The classes; those that are strings by their numbers cannot be results."""
    if op[strings]:
        raise Refusal("classes that are strings: train the model on integers")
    return _numbers(op, integers, "int64")


def _classified(op: Operation, scores: Tensor, labels: np.ndarray[Any, Any]) -> tuple[Any, ...]:
    """The class of the largest score, and the probabilities; one score stands for two classes."""
    if scores.type.shape[1] == 1 and len(labels) == 2:
        how = op["post_transform"]
        positive = scores[:, 0] > (0.5 if how == "LOGISTIC" else 0)
        places = positive.astype("int64")
        p = _transformed(scores, how)
        other = 1 - p if how != "NONE" else -p
        return gt.constant(labels)[places], gt.concatenate([other, p], axis=1)
    places = gt.argmax(scores, axis=1)
    return gt.constant(labels)[places], _transformed(scores, op["post_transform"])


@register("LinearClassifier", domain=DOMAIN)
def _linear_classifier(op: Operation, x: Tensor) -> tuple[Any, ...]:
    labels = _labels(op, "classlabels_strings", "classlabels_ints")
    bias = _numbers(op, "intercepts", "float32")
    weights = _numbers(op, "coefficients", "float32")
    rows = len(bias) or len(labels)
    scores = gt.matmul(_batch(x).astype("float32"), gt.constant(weights.reshape(rows, -1).T))
    scores = scores + bias if bias.size else scores
    if rows == 1 and len(labels) == 2:
        raise Refusal("two classes with one row of coefficients")
    return _classified(op, scores, labels)


# Trees: all of them walk at once, a level a step, until every one is at a leaf.


COMPARED = {
    "BRANCH_LEQ": gt.less_equal,
    "BRANCH_LT": gt.less,
    "BRANCH_GTE": gt.greater_equal,
    "BRANCH_GT": gt.greater,
    "BRANCH_EQ": gt.equal,
    "BRANCH_NEQ": gt.not_equal,
}
"""The comparisons of a feature with a node's value."""


class Trees:
    """The nodes of an ensemble as arrays, where a leaf is followed by itself.

    Args:
        op: The node that has them as attributes.
    """

    def __init__(self, op: Operation) -> None:
        ids = [*zip(op["nodes_treeids"], op["nodes_nodeids"], strict=True)]
        self.place = {key: i for i, key in enumerate(ids)}
        self.modes = [str(x) for x in op["nodes_modes"]]
        if op["nodes_missing_value_tracks_true"] and any(op["nodes_missing_value_tracks_true"]):
            raise Refusal("missing values that go their own way")
        self.features = _numbers(op, "nodes_featureids", "int64")
        self.values = _numbers(op, "nodes_values", "float32")
        self.yes = self._following(ids, op["nodes_truenodeids"])
        self.no = self._following(ids, op["nodes_falsenodeids"])
        trees = list(dict.fromkeys(tree for tree, _ in ids))
        inner = {
            *self.yes[self.yes != np.arange(len(ids))],
            *self.no[self.no != np.arange(len(ids))],
        }
        roots = {ids[i][0]: i for i in range(len(ids)) if i not in inner}
        self.roots = np.array([roots[tree] for tree in trees])
        self.depth = self._depth()

    def _following(self, ids: list[Any], given: Any) -> np.ndarray[Any, Any]:
        pairs = zip(ids, given, self.modes, strict=True)
        return np.array(
            [self.place[key if mode == "LEAF" else (key[0], other)] for key, other, mode in pairs]
        )

    def _depth(self) -> int:
        """How many steps lead to the deepest leaf."""
        at = np.unique(self.roots)
        for depth in range(len(self.modes) + 1):
            following = np.unique(np.concatenate([self.yes[at], self.no[at]]))
            if np.array_equal(following, at):
                return depth
            at = following
        raise ValueError("the nodes of a tree go in a circle")

    def leaves(self, x: Tensor) -> Tensor:
        """The leaf that each row reaches in each tree, (rows, trees)."""
        kinds = sorted({mode for mode in self.modes if mode != "LEAF"})
        if unknown := [kind for kind in kinds if kind not in COMPARED]:
            raise Refusal(f"the comparison {unknown[0]!r}")
        arrays = [gt.constant(a) for a in (self.features, self.values, self.yes, self.no)]
        features, values, yes, no = arrays
        codes = gt.constant(np.array([*map([*kinds, "LEAF"].index, self.modes)]))
        n = length(x, 0)
        begin = gt.broadcast_to(gt.constant(self.roots), (n, len(self.roots)))

        def step(at: Tensor, _: None) -> tuple[Tensor, None]:
            feature = gt.take_along_axis(x, features[at], axis=1)
            goes = gt.zeros_like(feature, dtype="bool")
            for code, kind in enumerate(kinds):
                is_kind = gt.equal(codes[at], code)
                goes = gt.where(is_kind, COMPARED[kind](feature, values[at]), goes)
            return gt.where(goes, yes[at], no[at]), None

        found, _ = graphc.loop(step, begin, n_steps=self.depth)
        return found

    def table(self, op: Operation, kind: str, count: int) -> np.ndarray[Any, Any]:
        """What each leaf adds to each target or class."""
        found = np.zeros((len(self.modes), count), "float32")
        nodes = zip(op[f"{kind}_treeids"], op[f"{kind}_nodeids"], strict=True)
        places = np.array([self.place[key] for key in nodes])
        weights = _numbers(op, f"{kind}_weights", "float32")
        np.add.at(found, (places, _numbers(op, f"{kind}_ids", "int64")), weights)
        return found


@register("TreeEnsembleRegressor", domain=DOMAIN)
def _tree_regressor(op: Operation, x: Tensor) -> Tensor:
    trees, n = Trees(op), int(op["n_targets"])
    if n < 1 or n * len(trees.modes) > MOST:
        raise Refusal(f"{n} targets")
    each = gt.constant(trees.table(op, "target", n))[trees.leaves(_batch(x))]
    how = op["aggregate_function"]
    functions: dict[str, Any] = {"SUM": gt.sum, "AVERAGE": gt.mean, "MIN": gt.min, "MAX": gt.max}
    y = functions[how](each, axis=1)
    base = _numbers(op, "base_values", "float32")
    return _transformed(y + base if base.size else y, op["post_transform"])


MOST = 2**26
"""The most numbers of a table of leaves, 256 MB."""


@register("TreeEnsembleClassifier", domain=DOMAIN)
def _tree_classifier(op: Operation, x: Tensor) -> tuple[Any, ...]:
    labels = _labels(op, "classlabels_strings", "classlabels_int64s")
    trees = Trees(op)
    if len({*op["class_ids"]}) == 1 and len(labels) == 2:
        raise Refusal("two classes with the weights of one")
    each = gt.constant(trees.table(op, "class", len(labels)))[trees.leaves(_batch(x))]
    y = gt.sum(each, axis=1)
    base = _numbers(op, "base_values", "float32")
    return _classified(op, y + base if base.size else y, labels)


@register("OneHotEncoder", domain=DOMAIN)
def _one_hot(op: Operation, x: Tensor) -> Tensor:
    labels = _labels(op, "cats_strings", "cats_int64s")
    if not op["zeros"]:
        raise Refusal("zeros=0: a category that is unknown is an error")
    return gt.equal(gt.expand_dims(x, -1).astype("int64"), gt.constant(labels)).astype("float32")


@register("LabelEncoder", domain=DOMAIN)
def _label_encoder(op: Operation, x: Tensor) -> Tensor:
    kinds = {"int64s": "int64", "floats": "float32"}
    keys = next((_numbers(op, f"keys_{k}", d) for k, d in kinds.items() if op[f"keys_{k}"]), None)
    found = [(k, d) for k, d in kinds.items() if op[f"values_{k}"]]
    if keys is None or not found:
        raise Refusal("keys or values that are strings or tensors")
    kind, dtype = found[0]
    values = _numbers(op, f"values_{kind}", dtype)
    otherwise = op["default_int64" if kind == "int64s" else "default_float"]
    flat = gt.reshape(x, (prod(lengths(x)),))
    is_key = gt.equal(gt.expand_dims(flat, 1), gt.constant(keys))
    chosen = gt.constant(values)[gt.argmax(is_key, axis=1)]
    y = gt.where(gt.any(is_key, axis=1), chosen, np.array(otherwise, dtype))
    return gt.reshape(y, tuple(lengths(x)))
