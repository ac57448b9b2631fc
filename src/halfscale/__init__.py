"""halfscale: what half precision does to training, measured."""
