"""Birds in CUB-200-2011's format: tables, labels, parts, images, and the download of the real ones."""
from .download import download_cub
from .images import crop_to_box, image_sizes, image_tensor, load_image, part_mask_path, part_points, place_points, portrait
from .labels import class_concepts, concept_labels, image_attributes
from .names import BirdsError, cbm_concepts, class_name, normalise_attribute, parts_of, phrase, plain_name, plain_value, with_article
from .reading import Birds, class_label, load_birds, part_index

__all__ = ["Birds", "BirdsError", "cbm_concepts", "class_concepts", "class_label", "class_name", "concept_labels", "crop_to_box", "download_cub",
           "image_attributes", "image_sizes", "image_tensor", "load_birds", "load_image", "normalise_attribute",
           "part_index", "part_mask_path", "part_points", "parts_of", "phrase", "place_points", "plain_name", "plain_value", "portrait", "with_article"]
