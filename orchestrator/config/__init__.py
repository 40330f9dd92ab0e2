"""Configuration: options, schema, resolution, catalogue of models, presets."""
