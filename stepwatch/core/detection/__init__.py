"""Where does one level become another?"""

from stepwatch.core.detection.describe import Detection, Drift
from stepwatch.core.detection.detect import Growing, detect
from stepwatch.core.detection.noise import noise_of_values
from stepwatch.core.detection.settings import DetectionSettings

__all__ = ["Detection", "DetectionSettings", "Drift", "Growing", "detect", "noise_of_values"]
