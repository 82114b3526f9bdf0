"""Pooling over windows of images, in the forms that shapes allow."""
