"""TorchScript archives: the container (`container`), its pickles (`unpickler`, `pickler`), and programs in them (`loading`,
`saving`)."""
