"""Tied Diffusion Guidance: one attribute of a generated image substituted, on any diffusers pipeline."""
from .asking import ask_groups, group_values, is_answered
from .exact import Exact, exact, portrait
from .files import Job, generate_files
from .folder import read_sub, write_sub
from .generate import T_MAX, Moment, Substituted, decode, generate, generate_pairs, load_pipeline, paper_tie, restored, substitute
from .prompts import SubstituteError, can_take, category, check_pair, class_has, group_of, pair_prompts
from .reader import AttributeReader, Read, is_shown, load_reader, plumage_kept, read, touched_groups
from .tied import tied_scheduler, tied_share

__all__ = ["AttributeReader", "Exact", "Job", "T_MAX", "Moment", "Read", "SubstituteError", "Substituted", "ask_groups", "can_take", "category", "check_pair", "class_has", "decode", "exact", "generate", "generate_files", "generate_pairs", "group_of",
           "group_values", "is_answered", "is_shown", "load_pipeline", "load_reader", "pair_prompts", "paper_tie", "plumage_kept", "portrait", "read", "read_sub", "restored", "substitute", "tied_scheduler", "tied_share", "touched_groups", "write_sub"]
