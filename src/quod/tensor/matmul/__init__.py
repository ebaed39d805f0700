"""Matrix products: f32, 16 bits, 8 bits and int8."""
