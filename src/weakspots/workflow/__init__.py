"""What Snakemake and the commands share: where files lie, what stages depend on, provenance, tracking."""
