"""What a release is made of and how it is made: version, packages, plugin, bill of materials, sums.

Nothing here is installed. `make release` builds into `dist`; `make release-check` installs from it, each in a place
where nothing else is. Registries, addresses and names come from variables; none is written here.
"""
