"""Several Broker processes of one machine: which there are to be, and their parent."""
