"""Each kernel beside the obvious way, in one run on one device: notebook 81.

All paths of a race get the same inputs, drawn at random and anew for each round. What they return is compared
in every round, and once before anything is timed. They take turns, and another one begins each round. What
is reported are medians over the rounds: of seconds, and of the ratios within a round.
"""

import math
import time
from collections.abc import Callable
from functools import partial

import joblib
import numpy as np
import pandas as pd
import scipy.stats
import torch
import torch.nn.functional as F
import torchvision
from sklearn.svm import SVC

try:
    from pytorch_grad_cam import GradCAM
    from pytorch_grad_cam.utils.model_targets import ClassifierOutputTarget
    from torchcam.methods import GradCAM as TorchCAM
except ImportError as error:
    message = f"{error.name} is missing: the extra bench has it, pip install -c constraints.txt -e '.[bench]'"
    raise ImportError(message) from error

from xaihelpers import bottlenecks, datasets, models, saliency
from xaihelpers.devices import describe_device
from xaihelpers.kernels.coam import location_rank
from xaihelpers.kernels.linear_svm import linear_svm
from xaihelpers.kernels.tie import tie, tie_reference
from xaihelpers.masks import upsample_maps

COLUMNS = ["device", "op", "path", "data", "metric", "value", "low", "high"]
ALPHA = (1, 3, 6)  # sizes of the region in twelfths of the picture
SVM_C = (0.001, 0.01, 0.1, 1.0, 10.0)  # penalties of each concept
SHORT = 4  # times as many rounds of what takes milliseconds


def largest_difference(ours, theirs):
    return (ours.float() - theirs.float()).abs().max()


def _synchronise(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def race(
    op: str, data: str, draw: Callable, rounds: int, device: torch.device, tolerance: float
) -> list[dict]:
    """Rows of a race: seconds of every path, and how many times as fast as each other one the first is.

    draw: function that draws inputs; returns path -> function without arguments, and the distance between
        what the first path and another one return.
    Returns dicts with op, path, data, metric, value and `rounds`, all the values that the median is of.
    Raises RuntimeError where the distance is more than `tolerance`, ValueError for no round.
    """
    if rounds < 1:
        raise ValueError(f"rounds must be 1 or more, got {rounds}")
    seconds = {}
    for number in range(rounds + 1):
        calls, distance = draw()
        first, *others = calls
        taken, results = {}, {}
        for path in np.roll(list(calls), number).tolist():  # each is first, and last, as often
            _synchronise(device)  # a GPU's queued work is waited for
            start = time.perf_counter()
            results[path] = calls[path]()
            _synchronise(device)
            taken[path] = time.perf_counter() - start
        for path in others:
            apart = float(distance(results[first], results[path]))
            if not apart <= tolerance:  # NaN is no agreement
                raise RuntimeError(f"{op}: {first} and {path} differ by {apart:.3g}, more than {tolerance}")
        if number:  # the first one loads what is compiled
            for path in calls:
                seconds.setdefault(path, []).append(taken[path])
    about = {"op": op, "data": data}
    found = [about | {"path": path, "metric": "seconds", "rounds": of} for path, of in seconds.items()]
    for path in others:
        ratios = np.divide(seconds[path], seconds[first])
        row = {"path": f"{first} against {path}", "metric": "speed-up", "rounds": ratios}
        found.append(about | row)
    return [row | {"value": np.median(row["rounds"])} for row in found]


def median_interval(values) -> tuple[float, float]:
    """The two values between which the median of what they are drawn from lies, in 95 % of cases or more.

    Of fewer than six values, the smallest and the largest one: 94 % for five, 75 % for three.
    """
    ordered = np.sort(values)
    place = max(1, int(scipy.stats.binom.ppf(0.025, len(ordered), 0.5)))
    return float(ordered[place - 1]), float(ordered[-place])


def table(rows: list[dict], device: torch.device) -> pd.DataFrame:
    """Rows of races with the device's name, and with the interval of each median: columns `COLUMNS`."""
    frame = pd.DataFrame(rows).assign(device=describe_device(device))
    frame[["low", "high"]] = [median_interval(values) for values in frame["rounds"]]
    return frame[COLUMNS]


def side_by_side(measured: pd.DataFrame) -> pd.DataFrame:
    """The speed-ups of a table of races, each with what it compares.

    measured: as of `table`, of one device. Returns its rows of speed-ups with the further columns `here` and
        `peer`, the two paths, `ms here` and `ms peer`, their medians, and `name`, in words.
    """
    ratios = measured[measured.metric == "speed-up"].reset_index(drop=True)
    ratios[["here", "peer"]] = ratios.path.str.split(" against ", expand=True).to_numpy()
    ratios["name"] = ratios.op + " (" + ratios.data + ")\nagainst " + ratios.peer
    seconds = measured[measured.metric == "seconds"].set_index(["op", "data", "path"]).value
    for side in ("here", "peer"):
        keys = list(zip(ratios.op, ratios.data, ratios[side], strict=True))
        ratios[f"ms {side}"] = 1e3 * seconds.loc[keys].to_numpy()
    return ratios


def race_clock(repeats, device, size=1 << 20):
    """Work whose ratio is known: a sort, the same once more, and twice the same."""

    def draw():
        values = torch.rand(size, device=device)
        once = partial(torch.sort, values)
        calls = {"once": once, "once more": once, "twice": lambda: (once(), once())[1]}
        return calls, lambda ours, theirs: largest_difference(ours.values, theirs.values)

    return race("clock", "random", draw, SHORT * repeats, device, tolerance=0)


def race_location(repeats, device, n_maps=2500, side=224, alpha=ALPHA):
    """Is a point among the highest pixels of a map? By its rank, or by selecting them with torch's top-k."""
    counts = [a * side**2 // 12 for a in alpha]

    def draw():
        maps, points = torch.randn(n_maps, 7, 7, device=device), torch.rand(n_maps, 2, device=device) * side
        calls = {"kernel": partial(by_rank, maps, points)}
        for some in (counts[:1], counts):
            asked = ", ".join(map(str, alpha[: len(some)]))
            calls[f"top-k, α = {asked}"] = partial(by_selection, maps, points, some)
        return calls, share_of_other_hits

    def by_rank(maps, points):
        rank = location_rank(maps, points, (side, side))  # (P,)
        return rank[:, None] < torch.tensor(counts, device=device)

    def by_selection(maps, points, counts):
        pixels = F.interpolate(maps[:, None], (side, side), mode="bilinear", align_corners=False).flatten(1)
        pixel = points[:, 1].long() * side + points[:, 0].long()  # (P,), row by row
        regions = (pixels.topk(count, dim=1, sorted=False).indices for count in counts)
        return torch.stack([(region == pixel[:, None]).any(1) for region in regions], 1)

    def share_of_other_hits(ours, theirs):
        return (ours[:, : theirs.shape[1]] != theirs).float().mean()

    # interpolated in float64 here, in float32 there: a point may tie with the last pixel of a region
    return race("location", "random", draw, repeats, device, tolerance=max(1e-3, 1.01 / n_maps))


def planted_samples(n_concepts=112, n_samples=200, n_features=512):
    """Rectified noise (B, n, d); half of each problem is shifted along a direction, the rest against it."""
    signs = torch.ones(n_samples, 1)
    signs[n_samples // 2 :] = -1
    shift = 0.1 * torch.randn(n_concepts, 1, n_features) * signs
    return (torch.randn(n_concepts, n_samples, n_features) + shift).relu()


def samples_of(data, labels, backbone, weights, device, n_concepts, n_samples):
    """A function that draws features (B, 2 n_samples, d) of a data set, first those with the concept."""
    world = datasets.load(data, attributes=labels)
    train = world.train.nonzero()[:, 0].numpy()
    network = models.load_backbone(backbone, weights, "", device)
    pooled = models.extract_features(network, world.images.path.iloc[train], maps=False).pooled
    present = datasets.concept_labels(world, datasets.cbm_concepts().name)[train]

    def draw():
        drawn = bottlenecks.concept_samples(present, n_samples, int(torch.randint(2**31, ())))
        return pooled[drawn.rows[:n_concepts]]

    return draw


def race_svms(repeats, device, draw_samples=planted_samples, data="planted", penalties=SVM_C):
    """A plane for every concept and penalty: all at once, or by scikit-learn's SVC, a thread's worth each.

    draw_samples: function that draws features (B, n, d) on the CPU, of each problem first n/2 positive ones.
    SVC runs in as many processes as torch has threads here.
    """
    penalties = list(penalties)

    def draw():
        samples = draw_samples()
        signs = torch.ones(samples.shape[:2])
        signs[:, samples.shape[1] // 2 :] = -1
        at_once = partial(linear_svm, samples.to(device), signs.to(device), penalties)
        one_by_one = partial(by_sklearn, samples.numpy(), signs.numpy())
        return {"kernel": at_once, "SVC by joblib": one_by_one}, partial(share_of_the_range, samples)

    def of_one_concept(samples, signs):
        fits = [SVC(kernel="linear", C=c).fit(samples, signs) for c in penalties]
        return np.concatenate([fit.coef_ for fit in fits]), np.concatenate([fit.intercept_ for fit in fits])

    def by_sklearn(samples, signs):
        tasks = [joblib.delayed(of_one_concept)(*both) for both in zip(samples, signs, strict=True)]
        planes = joblib.Parallel(n_jobs=torch.get_num_threads())(tasks)
        return [torch.from_numpy(np.stack(part)) for part in zip(*planes, strict=True)]

    def decision_values(samples, planes):
        normals, intercepts = (part.cpu().double() for part in planes[:2])
        return torch.einsum("bnd,bcd->bcn", samples.double(), normals) + intercepts[:, :, None]

    def share_of_the_range(samples, ours, theirs):
        values, peer = decision_values(samples, ours), decision_values(samples, theirs)
        share = (values - peer).abs().amax(2) / (peer.amax(2) - peer.amin(2))
        return share.max() if ours.converged.all() else math.inf

    # SVC ends where no condition is violated by more than 0.001 of the margin; with fewer dimensions than
    # samples, decision values may then still be several times as far from the optimum's
    return race("SVMs", data, draw, repeats, device, tolerance=1e-2)


def gradcam_model(device):
    """A ResNet-18 with random weights, which cost as much as trained ones."""
    return torchvision.models.resnet18(weights=None).to(device).eval()


def gradcam_paths(model, device, n_images=24, side=224):
    """Paths to Grad-CAM of a batch drawn at random, path -> function, and the distance of their maps."""
    body = torch.nn.Sequential(*list(model.children())[:-2])  # up to layer4, before the mean and the head
    images = torch.randn(n_images, 3, side, side, device=device)
    with torch.no_grad():
        classes = model(images).argmax(1)
    targets = [ClassifierOutputTarget(label) for label in classes.tolist()]

    def here():
        return saliency.attention_maps(model, images, "gradcam", classes, "layer4").maps

    def by_grad_cam():
        with GradCAM(model=model, target_layers=[model.layer4]) as peer:
            return torch.from_numpy(peer(images, targets))

    def by_torch_cam():
        with TorchCAM(model, "layer4") as peer:
            return peer(classes.tolist(), model(images))[0]

    def bare_passes():
        """The layer's maps and the gradients of the classes' scores by them, (N, d, h, w) each."""
        with torch.no_grad():
            maps = body(images)
        score = model.fc(maps.requires_grad_().mean((2, 3))).gather(1, classes[:, None]).sum()
        return maps.detach(), torch.autograd.grad(score, maps)[0]

    def lack_of_correlation(ours, theirs):
        if isinstance(theirs, tuple):  # the passes: Grad-CAM's equation is what is left to do
            maps, gradients = theirs
            theirs = torch.einsum("nd,ndhw->nhw", gradients.mean((2, 3)), maps).relu()
        resized = upsample_maps(ours, theirs.shape[1:])
        pairs = torch.stack([resized, theirs.to(ours)], 1).flatten(2)  # (N, 2, pixels)
        return max(1 - torch.corrcoef(pair)[0, 1] for pair in pairs)

    calls = {"here": here, "grad-cam": by_grad_cam, "torch-cam": by_torch_cam, "bare passes": bare_passes}
    return calls, lack_of_correlation


def race_gradcam(repeats, device, n_images=24, side=224):
    """Grad-CAM of a batch: here, by its peers, and the passes alone that no path can do without."""
    draw = partial(gradcam_paths, gradcam_model(device), device, n_images, side)
    return race("Grad-CAM", "ResNet-18", draw, repeats, device, tolerance=1e-3)


def race_tie(repeats, device, n_pairs=8, n_tokens=4096, compiled=False):
    """Predictions of pairs, of FLUX's size, tied: by selecting the percentile, or by sorting for it.

    compiled: whether `torch.compile` of the sorting races as well, which needs a compiler and half a minute.
    """
    by_sorting = {"torch.quantile, where": tie_reference}
    if compiled:
        by_sorting["torch.compile of that"] = torch.compile(tie_reference)

    def draw():
        both = torch.randn(2 * n_pairs, n_tokens, 64, device=device)
        calls = {"kernel": tie} | by_sorting
        return {path: partial(call, both, 0.7) for path, call in calls.items()}, largest_difference

    return race("tie", "random", draw, SHORT * repeats, device, tolerance=0)
