"""Drawings of graphs: pages to pan, zoom and open, files of SVG and dot."""
