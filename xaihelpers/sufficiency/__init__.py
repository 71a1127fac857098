"""Do concepts suffice to name the class? The Fast and Slow Effect and its Class Representation Index (paper fse)."""
from .annotated import UNKNOWN, annotated_chain, label_chains
from .cases import CANDIDATES, Cases, draw_cases, neighbours_in, similarity_dictionary
from .chains import STAGES, STEP_MARK, cut_reasoning, first_stages, names_class, parse_chain, parse_list, reasoning_steps
from .questions import LETTERS, THE_IMAGE, choice, cri_table, decide, gather_chains, letter_of, paper_names

__all__ = ["CANDIDATES", "LETTERS", "STAGES", "STEP_MARK", "THE_IMAGE", "UNKNOWN", "Cases", "annotated_chain", "choice", "cri_table", "cut_reasoning", "decide", "draw_cases", "first_stages",
           "gather_chains", "label_chains", "letter_of", "names_class", "neighbours_in", "paper_names", "parse_chain", "parse_list", "reasoning_steps", "similarity_dictionary"]
