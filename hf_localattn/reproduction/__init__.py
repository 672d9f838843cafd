"""The papers' tables and figures: recipes as data, and what runs them and sets measured beside published numbers."""
