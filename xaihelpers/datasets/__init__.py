"""The one door to images and what is known of them: `load(name or path)`."""

from xaihelpers.datasets.attribute_names import (
    cbm_concepts,
    find_attributes,
    group_of,
    known_attribute,
    normalise_attribute,
    parts_of,
    phrase,
    plain_name,
    plain_value,
    with_article,
)
from xaihelpers.datasets.cub import class_label
from xaihelpers.datasets.dataset import Dataset, DatasetError, class_name
from xaihelpers.datasets.images import as_seen, boxes, crop_to_box, image_sizes, load_image, part_points
from xaihelpers.datasets.labels import choose_concepts, class_concepts, concept_labels, image_attributes
from xaihelpers.datasets.loading import DRAWN, load
from xaihelpers.datasets.part_masks import with_part_masks
from xaihelpers.datasets.sub_benchmark import write_sub
from xaihelpers.datasets.wordnet_names import imagenet_names
