"""Words and pairs of letters of a text counted, its longest run found, and its hash."""

from __future__ import annotations

import re
from collections import Counter
from itertools import groupby, pairwise
from typing import Any

import numpy as np

import graphc
import graphc.tensor as pt

TEXT = "  bananas 123 abc9 9x   zoo, anna's  "


def program() -> list[Any]:
    letters = pt.vector("letters", dtype="uint8")
    between, word, number = (pt.constant(i) for i in range(3))

    def read(c: Any, state: Any, words: Any) -> Any:
        is_blank, is_digit = pt.eq(c, ord(" ")), (c >= ord("0")) & (c <= ord("9"))
        after = graphc.switch_case(
            state,
            [
                lambda: pt.where(is_blank, between, pt.where(is_digit, number, word)),
                lambda: pt.where(is_blank, between, word),
                lambda: pt.where(is_blank, between, number),
            ],
        )
        return after, words + (pt.eq(state, 0) & pt.eq(after, 1))

    states, words = graphc.scan(read, letters, outputs_info=[between, 0])
    pairs = graphc.reduce(
        lambda a, b, table: table[a, b].inc(1),
        [letters[:-1], letters[1:]],
        outputs_info=pt.zeros((128, 128), dtype="int64"),
    )
    runs = graphc.scan(
        lambda last, now, length: pt.where(pt.eq(last, now), length + 1, 1),
        sequences={"input": letters, "taps": [-1, 0]},
        outputs_info=1,
    )
    hashed = graphc.reduce(lambda c, h: (h ^ c) * 16777619, letters.astype("uint32"), 2166136261)
    f = graphc.function([letters], [states, words[-1], pairs, runs.max(), hashed])
    return list(f(np.frombuffer(TEXT.encode(), "uint8")))


def expected() -> list[Any]:
    table = np.zeros((128, 128), int)
    for (a, b), count in Counter(pairwise(TEXT)).items():
        table[ord(a), ord(b)] = count
    longest = max(len([*same]) for _, same in groupby(TEXT))
    hashed = 2166136261
    for c in TEXT.encode():
        hashed = (hashed ^ c) * 16777619 % 2**32
    parts = re.findall(" +|[^ ]+", TEXT)
    kinds = [0 if part[0] == " " else 1 + part[0].isdigit() for part in parts]
    states = np.repeat(kinds, [len(part) for part in parts])
    return [states, kinds.count(1), table, longest, hashed]
