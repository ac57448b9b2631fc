import torch

# Models here are so small that threads, above all those of several test processes, only wait for each other.
torch.set_num_threads(1)
