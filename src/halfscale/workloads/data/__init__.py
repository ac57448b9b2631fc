"""Data, one file each; `build` takes the block's seed and the config's data_args and returns a Data."""
