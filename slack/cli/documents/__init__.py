"""The documents of `-o json` and `-o yaml`, field by field: a module a command. Declared here, made elsewhere."""
