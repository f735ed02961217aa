"""What is measured: an asv suite that imports nothing of stepwatch."""
