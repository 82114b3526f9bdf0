"""Views, and copies that rearrange, join or pad."""
