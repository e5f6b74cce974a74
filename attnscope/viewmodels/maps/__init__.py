"""How maps are cut, blended, tiled and named."""
