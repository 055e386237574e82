"""How well a model works with gonogo: ten small repositories, each with a hidden check."""
