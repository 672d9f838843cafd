"""Demo page for a checkpoint, on this machine or as a Space on the Hub."""
