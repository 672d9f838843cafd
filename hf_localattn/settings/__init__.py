"""Options of training: each is declared once, by the dataclass that takes it. No module here imports torch."""
