"""Tied Diffusion Guidance: one attribute of a generated image substituted, on any diffusers pipeline."""
from .asking import ask_groups, is_answered
from .files import Job, generate_files
from .folder import read_sub, write_sub
from .generate import T_MAX, Moment, Substituted, decode, generate, generate_pairs, load_pipeline, substitute
from .prompts import SubstituteError, category, check_pair, pair_prompts
from .reader import AttributeReader, Read, is_shown, load_reader, plumage_kept, read, touched_groups
from .tied import tied_scheduler, tied_share

__all__ = ["AttributeReader", "Job", "T_MAX", "Moment", "Read", "SubstituteError", "Substituted", "ask_groups", "category", "check_pair", "decode", "generate", "generate_files", "generate_pairs", "is_answered", "is_shown", "load_pipeline", "load_reader", "pair_prompts",
           "plumage_kept", "read", "read_sub", "substitute", "tied_scheduler", "tied_share", "touched_groups", "write_sub"]
