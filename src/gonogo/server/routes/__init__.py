"""The paths of the protocol, by what they are about."""
