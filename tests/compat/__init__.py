"""mqstore held against the real Apache RocketMQ 4.9.3 store: recorded stores, and the store itself."""
