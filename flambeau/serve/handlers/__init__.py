"""How kinds of models read requests and write answers: programs over tensors, sentences, generated text, Python handlers."""
