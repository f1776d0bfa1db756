"""The encoder: pure torch, without files, configuration or trainer."""
