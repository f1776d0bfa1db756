"""Lightning modules and data modules: pre-training, fine-tuning, optimiser, metrics,
checkpoints."""
