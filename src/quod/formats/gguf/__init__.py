"""Model files of llama.cpp (`.gguf`)."""
