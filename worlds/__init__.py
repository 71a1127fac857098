"""Drawn worlds: the aviary and the everyday world, in CUB-200-2011's format with the mask of every part."""

from worlds.cub_writer import DrawnImage, ensure_world, save_drawn_image, write_tables
