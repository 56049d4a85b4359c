"""Padding: graphs whose lengths are unknown become graphs of padded arrays (``graph.py``)."""
