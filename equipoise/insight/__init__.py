"""What a trained model shows about itself and its data."""
