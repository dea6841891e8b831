"""The modelled cluster: its state, scheduler, controllers and operator, and what is measured of them."""
