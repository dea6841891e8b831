"""The documents of `-o json` and `-o yaml`, field by field: a module per companion. Declared here, made elsewhere."""
