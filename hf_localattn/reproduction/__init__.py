"""The papers' tables and figures: tables as data, a plan of their runs, a loop and a report."""
