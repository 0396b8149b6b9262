"""The client side: connections, pools, and the way to the Master."""
