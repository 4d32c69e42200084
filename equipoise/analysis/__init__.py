"""What a trained model, or a run, shows about itself and its data: temperature, topology, cost, noise."""
