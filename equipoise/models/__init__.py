"""The model: encoders, readouts, a space and a logit scale put together, and the folder it is saved in."""
