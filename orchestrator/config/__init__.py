"""Configuration: schema, resolution, catalogue of models, presets."""
