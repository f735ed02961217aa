"""Where does one level become another?"""

from stepwatch.core.detection.detect import Detection, detect
from stepwatch.core.detection.noise import noise_of_values
from stepwatch.core.detection.settings import DetectionSettings

__all__ = ["Detection", "DetectionSettings", "detect", "noise_of_values"]
