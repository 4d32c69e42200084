"""How the points of the test set lie: the histogram of similarities and the map of the embedding, for a report."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from equipoise.data.source import has_modalities
from equipoise.evaluation.encoding import Encoded
from equipoise.evaluation.subsets import subset_codes
from equipoise.io.figures import svg
from equipoise.models.modal_model import ModalModel
from equipoise.reports.embedding_map import LINES, Sample, draw_map, make_map, sample_pairs
from equipoise.reports.held_out import HeldOut
from equipoise.reports.modal_map import JOINT, ModalMap, draw_modal_map, make_modal_map
from equipoise.reports.similarities import Histogram, draw_histogram, similarity_histogram

HISTOGRAM, MAP, MODAL_MAP = "Similarities", "Map of the embedding", "Map of the modalities"


@dataclass(frozen=True)
class SpaceData:
    """What the charts are drawn of; small, whatever the size of the test set."""

    histogram: Histogram | None = None
    sample: Sample | None = None
    map: str = "pca"
    modalities: ModalMap | None = None

    def charts(self) -> list[dict[str, Any]]:
        """Titles, notes and pictures, as the template shows them."""
        found = []
        if self.histogram:
            note = f"The less the two overlap, the better pairs are told apart. {self.histogram.sample}"
            found.append(_chart(HISTOGRAM, note, svg(draw_histogram(self.histogram), HISTOGRAM)))
        if self.sample:
            picture = svg(draw_map(make_map(self.sample, self.map)), MAP)
            found.append(_chart(MAP, f"{self._method()} {_drawn(self.sample)}", picture))
        if self.modalities:
            note = "PCA of the points of each modality and of all together; lines join those of one sample."
            found.append(_chart(MODAL_MAP, note, svg(draw_modal_map(self.modalities), MODAL_MAP)))
        return found

    def _method(self) -> str:
        if self.map == "umap":
            return "UMAP: neighbours stay together, but long distances mean little."
        return "PCA: the two directions in which the points vary most."


def gather_space(data: HeldOut, method: str) -> SpaceData:
    return SpaceData(similarity_histogram(data), sample_pairs(data), method)


def gather_modal_space(encoded: Encoded) -> SpaceData:
    """The map of the samples that have all modalities."""
    model, source, size = encoded.model, encoded.source, encoded.settings.batch_size
    assert isinstance(model, ModalModel)
    assert has_modalities(source)
    rows = torch.stack([source.present(name) for name in model.modalities]).all(0).nonzero()[:, 0]
    subsets = {**{name: (name,) for name in model.modalities}, JOINT: model.modalities}
    codes = {name: subset_codes(model, source, some, "codes", size)[rows] for name, some in subsets.items()}
    return SpaceData(modalities=make_modal_map(codes, model.space) if len(rows) else None)


def _drawn(sample: Sample) -> str:
    pairs = len(sample.points) // 2
    which = f"All {pairs:,} pairs" if pairs == sample.of else f"{pairs:,} of {sample.of:,} pairs, evenly spaced"
    joined = "" if pairs <= LINES else f" {LINES} of"
    return f"{which}; lines join{joined} the images and their captions."


def _chart(title: str, note: str, picture: str) -> dict[str, Any]:
    from markupsafe import Markup

    return {"title": title, "note": note, "svg": Markup(picture)}
