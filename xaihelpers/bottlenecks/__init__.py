"""Concept bottleneck models: images in, `ConceptOutputs` out."""

from xaihelpers.bottlenecks.cbm import ConceptBottleneck, fit_cbm
from xaihelpers.bottlenecks.cem import ConceptEmbeddingModel, fit_cem
from xaihelpers.bottlenecks.head import fit_head
from xaihelpers.bottlenecks.labelfree import cubed_similarity, filter_concepts, fit_labelfree_cbm
from xaihelpers.bottlenecks.posthoc import PosthocCBM, concept_samples, fit_posthoc_cbm, posthoc_cbm
from xaihelpers.bottlenecks.sparse import elastic_net_head
