"""The server side: listening, connections, requests and the budget for responses."""
