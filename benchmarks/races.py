"""Each kernel beside the obvious way, in one run on one device: `python benchmarks/races.py`.

All paths of a race get the same inputs, drawn at random. What they return is compared before anything is
timed; then they take turns, and the median of the rounds is reported with the fastest and the slowest one.
"""

import argparse
import inspect
import itertools
import math
import os
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path
from unittest import mock

import joblib
import numpy as np
import pandas as pd
import psutil
import torch
import torch.nn.functional as F
import torchvision
from sklearn.svm import SVC

try:
    from pytorch_grad_cam import GradCAM
    from pytorch_grad_cam.utils.model_targets import ClassifierOutputTarget
except ImportError as error:
    raise SystemExit("grad-cam is missing: install the extra bench, pip install -e '.[bench]'") from error

from xaihelpers import ask, saliency
from xaihelpers.devices import resolve_device
from xaihelpers.kernels.coam import location_rank
from xaihelpers.kernels.linear_svm import linear_svm
from xaihelpers.kernels.masking import mask_images, upsample_maps
from xaihelpers.kernels.tie import tie, tie_reference
from xaihelpers.timing import describe_device, time_in_turns

COLUMNS = ["device", "op", "path", "data", "metric", "value", "low", "high"]
SVM_C = [0.001, 0.01, 0.1, 1.0, 10.0]  # penalties of each concept
SHORT = 4  # times as many rounds of what takes milliseconds


def largest_difference(ours, theirs):
    return (ours.float() - theirs.float()).abs().max()


def race(op, data, calls, rounds, device, tolerance, distance=largest_difference):
    """Rows of a race: seconds of every path, and how many times as fast as each other one the first is.

    distance: between what the first path and another one return.
    Raises RuntimeError, and times nothing, where it is more than `tolerance`.
    """
    results = {path: call() for path, call in calls.items()}
    first, *others = calls
    for path in others:
        difference = float(distance(results[first], results[path]))
        if not difference <= tolerance:  # NaN is no agreement
            raise RuntimeError(f"{op}: {first} and {path} differ by {difference:.3g}, more than {tolerance}")
    del results
    seconds, _ = time_in_turns(calls, rounds, device)
    rows = [(op, path, data, "seconds", np.median(seconds[path]), seconds[path]) for path in calls]
    for path in others:
        gain = np.median(seconds[path]) / np.median(seconds[first])
        ratios = np.divide(seconds[path], seconds[first])
        rows.append((op, f"{first} against {path}", data, "speed-up", gain, ratios))
    return rows


def race_location(repeats, device, n_maps=2500, side=224):
    """Is a point among the highest pixels of a map? By its rank, or by selecting them with torch's top-k."""
    maps, points = torch.randn(n_maps, 7, 7, device=device), torch.rand(n_maps, 2, device=device) * side
    counts = [alpha * side**2 // 12 for alpha in (1, 3, 6)]

    def by_rank():
        rank = location_rank(maps, points, (side, side))  # (P,)
        return rank[:, None] < torch.tensor(counts, device=device)

    def by_selection(counts):
        pixels = F.interpolate(maps[:, None], (side, side), mode="bilinear", align_corners=False).flatten(1)
        pixel = points[:, 1].long() * side + points[:, 0].long()  # (P,), row by row
        regions = (pixels.topk(count, dim=1, sorted=False).indices for count in counts)
        return torch.stack([(region == pixel[:, None]).any(1) for region in regions], 1)

    def share_of_other_hits(ours, theirs):
        return (ours[:, : theirs.shape[1]] != theirs).float().mean()

    alone, every = partial(by_selection, counts[:1]), partial(by_selection, counts)
    calls = {"kernel": by_rank, "top-k, α = 1": alone, "top-k, α = 1, 3, 6": every}
    # interpolated in float64 here, in float32 there: a point may tie with the last pixel of a region
    return race("location", "random", calls, repeats, device, 1e-3, share_of_other_hits)


def sklearn_svms(samples, signs):
    """Decision planes of one concept for each penalty: normals (c, d) and intercepts (c,)."""
    fits = [SVC(kernel="linear", C=c).fit(samples, signs) for c in SVM_C]
    return np.concatenate([fit.coef_ for fit in fits]), np.concatenate([fit.intercept_ for fit in fits])


def race_svms(repeats, device, n_concepts=112, n_samples=200, n_features=512):
    """A plane for every concept and penalty: all at once, or by scikit-learn's SVC on all cores."""
    signs = torch.ones(n_concepts, n_samples)
    signs[:, n_samples // 2 :] = -1
    planted = 0.1 * torch.randn(n_concepts, 1, n_features) * signs[:, :, None]
    samples = (torch.randn(n_concepts, n_samples, n_features) + planted).relu()  # (B, n, d)
    on_device, arrays = (samples.to(device), signs.to(device)), (samples.numpy(), signs.numpy())
    cores = joblib.cpu_count()

    def by_sklearn():
        tasks = [joblib.delayed(sklearn_svms)(*problem) for problem in zip(*arrays, strict=True)]
        planes = joblib.Parallel(n_jobs=cores)(tasks)
        return [torch.from_numpy(np.stack(part)) for part in zip(*planes, strict=True)]

    def decision_values(planes):
        normals, intercepts = (part.cpu().double() for part in planes[:2])
        return torch.einsum("bnd,bcd->bcn", samples.double(), normals) + intercepts[:, :, None]

    def share_of_the_range(ours, theirs):
        values, peer = decision_values(ours), decision_values(theirs)
        share = (values - peer).abs().amax(2) / (peer.amax(2) - peer.amin(2))
        return share.max() if ours.converged.all() else math.inf

    calls = {"kernel": partial(linear_svm, *on_device, SVM_C), f"SVC, {cores} × joblib": by_sklearn}
    return race("SVMs", "planted", calls, repeats, device, 1e-3, share_of_the_range)


def race_gradcam(repeats, device, n_images=24, side=224):
    """Grad-CAM of a batch: here, by grad-cam, and the passes alone that no path can do without."""
    model = torchvision.models.resnet18(weights=None).to(device).eval()
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

    calls = {"here": here, "grad-cam": by_grad_cam, "bare passes": bare_passes}
    return race("Grad-CAM", "ResNet-18", calls, repeats, device, 1e-3, lack_of_correlation)


def race_tie(repeats, device, n_pairs=8, n_tokens=4096):
    """Predictions of pairs, of FLUX's size, tied: by selecting the percentile, or by sorting for it."""
    both = torch.randn(2 * n_pairs, n_tokens, 64, device=device)
    calls = {"kernel": partial(tie, both, 0.7), "torch.quantile, where": partial(tie_reference, both, 0.7)}
    return race("tie", "random", calls, SHORT * repeats, device, tolerance=0)


def race_mask(repeats, device, n_images=24, side=224):
    """Pictures through their maps: by `mask_images`, or by equation 1 of autoxplain as it is written."""
    images = torch.randint(0, 256, (n_images, 3, side, side), dtype=torch.uint8, device=device)
    maps = torch.rand(n_images, 7, 7, device=device)

    def plain():
        values = F.interpolate(maps[:, None], (side, side), mode="bilinear", align_corners=False)
        return (images * torch.sigmoid(25 * (values - 0.4))).round().to(torch.uint8)

    calls = {"kernel": partial(mask_images, images, maps), "plain torch": plain}
    return race("mask", "random", calls, SHORT * repeats, device, tolerance=1)  # of 255


def serve(latency, limit):
    """An OpenAI-compatible server that waits before each answer, and refuses what comes above the limit."""
    import http.server  # here, since another process runs the text of this function
    import threading
    import time

    places = threading.Semaphore(limit)
    body = '{"choices": [{"finish_reason": "stop", "message": {"role": "assistant", "content": "A"}}]}'
    head = f"content-type: application/json\r\ncontent-length: {len(body)}"

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self):
            self.rfile.read(int(self.headers["content-length"]))
            taken = places.acquire(blocking=False)
            if taken:
                time.sleep(latency)
                places.release()
            status = "200 OK" if taken else "429 Too Many Requests"
            self.wfile.write(f"HTTP/1.1 {status}\r\n{head}\r\n\r\n{body}".encode())

    http.server.ThreadingHTTPServer.request_queue_size = 128  # of 5, some would connect a second later
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    print(server.server_port, flush=True)
    server.serve_forever()


def race_asking(repeats, device, n_requests=320, limit=16, latency=0.5):
    """Requests to a server that does nothing but wait, beside the least time that it needs for them."""
    numbers = itertools.count()
    command = [sys.executable, "-c", f"{inspect.getsource(serve)}\nserve({latency}, {limit})"]

    def ask_all(count=n_requests):
        questions = [ask.request(f"question {next(numbers)}", options="ABCDE") for _ in range(count)]
        answers = ask.ask(model, questions, progress=False)
        if any(answer.text != "A" or answer.cached for answer in answers):
            raise RuntimeError("asking: an answer is not the server's")

    with tempfile.TemporaryDirectory() as folder, subprocess.Popen(command, stdout=subprocess.PIPE) as server:
        address = f"http://127.0.0.1:{int(server.stdout.readline())}/v1"
        variables = {"OPENAI_BASE_URL": address, "OPENAI_API_KEY": "none", "XAI_DATA": folder}
        try:
            with mock.patch.dict(os.environ, variables):
                model = ask.load_vlm("server:m")
                ask_all(limit)
                seconds = time_in_turns({"server": ask_all}, repeats, device)[0]["server"]
        finally:
            server.kill()
    ideal, path = math.ceil(n_requests / limit) * latency, f"server, {limit} at a time"
    times = np.divide(seconds, ideal)
    return [
        ("asking", path, "none", "seconds", np.median(seconds), seconds),
        ("asking", "ideal", "none", "seconds", ideal, [ideal]),
        ("asking", path, "none", "times the ideal time", np.median(times), times),
    ]


RACES = [race_location, race_svms, race_gradcam, race_tie, race_mask, race_asking]


def main(arguments: list[str] | None = None) -> int:
    """The command line; returns the exit code: 0, or 2 if the device is not there."""
    parser = argparse.ArgumentParser(prog="python benchmarks/races.py", description=__doc__)
    parser.add_argument("--device", default="auto", help="auto, cpu or cuda (default: %(default)s)")
    parser.add_argument("--repeats", type=int, default=5, help="rounds of each race (default: %(default)s)")
    parser.add_argument("--out", type=Path, default=os.devnull, help="file for the rows as CSV")
    options = parser.parse_args(arguments)
    try:
        device = resolve_device(options.device)
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    if options.repeats < 1 or not options.out.parent.is_dir():
        parser.error("--repeats must be 1 or more, and the folder of --out must be there")
    name = describe_device(device)
    print(f"{name}, load at the start {psutil.getloadavg()[0]:.1f}", flush=True)
    torch.manual_seed(0)
    rows = [row for run_race in RACES for row in run_race(options.repeats, device)]
    table = pd.DataFrame(rows, columns=["op", "path", "data", "metric", "value", "rounds"])
    table = table.assign(device=name, low=table.rounds.map(min), high=table.rounds.map(max))[COLUMNS]
    print(table.drop(columns="device").to_string(index=False, float_format="{:.4g}".format))
    table.to_csv(options.out, index=False, float_format="%.6g")
    return 0


if __name__ == "__main__":
    sys.exit(main())
