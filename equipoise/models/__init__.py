"""Encoders, readouts, a space and a temperature put together, and the folder such a model is kept in."""
