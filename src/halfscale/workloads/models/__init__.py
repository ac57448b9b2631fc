"""Models, one file each; `build` takes the config's model_args and returns a torch.nn.Module."""
