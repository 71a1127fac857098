"""Concept bottleneck models: images in, concept values out, and a head that decides from them alone.

Whatever the model, what it says of a batch of images is one `ConceptOutputs`; every concept metric takes that and nothing else.
"""
from .cbm import ConceptBottleneck, fit_cbm
from .cem import ConceptEmbeddingModel, fit_cem
from .head import fit_head
from .labelfree import LabelFreeCBM, cubed_similarity, filter_concepts, fit_labelfree_cbm
from .outputs import ConceptOutputs, check_names, read_outputs, save_outputs
from .posthoc import ConceptSamples, PosthocCBM, add_residual, concept_samples, concept_values, fit_posthoc_cbm, posthoc_cbm_from_text
from .sparse import PenaltyPath, elastic_net_path, largest_penalty

__all__ = ["ConceptBottleneck", "ConceptEmbeddingModel", "ConceptOutputs", "ConceptSamples", "LabelFreeCBM", "PenaltyPath", "PosthocCBM", "add_residual",
           "check_names", "concept_samples", "concept_values", "cubed_similarity", "elastic_net_path", "filter_concepts", "fit_cbm", "fit_cem", "fit_head",
           "fit_labelfree_cbm", "fit_posthoc_cbm", "largest_penalty", "posthoc_cbm_from_text", "read_outputs", "save_outputs"]
