"""A guest that its user made, over SSH: `driver`, and how its NICs are found."""
