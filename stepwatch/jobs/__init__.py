"""What is put in motion: one verb a module, load, decide, save."""
