"""Matrix products: one template for all shapes, layouts and dtypes."""
