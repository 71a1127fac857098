"""The five papers: title, what their numbers were measured on, the question that each of them asks."""

import pandas as pd

TITLES = {
    "alignment": "Concept-Based Explainable AI: Metrics and Benchmarks",
    "conceptscore": "Evaluating the Unseen",
    "fse": "Are Large Language Models Good XAI Annotators?",
    "autoxplain": "A Novel Framework for Automated Explain Vision Model Using Vision-Language Models",
    "sub": "SUB: Benchmarking CBM Generalization via Synthetic Attribute Substitutions",
}
PRINTED_ON = {
    "alignment": "CUB-200-2011 · ResNet-18",
    "conceptscore": "CUB-200-2011, CIFAR · Long-CLIP",
    "fse": (
        "CUB, Cars, Flowers, CIFAR-100, Caltech-101, ImageNet · "
        "GPT-4o, Llama-3.2-vision, Qwen2-VL, DeepSeek-R1"
    ),
    "autoxplain": "",
    "sub": "CUB-200-2011, SUB · FLUX.1-dev, InternVL-2.5-8B",
}
QUESTIONS = {
    "alignment": (
        "Do the concepts that a bottleneck model calls important exist in the picture, lie where "
        "the model looks, and agree with what people say about the classes?"
    ),
    "conceptscore": (
        "Can the concepts that a model gives as its reasons be scored without concept labels, "
        "and does the score agree with people?"
    ),
    "fse": "Does what a language model writes about an image say enough to recognise it by?",
    "autoxplain": "Can a vision-language model judge where a vision model looks, and so find biased models?",
    "sub": "Does a bottleneck model still read an attribute right when it is one that the species never has?",
}
# tens: the first digit of the numbers of the notebooks that repeat a paper
PAPERS = pd.DataFrame({"title": TITLES, "printed on": PRINTED_ON, "question": QUESTIONS})
PAPERS["tens"] = list("12345")
