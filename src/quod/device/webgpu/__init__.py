"""GPUs through WebGPU (`wgpu`)."""
