"""What the container image is made from, beside the Dockerfile."""
