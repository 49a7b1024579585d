"""planforge: builds TensorRT engines with custom CUDA plugins, keeps them, and serves them."""
