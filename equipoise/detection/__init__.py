"""Regions and tags of pictures: detectors from files or without any, and the side data they leave for training."""

from __future__ import annotations

from equipoise.detection.detect import Detection, DetectionRequest, detect
from equipoise.detection.detector import AnnotationDetector, DetectedRegions, Detector, SaliencyDetector
from equipoise.detection.external import open_detector
from equipoise.detection.phrases import Phrases

__all__ = [
    "AnnotationDetector",
    "DetectedRegions",
    "Detection",
    "DetectionRequest",
    "Detector",
    "Phrases",
    "SaliencyDetector",
    "detect",
    "open_detector",
]
